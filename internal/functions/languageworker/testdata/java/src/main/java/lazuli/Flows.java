package lazuli;

import com.microsoft.azure.functions.ExecutionContext;
import com.microsoft.azure.functions.HttpMethod;
import com.microsoft.azure.functions.HttpRequestMessage;
import com.microsoft.azure.functions.HttpResponseMessage;
import com.microsoft.azure.functions.HttpStatus;
import com.microsoft.azure.functions.annotation.AuthorizationLevel;
import com.microsoft.azure.functions.annotation.BindingName;
import com.microsoft.azure.functions.annotation.FunctionName;
import com.microsoft.azure.functions.annotation.HttpTrigger;
import com.microsoft.durabletask.DurableTaskClient;
import com.microsoft.durabletask.FailureDetails;
import com.microsoft.durabletask.NewOrchestrationInstanceOptions;
import com.microsoft.durabletask.OrchestrationMetadata;
import com.microsoft.durabletask.OrchestrationStatusQuery;
import com.microsoft.durabletask.RetryPolicy;
import com.microsoft.durabletask.Task;
import com.microsoft.durabletask.TaskCanceledException;
import com.microsoft.durabletask.TaskFailedException;
import com.microsoft.durabletask.TaskOptions;
import com.microsoft.durabletask.TaskOrchestrationContext;
import com.microsoft.durabletask.azurefunctions.DurableActivityTrigger;
import com.microsoft.durabletask.azurefunctions.DurableClientContext;
import com.microsoft.durabletask.azurefunctions.DurableClientInput;
import com.microsoft.durabletask.azurefunctions.DurableOrchestrationTrigger;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicInteger;

/** Workflows, their clients and activities. */
public class Flows {
    private static final AtomicInteger ATTEMPTS = new AtomicInteger();

    /** Starts a workflow with the ID and the input of the request. */
    @FunctionName("FlowStart")
    public HttpResponseMessage start(
            @HttpTrigger(name = "req", methods = {HttpMethod.POST}, authLevel = AuthorizationLevel.ANONYMOUS,
                    route = "flows/{name}") HttpRequestMessage<Optional<String>> req,
            @BindingName("name") String name, @DurableClientInput(name = "client") DurableClientContext durable) {
        NewOrchestrationInstanceOptions options = new NewOrchestrationInstanceOptions()
                .setInput(req.getBody().orElse(null));
        String id = req.getQueryParameters().get("id");
        if (id != null) {
            options.setInstanceId(id);
        }
        return durable.createCheckStatusResponse(req,
                durable.getClient().scheduleNewOrchestrationInstance(name, options));
    }

    /** Starts a workflow, and waits for its end. */
    @FunctionName("FlowRun")
    public HttpResponseMessage run(
            @HttpTrigger(name = "req", methods = {HttpMethod.POST}, authLevel = AuthorizationLevel.ANONYMOUS,
                    route = "run/{name}") HttpRequestMessage<Optional<String>> req,
            @BindingName("name") String name, @DurableClientInput(name = "client") DurableClientContext durable)
            throws Exception {
        DurableTaskClient client = durable.getClient();
        String id = client.scheduleNewOrchestrationInstance(name, (Object) req.getBody().orElse(null));
        return answer(req, client.waitForInstanceCompletion(id, Duration.ofSeconds(60), true));
    }

    @FunctionName("FlowGet")
    public HttpResponseMessage get(
            @HttpTrigger(name = "req", methods = {HttpMethod.GET}, authLevel = AuthorizationLevel.ANONYMOUS,
                    route = "flow/{id}") HttpRequestMessage<Optional<String>> req,
            @BindingName("id") String id, @DurableClientInput(name = "client") DurableClientContext durable) {
        OrchestrationMetadata m = durable.getClient().getInstanceMetadata(id, true);
        if (m == null || !m.isInstanceFound()) {
            return req.createResponseBuilder(HttpStatus.NOT_FOUND).build();
        }
        return answer(req, m);
    }

