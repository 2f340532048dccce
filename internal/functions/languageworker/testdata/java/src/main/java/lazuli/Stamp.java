package lazuli;

import com.microsoft.azure.functions.internal.spi.middleware.Middleware;
import com.microsoft.azure.functions.internal.spi.middleware.MiddlewareChain;
import com.microsoft.azure.functions.internal.spi.middleware.MiddlewareContext;

/** Changes the result of the function Stamped. */
public class Stamp implements Middleware {
    @Override
    public void invoke(MiddlewareContext context, MiddlewareChain chain) throws Exception {
        chain.doNext(context);
        if ("Stamped".equals(context.getFunctionName())) {
            context.updateReturnValue("stamped " + context.getReturnValue());
        }
    }
}
