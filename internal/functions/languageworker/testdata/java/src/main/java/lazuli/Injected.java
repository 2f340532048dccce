package lazuli;

import com.microsoft.azure.functions.HttpRequestMessage;
import com.microsoft.azure.functions.annotation.AuthorizationLevel;
import com.microsoft.azure.functions.annotation.FunctionName;
import com.microsoft.azure.functions.annotation.HttpTrigger;
import java.util.Optional;

/** A class that Factory makes. */
public class Injected {
    private final String service;

    public Injected(String service) {
        this.service = service;
    }

    @FunctionName("Injected")
    public String injected(@HttpTrigger(name = "req", authLevel = AuthorizationLevel.ANONYMOUS)
            HttpRequestMessage<Optional<String>> req) {
        return service;
    }
}
