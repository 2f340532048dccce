using Microsoft.Azure.Functions.Worker;
using Microsoft.Extensions.Logging;

namespace App;

public class NAME(ILogger<NAME> logger)
{
    [Function("NAME")]
    public void Run([QueueTrigger("items", Connection = "AzureWebJobsStorage")] string message)
    {
        logger.LogInformation("NAME got the message {message}", message);
    }
}
