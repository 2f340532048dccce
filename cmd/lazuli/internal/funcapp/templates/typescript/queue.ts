import { app, InvocationContext } from '@azure/functions';

app.storageQueue('NAME', {
    queueName: 'items',
    connection: 'AzureWebJobsStorage',
    handler: async (item: unknown, context: InvocationContext): Promise<void> => {
        context.log(`NAME got ${JSON.stringify(item)}, attempt ${context.triggerMetadata?.dequeueCount}`);
    },
});
