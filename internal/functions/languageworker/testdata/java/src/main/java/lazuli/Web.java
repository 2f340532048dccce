package lazuli;

import com.microsoft.azure.functions.ExecutionContext;
import com.microsoft.azure.functions.HttpMethod;
import com.microsoft.azure.functions.HttpRequestMessage;
import com.microsoft.azure.functions.HttpResponseMessage;
import com.microsoft.azure.functions.HttpStatus;
import com.microsoft.azure.functions.HttpStatusType;
import com.microsoft.azure.functions.OutputBinding;
import com.microsoft.azure.functions.annotation.AuthorizationLevel;
import com.microsoft.azure.functions.annotation.BindingName;
import com.microsoft.azure.functions.annotation.BlobInput;
import com.microsoft.azure.functions.annotation.BlobOutput;
import com.microsoft.azure.functions.annotation.FixedDelayRetry;
import com.microsoft.azure.functions.annotation.FunctionName;
import com.microsoft.azure.functions.annotation.HttpTrigger;
import com.microsoft.azure.functions.annotation.QueueOutput;
import com.microsoft.azure.functions.annotation.TableInput;
import com.microsoft.azure.functions.annotation.TableOutput;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/** Functions with an HTTP trigger. */
public class Web {
    private static final String STORAGE = "AzureWebJobsStorage";

    @FunctionName("Echo")
    public HttpResponseMessage echo(
            @HttpTrigger(name = "req", authLevel = AuthorizationLevel.ANONYMOUS, route = "echo/{*rest}",
                    methods = {HttpMethod.GET, HttpMethod.POST, HttpMethod.PUT, HttpMethod.PATCH, HttpMethod.DELETE})
            HttpRequestMessage<Optional<String>> req, @BindingName("rest") String rest) {
        Map<String, Object> seen = new LinkedHashMap<>();
        seen.put("method", req.getHttpMethod().name());
        seen.put("path", req.getUri().getPath());
        seen.put("rest", rest);
        seen.put("query", req.getQueryParameters());
        seen.put("header", req.getHeaders().get("x-in"));
        seen.put("body", req.getBody().orElse(null));
        return req.createResponseBuilder(HttpStatus.OK).header("Content-Type", "application/json").header("X-Out", "given")
                .body(seen).build();
    }

    @FunctionName("Binary")
    public HttpResponseMessage binary(
            @HttpTrigger(name = "req", authLevel = AuthorizationLevel.ANONYMOUS, methods = {HttpMethod.POST}, dataType = "binary")
            HttpRequestMessage<Optional<byte[]>> req) {
        byte[] body = req.getBody().orElse(new byte[0]);
        return req.createResponseBuilder(HttpStatus.OK).header("Content-Type", "application/x-thing")
                .header("X-Length", String.valueOf(body.length)).body(body).build();
    }

    @FunctionName("Pojo")
    public HttpResponseMessage pojo(
            @HttpTrigger(name = "req", authLevel = AuthorizationLevel.ANONYMOUS, methods = {HttpMethod.POST})
            HttpRequestMessage<Order> req) {
        Order order = req.getBody();
        order.price *= 2;
        return req.createResponseBuilder(HttpStatus.CREATED).header("Content-Type", "application/json").body(order).build();
    }

    @FunctionName("Pojos")
    public HttpResponseMessage pojos(
            @HttpTrigger(name = "req", authLevel = AuthorizationLevel.ANONYMOUS, methods = {HttpMethod.POST})
            HttpRequestMessage<List<Order>> req) {
        double sum = 0;
        for (Order order : req.getBody()) {
            sum += order.price;
        }
        return req.createResponseBuilder(HttpStatus.OK).body(String.valueOf(sum)).build();
    }

    @FunctionName("ReturnsPojo")
    public Order returnsPojo(@HttpTrigger(name = "req", authLevel = AuthorizationLevel.ANONYMOUS)
            HttpRequestMessage<Optional<String>> req) {
        return new Order(7, "lamp", 1.5);
    }

