module.exports = async function (context, req, rows) {
    context.bindings.item = { from: req.params.who };
    const form = req.body && req.get('content-type')?.startsWith('multipart/') ? req.parseFormBody().get('f') : undefined;
    context.res = {
        status: 201,
        headers: { 'x-rows': rows.length },
        body: { who: req.params.who, q: req.query.q, body: form ? form.fileName + form.value : req.body },
    };
};
