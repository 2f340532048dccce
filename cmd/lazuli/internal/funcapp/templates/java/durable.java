package app;

import com.microsoft.azure.functions.HttpMethod;
import com.microsoft.azure.functions.HttpRequestMessage;
import com.microsoft.azure.functions.HttpResponseMessage;
import com.microsoft.azure.functions.annotation.AuthorizationLevel;
import com.microsoft.azure.functions.annotation.FunctionName;
import com.microsoft.azure.functions.annotation.HttpTrigger;
import com.microsoft.durabletask.TaskOrchestrationContext;
import com.microsoft.durabletask.azurefunctions.DurableActivityTrigger;
import com.microsoft.durabletask.azurefunctions.DurableClientContext;
import com.microsoft.durabletask.azurefunctions.DurableClientInput;
import com.microsoft.durabletask.azurefunctions.DurableOrchestrationTrigger;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/** NAME: a workflow with an activity, and an HTTP function that starts it. */
public class NAME {
    /** What the activity gets. Of a plain String it would get the JSON, with quotation marks. */
    public static class City {
        public String name;
    }

    @FunctionName("NAME_start")
    public HttpResponseMessage start(
            @HttpTrigger(name = "request", methods = {HttpMethod.POST}, authLevel = AuthorizationLevel.LEVEL,
                    route = "NAME/start") HttpRequestMessage<Optional<String>> request,
            @DurableClientInput(name = "client") DurableClientContext client) {
        String instance = client.getClient().scheduleNewOrchestrationInstance("NAME");
        return client.createCheckStatusResponse(request, instance);
    }

    @FunctionName("NAME")
    public List<String> run(@DurableOrchestrationTrigger(name = "context") TaskOrchestrationContext context) {
        List<String> greetings = new ArrayList<>();
        for (String name : List.of("Tokyo", "Seattle", "London")) {
            City city = new City();
            city.name = name;
            greetings.add(context.callActivity("NAME_greet", city, String.class).await());
        }
        return greetings;
    }

    @FunctionName("NAME_greet")
    public String greet(@DurableActivityTrigger(name = "city") City city) {
        return "Hello, " + city.name + "!";
    }
}
