import { Readable } from 'node:stream';
import { app } from '@azure/functions';

app.setup({ enableHttpStream: true });

app.http('echo', {
    route: 'echo/{name}',
    methods: ['POST'],
    handler: (request) => ({ body: request.body, headers: { 'x-url': request.url, 'x-name': request.params.name } }),
});

app.http('breaks', {
    handler: () => {
        async function* chunks() {
            yield 'a first part';
            throw new Error('in the middle');
        }
        return { body: Readable.toWeb(Readable.from(chunks())) };
    },
});

app.http('fails', {
    handler: () => {
        throw new Error('before');
    },
});

app.http('nothing', { handler: () => undefined });
