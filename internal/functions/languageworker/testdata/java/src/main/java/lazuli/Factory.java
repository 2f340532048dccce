package lazuli;

import com.microsoft.azure.functions.spi.inject.FunctionInstanceInjector;

/** Makes the objects of the functions' classes: one of them has a constructor with an argument. */
public class Factory implements FunctionInstanceInjector {
    @Override
    public <T> T getInstance(Class<T> functionClass) throws Exception {
        if (functionClass == Injected.class) {
            return functionClass.cast(new Injected("a service"));
        }
        return functionClass.getDeclaredConstructor().newInstance();
    }
}
