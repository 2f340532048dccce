package app;

import com.microsoft.azure.functions.ExecutionContext;
import com.microsoft.azure.functions.annotation.FunctionName;
import com.microsoft.azure.functions.annotation.TimerTrigger;

public class NAME {
    @FunctionName("NAME")
    public void run(@TimerTrigger(name = "timer", schedule = "0 */5 * * * *") String timer, ExecutionContext context) {
        context.getLogger().info("NAME runs: " + timer);
    }
}