    @FunctionName("FlowDo")
    public HttpResponseMessage act(
            @HttpTrigger(name = "req", methods = {HttpMethod.POST}, authLevel = AuthorizationLevel.ANONYMOUS,
                    route = "flow/{id}/{action}") HttpRequestMessage<Optional<String>> req,
            @BindingName("id") String id, @BindingName("action") String action,
            @DurableClientInput(name = "client") DurableClientContext durable) {
        DurableTaskClient client = durable.getClient();
        Object result = "done";
        switch (action) {
            case "suspend":
                client.suspendInstance(id, "a pause");
                break;
            case "resume":
                client.resumeInstance(id, "go on");
                break;
            case "terminate":
                client.terminate(id, "an early end");
                break;
            case "purge":
                result = client.purgeInstance(id).getDeletedInstanceCount();
                break;
            case "restart":
                result = client.restartInstance(id, true);
                break;
            case "count":
                result = client.queryInstances(new OrchestrationStatusQuery().setInstanceIdPrefix(id))
                        .getOrchestrationState().size();
                break;
            default:
                client.raiseEvent(id, action, req.getBody().orElse(null));
        }
        return req.createResponseBuilder(HttpStatus.OK).body(String.valueOf(result)).build();
    }

    private static HttpResponseMessage answer(HttpRequestMessage<?> req, OrchestrationMetadata m) {
        Map<String, Object> seen = new LinkedHashMap<>();
        seen.put("name", m.getName());
        seen.put("status", m.getRuntimeStatus().name());
        seen.put("output", m.getSerializedOutput());
        seen.put("custom", m.readCustomStatusAs(String.class));
        seen.put("failure", describe(m.getFailureDetails()));
        return req.createResponseBuilder(HttpStatus.OK).header("Content-Type", "application/json").body(seen).build();
    }

    private static Map<String, Object> describe(FailureDetails f) {
        if (f == null) {
            return null;
        }
        Map<String, Object> seen = new LinkedHashMap<>();
        seen.put("type", f.getErrorType());
        seen.put("message", f.getErrorMessage());
        seen.put("stack", f.getStackTrace() != null && f.getStackTrace().contains("lazuli.Flows"));
        return seen;
    }

    @FunctionName("Chain")
    public String chain(@DurableOrchestrationTrigger(name = "context") TaskOrchestrationContext context) {
        List<String> all = new ArrayList<>();
        for (String city : new String[] {"Tokyo", "Ürümqi", "O\"slo"}) {
            all.add(context.callActivity("Hello", city, String.class).await());
        }
        return String.join(", ", all);
    }

    @FunctionName("FanOut")
    public int fanOut(@DurableOrchestrationTrigger(name = "context") TaskOrchestrationContext context) {
        List<Task<Integer>> tasks = new ArrayList<>();
        for (int i = 1; i <= 10; i++) {
            tasks.add(context.callActivity("Square", i, Integer.class));
        }
        int sum = 0;
        for (int n : context.allOf(tasks).await()) {
            sum += n;
        }
        return sum;
    }

    @FunctionName("Pojo2")
    public Order pojo(@DurableOrchestrationTrigger(name = "context") TaskOrchestrationContext context) {
        return context.callActivity("Reprice", new Order(1, "lamp", 2), Order.class).await();
    }

    @FunctionName("Waits")
    public String waits(@DurableOrchestrationTrigger(name = "context") TaskOrchestrationContext context) {
        context.setCustomStatus("waits for go");
        String got = context.waitForExternalEvent("go", Duration.ofMinutes(5), String.class).await();
        context.setCustomStatus("went");
        return "event " + got;
    }

    @FunctionName("WaitsInVain")
    public String waitsInVain(@DurableOrchestrationTrigger(name = "context") TaskOrchestrationContext context) {
        try {
            return context.waitForExternalEvent("never", Duration.ofMillis(300), String.class).await();
        } catch (TaskCanceledException e) {
            return "timed out";
        }
    }

