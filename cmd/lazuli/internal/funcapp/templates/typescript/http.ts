import { app, HttpRequest, HttpResponseInit, InvocationContext } from '@azure/functions';

app.http('NAME', {
    methods: ['GET', 'POST'],
    authLevel: 'LEVEL',
    handler: async (request: HttpRequest, context: InvocationContext): Promise<HttpResponseInit> => {
        const name = request.query.get('name') || (await request.text()) || 'world';
        context.log(`NAME was called by ${name}`);
        return { body: `Hello, ${name}!` };
    },
});
