package lazuli;

import com.microsoft.azure.functions.ExecutionContext;
import com.microsoft.azure.functions.OutputBinding;
import com.microsoft.azure.functions.annotation.BindingName;
import com.microsoft.azure.functions.annotation.BlobInput;
import com.microsoft.azure.functions.annotation.BlobOutput;
import com.microsoft.azure.functions.annotation.BlobTrigger;
import com.microsoft.azure.functions.annotation.EventGridTrigger;
import com.microsoft.azure.functions.annotation.ExponentialBackoffRetry;
import com.microsoft.azure.functions.annotation.FixedDelayRetry;
import com.microsoft.azure.functions.annotation.FunctionName;
import com.microsoft.azure.functions.annotation.QueueOutput;
import com.microsoft.azure.functions.annotation.QueueTrigger;
import com.microsoft.azure.functions.annotation.TimerTrigger;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** Functions with triggers of storage, and timers. */
public class Storage {
    private static final String STORAGE = "AzureWebJobsStorage";

    @FunctionName("QueueText")
    @QueueOutput(name = "$return", queueName = "java-text-out", connection = STORAGE)
    public String text(@QueueTrigger(name = "item", queueName = "java-text", connection = STORAGE) String item) {
        return "got " + item;
    }

    @FunctionName("QueueBytes")
    public void bytes(
            @QueueTrigger(name = "item", queueName = "java-bytes", dataType = "binary", connection = STORAGE) byte[] item,
            @QueueOutput(name = "out", queueName = "java-bytes-out", dataType = "binary", connection = STORAGE)
            OutputBinding<byte[]> out) {
        byte[] turned = new byte[item.length];
        for (int i = 0; i < item.length; i++) {
            turned[i] = item[item.length - 1 - i];
        }
        out.setValue(turned);
    }

    @FunctionName("QueuePojo")
    public void pojo(@QueueTrigger(name = "order", queueName = "java-pojo", connection = STORAGE) Order order,
            @QueueOutput(name = "out", queueName = "java-pojo-out", connection = STORAGE) OutputBinding<Order> out) {
        order.id++;
        out.setValue(order);
    }

    @FunctionName("QueueList")
    public void list(@QueueTrigger(name = "orders", queueName = "java-list", connection = STORAGE) List<Order> orders,
            @QueueOutput(name = "out", queueName = "java-list-out", connection = STORAGE) OutputBinding<List<Order>> out) {
        List<Order> all = new ArrayList<>();
        for (Order order : orders) {
            all.add(new Order(order.id * 10, order.item, order.price));
        }
        out.setValue(all);
    }

    @FunctionName("QueueMap")
    public void map(@QueueTrigger(name = "map", queueName = "java-map", connection = STORAGE) Map<String, Double> map,
            @QueueOutput(name = "out", queueName = "java-map-out", connection = STORAGE) OutputBinding<String> out) {
        out.setValue(String.valueOf(map.get("a") + map.get("b")));
    }

    @FunctionName("QueueMeta")
    public void meta(@QueueTrigger(name = "item", queueName = "java-meta", connection = STORAGE) String item,
            @BindingName("Id") String id, @BindingName("DequeueCount") int count, @BindingName("PopReceipt") String receipt,
            @BindingName("InsertionTime") String inserted, @BindingName("ExpirationTime") String expires,
            @QueueOutput(name = "out", queueName = "java-meta-out", connection = STORAGE) OutputBinding<String> out) {
        out.setValue(item + " " + count + " " + (id.length() == 36) + " " + !receipt.isEmpty() + " "
                + (inserted.compareTo(expires) < 0));
    }

    @FunctionName("QueueNone")
    public void none(@QueueTrigger(name = "item", queueName = "java-silent", connection = STORAGE) String item,
            @QueueOutput(name = "out", queueName = "java-silent-out", connection = STORAGE) OutputBinding<String> out,
            ExecutionContext context) {
        context.getLogger().info("no message for " + item);
    }

