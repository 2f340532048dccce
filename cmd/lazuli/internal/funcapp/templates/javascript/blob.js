const { app } = require('@azure/functions');

app.storageBlob('NAME', {
    path: 'samples/{name}',
    connection: 'AzureWebJobsStorage',
    handler: async (blob, context) => {
        context.log(`NAME got the blob ${context.triggerMetadata.name} of ${blob.length} bytes`);
    },
});
