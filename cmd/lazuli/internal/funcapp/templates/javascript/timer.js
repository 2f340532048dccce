const { app } = require('@azure/functions');

app.timer('NAME', {
    schedule: '0 */5 * * * *',
    handler: async (timer, context) => {
        context.log(`NAME runs${timer.isPastDue ? ', late' : ''}`);
    },
});
