package app;

import com.microsoft.azure.functions.HttpMethod;
import com.microsoft.azure.functions.HttpRequestMessage;
import com.microsoft.azure.functions.HttpResponseMessage;
import com.microsoft.azure.functions.HttpStatus;
import com.microsoft.azure.functions.annotation.AuthorizationLevel;
import com.microsoft.azure.functions.annotation.FunctionName;
import com.microsoft.azure.functions.annotation.HttpTrigger;
import java.util.Optional;

public class NAME {
    @FunctionName("NAME")
    public HttpResponseMessage run(
            @HttpTrigger(name = "request", methods = {HttpMethod.GET, HttpMethod.POST}, authLevel = AuthorizationLevel.LEVEL)
            HttpRequestMessage<Optional<String>> request) {
        String name = request.getQueryParameters().getOrDefault("name", "world");
        return request.createResponseBuilder(HttpStatus.OK).body("Hello, " + name + "!").build();
    }
}
