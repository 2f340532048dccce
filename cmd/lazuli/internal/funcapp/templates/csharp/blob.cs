using Microsoft.Azure.Functions.Worker;
using Microsoft.Extensions.Logging;

namespace App;

public class NAME(ILogger<NAME> logger)
{
    [Function("NAME")]
    public void Run([BlobTrigger("samples/{blob}", Connection = "AzureWebJobsStorage")] byte[] content, string blob)
    {
        logger.LogInformation("NAME got the blob {blob} of {length} bytes", blob, content.Length);
    }
}
