// NAME: a workflow with an activity, and an HTTP function that starts it.
import { app, HttpRequest, HttpResponse, InvocationContext } from '@azure/functions';
import * as df from 'durable-functions';
import { OrchestrationContext } from 'durable-functions';

app.http('NAME_start', {
    route: 'NAME/start',
    methods: ['POST'],
    extraInputs: [df.input.durableClient()],
    handler: async (request: HttpRequest, context: InvocationContext): Promise<HttpResponse> => {
        const client = df.getClient(context);
        const instance = await client.startNew('NAME', { input: ['Tokyo', 'Seattle', 'London'] });
        return client.createCheckStatusResponse(request, instance);
    },
});

df.app.orchestration('NAME', function* (context: OrchestrationContext) {
    const greetings: string[] = [];
    for (const city of context.df.getInput<string[]>()!) {
        greetings.push(yield context.df.callActivity('NAME_greet', city));
    }
    return greetings;
});

df.app.activity('NAME_greet', { handler: (city: string): string => `Hello, ${city}!` });
