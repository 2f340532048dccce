import { app, InvocationContext, Timer } from '@azure/functions';

app.timer('NAME', {
    schedule: '0 */5 * * * *',
    handler: async (timer: Timer, context: InvocationContext): Promise<void> => {
        context.log(`NAME runs${timer.isPastDue ? ', late' : ''}`);
    },
});
