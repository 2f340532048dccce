const { app } = require('@azure/functions');
const df = require('durable-functions');

app.http('start', {
    route: 'start/{flow}',
    methods: ['POST'],
    extraInputs: [df.input.durableClient()],
    handler: async (request, context) => {
        const client = df.getClient(context);
        const id = await client.startNew(request.params.flow, { input: await request.json() });
        return client.waitForCompletionOrCreateCheckStatusResponse(request, id, {
            timeoutInMilliseconds: 60_000,
            retryIntervalInMilliseconds: 100,
        });
    },
});

const attempts = new Map();

df.app.activity('flaky', {
    handler: (key) => {
        const n = (attempts.get(key) ?? 0) + 1;
        attempts.set(key, n);
        if (n < 3) {
            throw new Error(`attempt ${n}`);
        }
        return n;
    },
});

df.app.activity('double', { handler: (n) => 2 * n });

df.app.orchestration('child', function* (context) {
    return yield context.df.callActivity('double', context.df.getInput());
});

df.app.orchestration('flow', function* (context) {
    const retry = new df.RetryOptions(10, 5);
    const tasks = [context.df.callActivityWithRetry('flaky', retry, context.df.instanceId)];
    for (const n of context.df.getInput()) {
        tasks.push(context.df.callSubOrchestrator('child', n));
    }
    const all = yield context.df.Task.all(tasks);
    yield context.df.createTimer(new Date(context.df.currentUtcDateTime.getTime() + 10));
    const event = context.df.waitForExternalEvent('never');
    const timer = context.df.createTimer(new Date(context.df.currentUtcDateTime.getTime() + 10));
    const first = yield context.df.Task.any([event, timer]);
    return [...all, first === timer];
});

df.app.orchestration('countUp', function* (context) {
    const n = context.df.getInput();
    yield context.df.callActivity('double', n);
    if (n < 5) {
        context.df.continueAsNew(n + 1);
        return;
    }
    return n;
});

df.app.orchestration('broken', function* (context) {
    yield context.df.callActivityWithRetry('nothing', new df.RetryOptions(10, 2));
});

df.app.activity('nothing', {
    handler: () => {
        throw new Error('never');
    },
});

// What functions read in the metadata of their triggers, as with bindingData in version 3 of the package.
df.app.activity('ofActivity', {
    handler: (input, context) => {
        const { city, instanceId, data } = context.triggerMetadata;
        return [city, typeof instanceId, data.city];
    },
});

df.app.orchestration('metadata', function* (context) {
    const { input, instanceId } = context.triggerMetadata;
    const own = [input.city, instanceId === context.df.instanceId];
    return own.concat(yield context.df.callActivity('ofActivity', input));
});
