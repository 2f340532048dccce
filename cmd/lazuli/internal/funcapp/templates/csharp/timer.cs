using Microsoft.Azure.Functions.Worker;
using Microsoft.Extensions.Logging;

namespace App;

public class NAME(ILogger<NAME> logger)
{
    [Function("NAME")]
    public void Run([TimerTrigger("0 */5 * * * *")] TimerInfo timer)
    {
        logger.LogInformation("NAME runs; the next time is {next}", timer.ScheduleStatus?.Next);
    }
}