    @FunctionName("QueueBlob")
    public void blob(@QueueTrigger(name = "item", queueName = "java-blob", connection = STORAGE) String item,
            @BlobInput(name = "in", path = "java-in/{queueTrigger}.txt", connection = STORAGE) String in,
            @BlobOutput(name = "out", path = "java-copied/{queueTrigger}-{rand-guid}.txt", connection = STORAGE)
            OutputBinding<String> copy,
            @QueueOutput(name = "said", queueName = "java-blob-out", connection = STORAGE) OutputBinding<String> said) {
        copy.setValue(in);
        said.setValue(String.valueOf(in));
    }

    @FunctionName("QueueFails")
    public void fails(@QueueTrigger(name = "item", queueName = "java-fails", connection = STORAGE) String item) {
        throw new IllegalArgumentException("no use for " + item);
    }

    @FunctionName("QueueRetry")
    @FixedDelayRetry(maxRetryCount = 2, delayInterval = "00:00:01")
    @QueueOutput(name = "$return", queueName = "java-retry-out", connection = STORAGE)
    public String retry(@QueueTrigger(name = "item", queueName = "java-retry", connection = STORAGE) String item,
            @BindingName("DequeueCount") int delivery, ExecutionContext context) {
        int count = context.getRetryContext().getRetrycount();
        if (count < 2) {
            throw new RuntimeException("attempt " + count);
        }
        return item + " " + count + " in delivery " + delivery;
    }

    @FunctionName("QueueDies")
    @QueueOutput(name = "$return", queueName = "java-dies-out", connection = STORAGE)
    public String dies(@QueueTrigger(name = "item", queueName = "java-dies", connection = STORAGE) String item,
            @BindingName("DequeueCount") int delivery) {
        if (delivery == 1) {
            Runtime.getRuntime().halt(7);
        }
        return item + " in delivery " + delivery;
    }

    @FunctionName("BlobText")
    public void blobText(@BlobTrigger(name = "blob", path = "java-blobs/{name}.{ext}", connection = STORAGE) String blob,
            @BindingName("name") String name, @BindingName("ext") String ext, @BindingName("Uri") String uri,
            @BindingName("BlobTrigger") String path,
            @QueueOutput(name = "out", queueName = "java-blobs-out", connection = STORAGE) OutputBinding<String> out) {
        out.setValue(blob + " " + name + " " + ext + " " + uri.contains("/java-blobs/") + " " + path);
    }

    @FunctionName("BlobBytes")
    public void blobBytes(
            @BlobTrigger(name = "blob", path = "java-raw/{name}", dataType = "binary", connection = STORAGE) byte[] blob,
            @BlobOutput(name = "out", path = "java-raw-out/{name}", dataType = "binary", connection = STORAGE)
            OutputBinding<byte[]> out) {
        out.setValue(blob);
    }

    @FunctionName("BlobPojo")
    public void blobPojo(@BlobTrigger(name = "order", path = "java-orders/{name}", connection = STORAGE) Order order,
            @BlobOutput(name = "out", path = "java-orders-out/{item}", connection = STORAGE) OutputBinding<Order> out) {
        order.id *= 2;
        out.setValue(order);
    }

    @FunctionName("Tick")
    public void tick(@TimerTrigger(name = "timer", schedule = "0 0 5 1 1 *") String timer,
            @QueueOutput(name = "out", queueName = "java-tick", connection = STORAGE) OutputBinding<String> out) {
        out.setValue(timer);
    }

    @FunctionName("TickRetry")
    @ExponentialBackoffRetry(maxRetryCount = 3, minimumInterval = "00:00:01", maximumInterval = "00:00:02")
    public void tickRetry(@TimerTrigger(name = "timer", schedule = "0 0 5 1 1 *") String timer,
            @QueueOutput(name = "out", queueName = "java-tick-retry", connection = STORAGE) OutputBinding<String> out,
            ExecutionContext context) {
        int count = context.getRetryContext().getRetrycount();
        if (count < 1) {
            throw new RuntimeException("not yet");
        }
        out.setValue("attempt " + count);
    }

    @FunctionName("Event")
    public void event(@EventGridTrigger(name = "event") Event event,
            @QueueOutput(name = "out", queueName = "java-event", connection = STORAGE) OutputBinding<String> out) {
        out.setValue(event.subject + " " + event.data.get("n"));
    }

    /** An event of Event Grid. */
    public static class Event {
        public String subject;
        public Map<String, Object> data;
    }
}
