package app;

import com.microsoft.azure.functions.ExecutionContext;
import com.microsoft.azure.functions.annotation.BindingName;
import com.microsoft.azure.functions.annotation.BlobTrigger;
import com.microsoft.azure.functions.annotation.FunctionName;

public class NAME {
    @FunctionName("NAME")
    public void run(
            @BlobTrigger(name = "content", path = "samples/{blob}", dataType = "binary", connection = "AzureWebJobsStorage")
            byte[] content,
            @BindingName("blob") String blob, ExecutionContext context) {
        context.getLogger().info("NAME got the blob " + blob + " of " + content.length + " bytes");
    }
}
