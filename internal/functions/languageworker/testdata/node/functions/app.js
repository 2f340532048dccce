const { app, input, output, trigger } = require('@azure/functions');

const connection = 'AzureWebJobsStorage';
const orders = output.storageQueue({ queueName: 'orders', connection });
const rows = output.table({ tableName: 'Orders', connection });
const row = input.table({ tableName: 'Orders', partitionKey: 'orders', rowKey: '{id}', connection });

app.http('hello', {
    route: 'hello/{who}',
    methods: ['GET', 'POST'],
    authLevel: 'anonymous',
    handler: async (request, context) => {
        context.log('hello, log');
        return {
            body: [request.params.who, request.query.get('q'), await request.text(), request.headers.get('x-a')].join(),
            headers: { 'x-b': 'b' },
            cookies: [{ name: 'c', value: 'v w', httpOnly: true }],
        };
    },
});

app.http('order', {
    methods: ['POST'],
    extraOutputs: [orders, rows],
    handler: async (request, context) => {
        const order = await request.json();
        context.extraOutputs.set(orders, order);
        context.extraOutputs.set(rows, { PartitionKey: 'orders', RowKey: String(order.number), Item: order.item });
        return { status: 202, jsonBody: { accepted: order.number } };
    },
});

app.storageQueue('ship', {
    queueName: 'orders',
    connection,
    return: output.storageBlob({ path: 'slips/{number}.txt', connection }),
    handler: (order, context) => `${order.item}, attempt ${context.triggerMetadata.dequeueCount}`,
});

app.generic('changed', {
    trigger: trigger.generic({ type: 'tableTrigger', tableName: 'Orders' }),
    return: output.storageQueue({ queueName: 'changes', connection }),
    handler: (change) => `${change.Change} ${change.Entity.Item}`,
});

app.http('find', {
    route: 'orders/{id}',
    extraInputs: [row],
    handler: (request, context) => {
        const found = context.extraInputs.get(row);
        return found ? { jsonBody: found } : { status: 404 };
    },
});

app.storageQueue('copy', {
    queueName: 'in-queue',
    connection,
    return: output.storageQueue({ queueName: 'out-queue', connection }),
    handler: (message) => message,
});

app.http('pid', { handler: () => ({ body: String(process.pid) }) });

app.http('fails', {
    handler: () => {
        throw new Error('as it should');
    },
});
