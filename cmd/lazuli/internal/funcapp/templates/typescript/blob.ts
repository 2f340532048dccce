import { app, InvocationContext } from '@azure/functions';

app.storageBlob('NAME', {
    path: 'samples/{name}',
    connection: 'AzureWebJobsStorage',
    handler: async (blob: unknown, context: InvocationContext): Promise<void> => {
        context.log(`NAME got the blob ${context.triggerMetadata?.name} of ${(blob as Buffer).length} bytes`);
    },
});