    @FunctionName("Sleeps")
    public boolean sleeps(@DurableOrchestrationTrigger(name = "context") TaskOrchestrationContext context) {
        java.time.Instant before = context.getCurrentInstant();
        context.createTimer(Duration.ofMillis(500)).await();
        return Duration.between(before, context.getCurrentInstant()).toMillis() >= 500;
    }

    @FunctionName("Fails")
    public String fails(@DurableOrchestrationTrigger(name = "context") TaskOrchestrationContext context) {
        return context.callActivity("Breaks", "deep", String.class).await();
    }

    @FunctionName("Catches")
    public Map<String, Object> catches(@DurableOrchestrationTrigger(name = "context") TaskOrchestrationContext context) {
        try {
            context.callActivity("Breaks", "caught", String.class).await();
            return null;
        } catch (TaskFailedException e) {
            Map<String, Object> seen = describe(e.getErrorDetails());
            seen.put("task", e.getTaskName());
            seen.put("is", e.getErrorDetails().isCausedBy(IllegalStateException.class));
            return seen;
        }
    }

    @FunctionName("Throws2")
    public String orchestrationThrows(@DurableOrchestrationTrigger(name = "context") TaskOrchestrationContext context) {
        throw new UnsupportedOperationException("the workflow itself");
    }

    @FunctionName("Retries")
    public int retries(@DurableOrchestrationTrigger(name = "context") TaskOrchestrationContext context) {
        TaskOptions options = new TaskOptions(new RetryPolicy(5, Duration.ofMillis(100)));
        return context.callActivity("Flaky", null, options, Integer.class).await();
    }

    @FunctionName("Parent")
    public String parent(@DurableOrchestrationTrigger(name = "context") TaskOrchestrationContext context) {
        int sum = context.callSubOrchestrator("FanOut", null, Integer.class).await();
        try {
            context.callSubOrchestrator("Fails", null, String.class).await();
            return "the child did not fail";
        } catch (TaskFailedException e) {
            return sum + " " + e.getErrorDetails().getErrorMessage().contains("deep");
        }
    }

    @FunctionName("Countdown")
    public String countdown(@DurableOrchestrationTrigger(name = "context") TaskOrchestrationContext context) {
        int left = Integer.parseInt(context.getInput(String.class));
        if (left > 0) {
            context.continueAsNew(String.valueOf(left - 1));
            return null;
        }
        return "lift-off";
    }

    @FunctionName("AnyOf")
    public String anyOf(@DurableOrchestrationTrigger(name = "context") TaskOrchestrationContext context) {
        Task<String> event = context.waitForExternalEvent("never", String.class);
        Task<String> activity = context.callActivity("Hello", "first", String.class);
        return context.anyOf(event, activity).await() == activity ? activity.await() : "the event";
    }

    @FunctionName("Hello")
    public String hello(@DurableActivityTrigger(name = "name") String name, ExecutionContext context) {
        context.getLogger().info("greets " + name);
        return "Hello " + name;
    }

    @FunctionName("Square")
    public int square(@DurableActivityTrigger(name = "n") int n) {
        return n * n;
    }

    @FunctionName("Reprice")
    public Order reprice(@DurableActivityTrigger(name = "order") Order order) {
        order.price *= 3;
        return order;
    }

    @FunctionName("Breaks")
    public String breaks(@DurableActivityTrigger(name = "what") String what) {
        throw new IllegalStateException("the activity breaks: " + what);
    }

    @FunctionName("Flaky")
    public int flaky(@DurableActivityTrigger(name = "nothing") String nothing) {
        int n = ATTEMPTS.incrementAndGet();
        if (n < 3) {
            throw new RuntimeException("attempt " + n);
        }
        return n;
    }
}
