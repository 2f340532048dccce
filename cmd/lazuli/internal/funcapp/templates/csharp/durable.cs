using Microsoft.Azure.Functions.Worker;
using Microsoft.Azure.Functions.Worker.Http;
using Microsoft.DurableTask;
using Microsoft.DurableTask.Client;

namespace App;

// NAME: a workflow with an activity, and an HTTP function that starts it.
public static class NAME
{
    [Function("NAME_start")]
    public static async Task<HttpResponseData> Start(
        [HttpTrigger(AuthorizationLevel.LEVEL, "post", Route = "NAME/start")] HttpRequestData request,
        [DurableClient] DurableTaskClient client)
    {
        var instance = await client.ScheduleNewOrchestrationInstanceAsync("NAME", new[] { "Tokyo", "Seattle", "London" });
        return await client.CreateCheckStatusResponseAsync(request, instance);
    }

    [Function("NAME")]
    public static async Task<List<string>> Run([OrchestrationTrigger] TaskOrchestrationContext context)
    {
        var greetings = new List<string>();
        foreach (var city in context.GetInput<string[]>()!)
        {
            greetings.Add(await context.CallActivityAsync<string>("NAME_greet", city));
        }
        return greetings;
    }

    [Function("NAME_greet")]
    public static string Greet([ActivityTrigger] string city) => $"Hello, {city}!";
}
