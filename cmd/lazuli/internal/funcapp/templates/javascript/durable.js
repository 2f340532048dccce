// NAME: a workflow with an activity, and an HTTP function that starts it.
const { app } = require('@azure/functions');
const df = require('durable-functions');

app.http('NAME_start', {
    route: 'NAME/start',
    methods: ['POST'],
    extraInputs: [df.input.durableClient()],
    handler: async (request, context) => {
        const client = df.getClient(context);
        const instance = await client.startNew('NAME', { input: ['Tokyo', 'Seattle', 'London'] });
        return client.createCheckStatusResponse(request, instance);
    },
});

df.app.orchestration('NAME', function* (context) {
    const greetings = [];
    for (const city of context.df.getInput()) {
        greetings.push(yield context.df.callActivity('NAME_greet', city));
    }
    return greetings;
});

df.app.activity('NAME_greet', { handler: (city) => `Hello, ${city}!` });
