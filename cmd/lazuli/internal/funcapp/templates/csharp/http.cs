using System.Net;
using Microsoft.Azure.Functions.Worker;
using Microsoft.Azure.Functions.Worker.Http;

namespace App;

public class NAME
{
    [Function("NAME")]
    public async Task<HttpResponseData> Run(
        [HttpTrigger(AuthorizationLevel.LEVEL, "get", "post")] HttpRequestData request)
    {
        var response = request.CreateResponse(HttpStatusCode.OK);
        await response.WriteStringAsync($"Hello, {request.Query["name"] ?? "world"}!");
        return response;
    }
}