    @FunctionName("ReturnsList")
    public List<String> returnsList(@HttpTrigger(name = "req", authLevel = AuthorizationLevel.ANONYMOUS)
            HttpRequestMessage<Optional<String>> req) {
        return Arrays.asList("a", "Ü", "\"");
    }

    @FunctionName("ReturnsNumber")
    public long returnsNumber(@HttpTrigger(name = "req", authLevel = AuthorizationLevel.ANONYMOUS)
            HttpRequestMessage<Optional<String>> req) {
        return 1L << 60;
    }

    @FunctionName("ReturnsDouble")
    public double returnsDouble(@HttpTrigger(name = "req", authLevel = AuthorizationLevel.ANONYMOUS)
            HttpRequestMessage<Optional<String>> req) {
        return 2.5;
    }

    @FunctionName("ReturnsBytes")
    public byte[] returnsBytes(@HttpTrigger(name = "req", authLevel = AuthorizationLevel.ANONYMOUS)
            HttpRequestMessage<Optional<String>> req) {
        return new byte[] {(byte) 0xff, 0, 1};
    }

    @FunctionName("ReturnsNothing")
    public void returnsNothing(@HttpTrigger(name = "req", authLevel = AuthorizationLevel.ANONYMOUS)
            HttpRequestMessage<Optional<String>> req) {
    }

    @FunctionName("Teapot")
    public HttpResponseMessage teapot(@HttpTrigger(name = "req", authLevel = AuthorizationLevel.ANONYMOUS)
            HttpRequestMessage<Optional<String>> req) {
        return req.createResponseBuilder(HttpStatusType.custom(418)).header("X-Kind", "pot").build();
    }

    @FunctionName("Thing")
    public String thing(@HttpTrigger(name = "req", authLevel = AuthorizationLevel.ANONYMOUS, route = "things/{id:int}/{name}")
            HttpRequestMessage<Optional<String>> req, @BindingName("id") int id, @BindingName("name") String name) {
        return (id + 1) + " " + name;
    }

    @FunctionName("Throws")
    public String fails(@HttpTrigger(name = "req", authLevel = AuthorizationLevel.ANONYMOUS)
            HttpRequestMessage<Optional<String>> req) {
        throw new IllegalStateException("it is broken", new RuntimeException("the cause"));
    }

    @FunctionName("Logs")
    public String logs(@HttpTrigger(name = "req", authLevel = AuthorizationLevel.ANONYMOUS)
            HttpRequestMessage<Optional<String>> req,
            ExecutionContext context) {
        context.getLogger().fine("a fine word");
        context.getLogger().info("an info word");
        context.getLogger().warning("a warning word");
        context.getLogger().log(java.util.logging.Level.SEVERE, "a severe word", new RuntimeException("logged, not thrown"));
        System.out.println("a printed word");
        return "logged";
    }

    @FunctionName("Context")
    public HttpResponseMessage context(@HttpTrigger(name = "req", authLevel = AuthorizationLevel.ANONYMOUS)
            HttpRequestMessage<Optional<String>> req, ExecutionContext context) {
        Map<String, Object> seen = new LinkedHashMap<>();
        seen.put("function", context.getFunctionName());
        seen.put("invocation", context.getInvocationId());
        seen.put("trace", context.getTraceContext().getTraceparent());
        seen.put("setting", System.getenv("OWN_SETTING"));
        seen.put("folder", System.getProperty("user.dir"));
        return req.createResponseBuilder(HttpStatus.OK).header("Content-Type", "application/json").body(seen).build();
    }

    @FunctionName("Outputs")
    public HttpResponseMessage outputs(
            @HttpTrigger(name = "req", authLevel = AuthorizationLevel.ANONYMOUS, methods = {HttpMethod.POST})
            HttpRequestMessage<Order> req,
            @QueueOutput(name = "one", queueName = "java-one", connection = STORAGE) OutputBinding<Order> one,
            @QueueOutput(name = "many", queueName = "java-many", connection = STORAGE) OutputBinding<List<String>> many,
            @QueueOutput(name = "none", queueName = "java-none", connection = STORAGE) OutputBinding<String> none,
            @BlobOutput(name = "blob", path = "java-out/{item}.bin", dataType = "binary", connection = STORAGE)
            OutputBinding<byte[]> blob,
            @TableOutput(name = "row", tableName = "JavaRows", connection = STORAGE) OutputBinding<List<Row>> rows) {
        Order order = req.getBody();
        one.setValue(order);
        many.setValue(Arrays.asList("first", "{\"second\": 2}"));
        blob.setValue(new byte[] {0, (byte) order.id, (byte) 0xfe});
        rows.setValue(Arrays.asList(new Row("p", "1", order.item), new Row("p", "2", "other")));
        return req.createResponseBuilder(HttpStatus.ACCEPTED).build();
    }

