package app;

import com.microsoft.azure.functions.ExecutionContext;
import com.microsoft.azure.functions.annotation.FunctionName;
import com.microsoft.azure.functions.annotation.QueueTrigger;

public class NAME {
    @FunctionName("NAME")
    public void run(
            @QueueTrigger(name = "message", queueName = "items", connection = "AzureWebJobsStorage") String message,
            ExecutionContext context) {
        context.getLogger().info("NAME got the message " + message);
    }
}
