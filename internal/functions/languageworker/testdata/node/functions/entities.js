const { app } = require('@azure/functions');
const df = require('durable-functions');

df.app.entity('counter', (context) => {
    const value = context.df.getState(() => 0);
    switch (context.df.operationName) {
        case 'add':
            context.df.setState(value + context.df.getInput());
            context.df.return(value + context.df.getInput());
            break;
        case 'get':
            context.df.return(value);
            break;
        case 'reset':
            context.df.destructOnExit();
            break;
        case 'tell':
            context.df.signalEntity(new df.EntityId('counter', context.df.getInput()), 'add', value);
            break;
        default:
            throw new Error('no such operation');
    }
});

df.app.orchestration('counts', function* (context) {
    const me = new df.EntityId('counter', context.df.instanceId);
    context.df.signalEntity(me, 'add', 1);
    const first = yield context.df.callEntity(me, 'add', 5);
    const doubled = yield context.df.callActivity('double', 4);
    const several = yield context.df.Task.all([10, 20].map((n) => context.df.callEntity(me, 'add', n)));
    let caught = '';
    try {
        yield context.df.callEntity(me, 'explode');
    } catch (err) {
        caught = err.message;
    }
    context.df.signalEntity(me, 'add', 1);
    const last = yield context.df.callEntity(me, 'get');
    return [first, doubled, several, caught !== '', last];
});

// transfer moves an amount between two accounts that it has locked.
df.app.orchestration('transfer', function* (context) {
    const { from, to, amount } = context.df.getInput();
    const a = new df.EntityId('counter', from);
    const b = new df.EntityId('counter', to);
    const lock = yield context.df.lock(b, a);
    const before = yield context.df.callEntity(a, 'get');
    yield context.df.callActivity('double', amount); // Others have time to come between.
    yield context.df.callEntity(a, 'add', -amount);
    yield context.df.callEntity(b, 'add', amount);
    const after = yield context.df.callEntity(a, 'get');
    const locked = context.df.isLocked().isLocked;
    lock.release();
    const doubled = yield context.df.callActivity('double', 3);
    return [before - after, locked, context.df.isLocked().isLocked, doubled];
});

df.app.orchestration('fetches', function* (context) {
    const base = context.df.getInput();
    const both = yield context.df.Task.all([
        context.df.callHttp({ method: 'POST', url: `${base}/api/operation`, body: { n: 1 } }),
        context.df.callActivity('double', 21),
    ]);
    const plain = yield context.df.callHttp({ method: 'POST', url: `${base}/api/operation`, enablePolling: false });
    const missing = yield context.df.callHttp({ method: 'GET', url: `${base}/api/none` });
    const after = yield context.df.callActivity('double', 4);
    return [both[0].statusCode, both[0].content, both[1], plain.statusCode, missing.statusCode, after];
});

const looked = new Map();

// operation is done at the third look at it.
app.http('operation', {
    route: 'operation/{id?}',
    methods: ['GET', 'POST'],
    handler: (request) => {
        let id = request.params.id;
        if (request.method === 'POST') {
            id = String(looked.size);
            looked.set(id, 0);
        } else {
            looked.set(id, looked.get(id) + 1);
        }
        if (looked.get(id) < 3) {
            return { status: 202, body: 'not yet', headers: { location: `/api/operation/${id}`, 'retry-after': '0' } };
        }
        return { body: 'done' };
    },
});

app.http('entity', {
    route: 'entity/{key}/{operation?}',
    methods: ['GET', 'POST'],
    extraInputs: [df.input.durableClient()],
    handler: async (request, context) => {
        const client = df.getClient(context);
        const target = new df.EntityId('counter', request.params.key);
        if (request.method === 'POST') {
            const body = await request.text();
            await client.signalEntity(target, request.params.operation, body ? JSON.parse(body) : undefined);
            return { status: 202 };
        }
        const found = await client.readEntityState(target);
        return { jsonBody: [found.entityExists, found.entityState ?? null] };
    },
});

app.http('control', {
    route: 'control/{action}/{id}',
    methods: ['POST'],
    extraInputs: [df.input.durableClient()],
    handler: async (request, context) => {
        const client = df.getClient(context);
        const { action, id } = request.params;
        if (action === 'start') {
            await client.startNew(await request.text(), { instanceId: id });
        } else if (action === 'raise') {
            await client.raiseEvent(id, 'go', 'a client');
        } else if (action !== 'status') {
            await client[action](id, 'by hand');
        }
        const status = await client.getStatus(id);
        return { jsonBody: [status.runtimeStatus, status.output] };
    },
});

const attempts = new Map();

df.app.activity('secondTime', {
    handler: (key) => {
        attempts.set(key, (attempts.get(key) ?? 0) + 1);
        if (attempts.get(key) < 2) {
            throw new Error('the first time');
        }
        return attempts.get(key);
    },
});

df.app.orchestration('once', function* (context) {
    const first = yield context.df.callActivity('double', 1);
    const second = yield context.df.callActivity('secondTime', context.df.instanceId);
    return [first, second];
});

df.app.orchestration('waits', function* (context) {
    return yield context.df.waitForExternalEvent('go');
});