    @FunctionName("Rows")
    public Row[] rows(
            @HttpTrigger(name = "req", authLevel = AuthorizationLevel.ANONYMOUS, route = "rows/{partition}")
            HttpRequestMessage<Optional<String>> req,
            @TableInput(name = "rows", tableName = "JavaRows", partitionKey = "{partition}", take = "5", connection = STORAGE)
            Row[] rows) {
        return rows;
    }

    @FunctionName("Row")
    public String row(
            @HttpTrigger(name = "req", authLevel = AuthorizationLevel.ANONYMOUS, route = "row/{partition}/{key}")
            HttpRequestMessage<Optional<String>> req,
            @TableInput(name = "row", tableName = "JavaRows", partitionKey = "{partition}", rowKey = "{key}",
                    connection = STORAGE) Row row) {
        return row == null ? "no row" : row.Name;
    }

    @FunctionName("ReadBlob")
    public String readBlob(
            @HttpTrigger(name = "req", authLevel = AuthorizationLevel.ANONYMOUS, route = "blob/{name}")
            HttpRequestMessage<Optional<String>> req,
            @BlobInput(name = "blob", path = "java-read/{name}", connection = STORAGE) String blob) {
        return blob == null ? "no blob" : "read " + blob;
    }

    @FunctionName("Retried")
    @FixedDelayRetry(maxRetryCount = 2, delayInterval = "00:00:01")
    public String retried(@HttpTrigger(name = "req", authLevel = AuthorizationLevel.ANONYMOUS)
            HttpRequestMessage<Optional<String>> req,
            ExecutionContext context) {
        int count = context.getRetryContext().getRetrycount();
        if (count < 2) {
            throw new RuntimeException("attempt " + count);
        }
        return count + " of " + context.getRetryContext().getMaxretrycount();
    }

    @FunctionName("Stamped")
    public String stamped(@HttpTrigger(name = "req", authLevel = AuthorizationLevel.ANONYMOUS)
            HttpRequestMessage<Optional<String>> req) {
        return "result";
    }

    @FunctionName("Slow")
    public String slow(@HttpTrigger(name = "req", authLevel = AuthorizationLevel.ANONYMOUS)
            HttpRequestMessage<Optional<String>> req,
            ExecutionContext context) throws InterruptedException {
        context.getLogger().info("slow begins");
        Thread.sleep(1500);
        context.getLogger().info("slow ends");
        return "slow";
    }

    @FunctionName("Die")
    public String die(@HttpTrigger(name = "req", authLevel = AuthorizationLevel.ANONYMOUS)
            HttpRequestMessage<Optional<String>> req) {
        Runtime.getRuntime().halt(7);
        return "";
    }

    @FunctionName("ProcessId")
    public String processId(@HttpTrigger(name = "req", authLevel = AuthorizationLevel.ANONYMOUS)
            HttpRequestMessage<Optional<String>> req) {
        return String.valueOf(ProcessHandle.current().pid());
    }

    @FunctionName("Keyed")
    public String keyed(@HttpTrigger(name = "req", authLevel = AuthorizationLevel.FUNCTION)
            HttpRequestMessage<Optional<String>> req) {
        return "keyed";
    }

    /** An entity of a table. */
    public static class Row {
        public String PartitionKey;
        public String RowKey;
        public String Name;

        public Row() {
        }

        public Row(String partition, String key, String name) {
            PartitionKey = partition;
            RowKey = key;
            Name = name;
        }
    }
}
