'use strict';
// The module @azure/functions-core, which the package @azure/functions and others require from the worker that runs
// them. It registers functions and hooks in the app's state.
// https://github.com/Azure/azure-functions-nodejs-worker/blob/v3.x/types-core/index.d.ts

const Module = require('node:module');
const path = require('node:path');

// version is the version of the Node.js worker whose API this is, for packages that check it.
const version = '3.12.0';

class SystemError extends Error {
    isAzureFunctionsSystemError = true;
}

// Disposable calls a function once, at the first dispose.
class Disposable {
    #dispose;

    constructor(dispose) {
        this.#dispose = dispose;
    }

    static from(...list) {
        return new Disposable(() => list.forEach((d) => typeof d?.dispose === 'function' && d.dispose()));
    }

    dispose() {
        const dispose = this.#dispose;
        this.#dispose = undefined;
        return typeof dispose === 'function' ? dispose() : undefined;
    }
}

const hookNames = ['appStart', 'appTerminate', 'preInvocation', 'postInvocation'];

// State holds what an app has registered.
class State {
    constructor() {
        this.model = undefined; // of functions, as a package of functions sets it
        this.directory = '';
        this.packageJson = {};
        this.functions = new Map(); // by ID: { metadata, callback }
        this.indexed = false; // The functions come from registerFunction, not from function.json.
        this.locked = false; // Functions can no longer be registered.
        this.entryPoint = undefined; // The file that is being loaded.
        this.startError = undefined;
        this.hooks = Object.fromEntries(hookNames.map((n) => [n, []]));
        this.appHookData = {}; // Shared by all hooks.
        this.appOnlyHookData = {}; // Shared by the hooks of the app's start and end.
    }
}

const worker = {
    id: '',
    hostVersion: '',
    app: new State(),
    send: () => {}, // Sends a StreamingMessage.

    // log sends a record to the host: level is 'trace' to 'critical', category 'user' or 'system'.
    log(level, category, message, more) {
        this.send({ rpcLog: { level, logCategory: category, message, ...more } });
    },
};

// readOnly makes an object whose members of the getters cannot be assigned, beside others that can.
function readOnly(getters, members = {}) {
    const context = { ...members };
    for (const [name, get] of Object.entries(getters)) {
        Object.defineProperty(context, name, {
            enumerable: true,
            get,
            set() {
                const err = new TypeError(`Cannot assign to read only property '${name}'`);
                err.isAzureFunctionsSystemError = true;
                throw err;
            },
        });
    }
    return context;
}

// runHooks calls the hooks of a name one after another. An error ends it.
async function runHooks(name, context, more) {
    const hooks = worker.app.hooks[name];
    if (hooks.length === 0) {
        return;
    }
    worker.log('debug', 'system', `Executing ${hooks.length} "${name}" hooks`, more);
    for (const hook of [...hooks]) {
        await hook(context);
    }
    worker.log('debug', 'system', `Executed "${name}" hooks`, more);
}

function registerHook(name, callback) {
    if (!hookNames.includes(name)) {
        const err = new RangeError(`Unrecognized hook "${name}"`);
        err.isAzureFunctionsSystemError = true;
        throw err;
    }
    const hooks = worker.app.hooks[name];
    hooks.push(callback);
    return new Disposable(() => {
        const at = hooks.indexOf(callback);
        if (at >= 0) {
            hooks.splice(at, 1);
        }
    });
}

function registerFunction(metadata, callback) {
    const app = worker.app;
    if (app.locked) {
        throw new SystemError('A function can only be registered during app startup.');
    }
    app.indexed = true;
    const id = metadata.functionId || metadata.name;
    if (app.functions.has(id)) {
        throw new SystemError(`A function with id "${id}" has already been registered.`);
    }
    const rawBindings = Object.entries(metadata.bindings).map(([name, b]) => JSON.stringify({ ...b, name }));
    const place = app.entryPoint
        ? { scriptFile: path.basename(app.entryPoint), directory: path.dirname(app.entryPoint) }
        : { scriptFile: 'unknown' };
    app.functions.set(id, { metadata: { ...metadata, ...place, functionId: id, rawBindings }, callback });
    return new Disposable(() => {
        if (app.locked) {
            throw new SystemError('A function can only be disposed during app startup.');
        }
        app.functions.delete(id);
    });
}

const api = {
    version,
    get hostVersion() {
        if (!worker.hostVersion) {
            throw new SystemError('Cannot access hostVersion before worker init');
        }
        return worker.hostVersion;
    },
    registerFunction,
    registerHook,
    setProgrammingModel(model) {
        worker.app.model = model;
        worker.log('debug', 'system', `Setting Node.js programming model to "${model.name}" version "${model.version}"`);
    },
    getProgrammingModel: () => worker.app.model,
    log: (level, category, message) => worker.log(level, category, message),
    Disposable,
};

// install makes require('@azure/functions-core') return the API, from whatever file.
function install() {
    const load = Module._load;
    Module._load = function (request, ...rest) {
        return request === '@azure/functions-core' ? api : load.call(this, request, ...rest);
    };
}

module.exports = { worker, version, install, readOnly, runHooks, SystemError };
