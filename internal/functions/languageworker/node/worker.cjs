'use strict';
// The worker process of a function app in JavaScript: connects to the host, loads the app, and runs invocations.
//
//   node worker.cjs --functions-uri http://127.0.0.1:PORT --functions-worker-id ID --functions-request-id ID
//     [--functions-grpc-max-message-length BYTES]

if (Number(process.versions.node.split('.')[0]) < 18) {
    console.error(`Node.js ${process.versions.node} is too old: functions need Node.js 18 or later`);
    process.exit(2);
}

const inspector = require('node:inspector');
const { parseArgs } = require('node:util');
const app = require('./app.cjs');
const core = require('./core.cjs');
const model3 = require('./model3.cjs');
const proto = require('./proto.cjs');
const stream = require('./stream.cjs');
const tracing = require('./tracing.cjs');

const { worker, SystemError } = core;

function workerMetadata() {
    const model = worker.app.model;
    return {
        runtimeName: 'node',
        runtimeVersion: process.versions.node,
        workerBitness: process.arch === 'ia32' ? 'x86' : process.arch,
        workerVersion: core.version,
        customProperties: model ? { modelName: model.name, modelVersion: model.version } : {},
    };
}

// capabilities are the forms of messages that this worker takes, and those that the app's model adds.
async function capabilities() {
    const own = {
        RawHttpBodyBytes: 'true',
        RpcHttpTriggerMetadataRemoved: 'true',
        RpcHttpBodyOnly: 'true',
        IgnoreEmptyValuedRpcHttpHeaders: 'true',
        UseNullableValueDictionaryForHttp: 'true',
        WorkerStatus: 'true',
        TypedDataCollection: 'true',
        HandlesWorkerTerminateMessage: 'true',
    };
    const model = worker.app.model;
    return model?.getCapabilities ? model.getCapabilities(own) : own;
}

async function invoke(request) {
    const registered = worker.app.functions.get(request.functionId);
    if (!registered) {
        throw new SystemError(`Function code for '${request.functionId}' is not loaded and cannot be invoked.`);
    }
    const { metadata } = registered;
    const { invocationId } = request;
    const category = `${metadata.name}.Invocation`;
    const context = {
        invocationId,
        request,
        metadata,
        state: undefined,
        log: (level, logCategory, message) => worker.log(level, logCategory, message, { invocationId, category }),
    };
    context.log('debug', 'system',
        `Worker ${worker.id} received FunctionInvocationRequest with invocationId ${invocationId}`);
    const during = async (state, act) => {
        context.state = state;
        try {
            return await act();
        } finally {
            context.state = undefined;
        }
    };

    const model = await worker.app.model.getInvocationModel(context);
    const { context: own, inputs } = await model.getArguments();
    const hookData = {};
    const shared = {
        hookData: () => hookData,
        appHookData: () => worker.app.appHookData,
        invocationContext: () => own,
    };
    const pre = core.readOnly(shared, { functionCallback: registered.callback, inputs });
    await during('preInvocationHooks', () => core.runHooks('preInvocation', pre, { invocationId, category }));
    const post = core.readOnly(shared, { inputs: pre.inputs, result: null, error: null });
    await during('invocation', async () => {
        try {
            post.result = await model.invokeFunction(own, pre.inputs, pre.functionCallback);
        } catch (err) {
            post.error = err === undefined || err === null ? new Error('Unknown error') : err;
        }
    });
    await during('postInvocationHooks', () => core.runHooks('postInvocation', post, { invocationId, category }));
    if (post.error !== null && post.error !== undefined) {
        throw post.error;
    }
    return model.getResponse(own, post.result);
}

async function loadOne(request) {
    if (worker.app.startError) {
        throw worker.app.startError;
    }
    if (!worker.app.indexed && !request.metadata.isProxy) {
        await app.loadFunction(request.functionId, request.metadata);
    }
    return {};
}

