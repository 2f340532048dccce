const { app } = require('@azure/functions');

app.storageQueue('NAME', {
    queueName: 'items',
    connection: 'AzureWebJobsStorage',
    handler: async (item, context) => {
        context.log(`NAME got ${JSON.stringify(item)}, attempt ${context.triggerMetadata.dequeueCount}`);
    },
});