// handlers answer requests of the host: name is that of the response, base its part that is there after an error too.
const handlers = {
    workerInitRequest: {
        name: 'workerInitResponse',
        base: () => ({ workerMetadata: workerMetadata() }),
        async handle(request) {
            worker.hostVersion = request.hostVersion;
            worker.log('debug', 'system', `Worker ${worker.id} received WorkerInitRequest`);
            if (request.functionAppDirectory) {
                await app.start(request.functionAppDirectory);
            }
            return { workerMetadata: workerMetadata(), capabilities: await capabilities() };
        },
    },
    functionsMetadataRequest: {
        name: 'functionMetadataResponse',
        base: () => ({ useDefaultMetadataIndexing: !worker.app.indexed }),
        async handle() {
            worker.app.locked = true;
            worker.log('debug', 'system', `Worker ${worker.id} received FunctionsMetadataRequest`);
            if (worker.app.startError) {
                throw worker.app.startError;
            }
            const functionMetadataResults = worker.app.indexed
                ? [...worker.app.functions.values()].map((f) => ({ ...f.metadata, language: 'node' })) : [];
            return { functionMetadataResults, useDefaultMetadataIndexing: !worker.app.indexed };
        },
    },
    functionLoadRequest: {
        name: 'functionLoadResponse',
        base: (request) => ({ functionId: request.functionId }),
        handle: loadOne,
    },
    functionLoadRequestCollection: {
        name: 'functionLoadResponseCollection',
        collection: true,
        async handle(request) {
            const functionLoadResponses = [];
            for (const one of request.functionLoadRequests) {
                functionLoadResponses.push(await answer(handlers.functionLoadRequest, one));
            }
            return { functionLoadResponses };
        },
    },
    invocationRequest: {
        name: 'invocationResponse',
        base: (request) => ({ invocationId: request.invocationId }),
        handle: (request) => tracing.during(request, () => invoke(request)),
    },
};

// failure is the result of an error. Where the worker itself found it, its stack says nothing to the app's author.
function failure(err) {
    const stackTrace = err instanceof SystemError ? undefined : err.stack;
    return { status: 'failure', exception: { message: err.message, stackTrace, type: err.name } };
}

async function answer(handler, request) {
    const base = handler.base?.(request) ?? {};
    try {
        const response = { ...base, ...(await handler.handle(request)) };
        return handler.collection ? response : { ...response, result: { status: 'success' } };
    } catch (thrown) {
        const err = app.toError(thrown);
        if (err.isAzureFunctionsSystemError) {
            worker.log('error', 'system', err.message);
        }
        return { ...(handler.base?.(request) ?? {}), result: failure(err) };
    }
}

async function terminate(done) {
    worker.log('debug', 'system', 'Received workerTerminate message; gracefully shutting down worker');
    try {
        await core.runHooks('appTerminate', core.readOnly({
            hookData: () => worker.app.appOnlyHookData,
            appHookData: () => worker.app.appHookData,
        }));
    } catch (thrown) {
        worker.log('error', 'system', `A hook failed: ${app.toError(thrown).message}`);
    }
    done();
}

async function received(message) {
    const name = proto.content(message);
    const { requestId } = message;
    if (name === 'workerStatusRequest') {
        worker.send({ requestId, workerStatusResponse: {} });
    } else if (name === 'workerTerminate') {
        await terminate(() => worker.close(() => process.exit(0)));
    } else if (name in handlers) {
        const handler = handlers[name];
        const response = await answer(handler, message[name]);
        try {
            worker.send({ requestId, [handler.name]: response });
        } catch (thrown) {
            // The answer cannot be sent, for example because it is too large.
            const err = app.toError(thrown);
            worker.send({ requestId, [handler.name]: { ...(handler.base?.(message[name]) ?? {}), result: failure(err) } });
        }
    }
    // Other messages, such as invocationCancel, ask for nothing that the API of Node.js functions has.
}

// debugPorts is the number of ports that are tried for a debugger: one for each process that a host may start.
const debugPorts = 10;

// openInspector listens for a debugger at the first port that is free, and prints its address.
function openInspector(first) {
    for (let port = first; port < first + debugPorts && !inspector.url(); port++) {
        try {
            inspector.open(port, '127.0.0.1');
        } catch {
            // The next one, then.
        }
    }
}

function main() {
    const { values } = parseArgs({
        strict: false,
        options: {
            'functions-uri': { type: 'string' },
            'functions-worker-id': { type: 'string' },
            'functions-request-id': { type: 'string' },
            'functions-grpc-max-message-length': { type: 'string' },
        },
    });
    const uri = values['functions-uri'];
    if (!uri || !values['functions-worker-id'] || !values['functions-request-id']) {
        console.error('usage: node worker.cjs --functions-uri URI --functions-worker-id ID --functions-request-id ID');
        process.exit(2);
    }
    worker.id = values['functions-worker-id'];
    if (process.env.LAZULI_DEBUG_PORT) {
        openInspector(Number(process.env.LAZULI_DEBUG_PORT));
    }
    process.on('uncaughtException', (err) => {
        console.error(`Worker uncaught exception: ${err?.stack ?? err}`);
        process.exit(1);
    });
    const maxLength = Number(values['functions-grpc-max-message-length']) || 2 ** 31 - 1;
    const connection = stream.connect(uri, maxLength, received, (err) => {
        if (err) {
            console.error(`The stream to the host broke: ${err.message}`);
        }
        process.exit(err ? 1 : 0); // The worker is of no use without its host.
    });
    worker.send = connection.send;
    worker.close = connection.close;
    core.install();
    tracing.install();
    worker.app.model = model3;
    worker.send({ requestId: values['functions-request-id'], startStream: { workerId: worker.id } });
}

main();
