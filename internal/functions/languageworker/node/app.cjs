'use strict';
// Loading of a function app: its package.json, its entry points, and the files that function.json names.

const fs = require('node:fs');
const { createRequire } = require('node:module');
const path = require('node:path');
const url = require('node:url');
const glob = require('./glob.cjs');
const { worker, readOnly, runHooks, SystemError } = require('./core.cjs');

// toError makes an Error of whatever was thrown, with a message that can be changed.
function toError(thrown) {
    if (!(thrown instanceof Error)) {
        const text = thrown === undefined || thrown === null ? 'Unknown error'
            : typeof thrown === 'object' ? JSON.stringify(thrown) : String(thrown);
        return new Error(text);
    }
    if (!Object.getOwnPropertyDescriptor(thrown, 'message')?.writable) {
        const message = thrown.message;
        Object.defineProperty(thrown, 'message', { value: message, writable: true, configurable: true });
    }
    return thrown;
}

// load runs a file as the kind of module that its name and package.json say, and returns its exports.
async function load(file) {
    const isModule = file.endsWith('.mjs') || !file.endsWith('.cjs') && worker.app.packageJson.type === 'module';
    if (isModule) {
        return import(url.pathToFileURL(file).href);
    }
    // The app's own require: modules are found from the app's folder, not from the worker's.
    return createRequire(file)(file);
}

function readPackage(dir) {
    const file = path.join(dir, 'package.json');
    let text;
    try {
        text = fs.readFileSync(file, 'utf8');
    } catch (err) {
        if (err.code !== 'ENOENT') {
            worker.log('warning', 'system', `Worker failed to load package.json: ${err.message}`);
        }
        return {};
    }
    try {
        return JSON.parse(text.replace(/^\ufeff/, '')) ?? {};
    } catch (err) {
        worker.log('warning', 'system', `Worker failed to load package.json: it is not JSON: ${err.message}`);
        return {};
    }
}

// advice says what to do about a file or a module that is missing, or returns ''.
function advice(dir, err) {
    const json = worker.app.packageJson;
    if (['MODULE_NOT_FOUND', 'ERR_MODULE_NOT_FOUND'].includes(err.code)) {
        const name = /Cannot find (?:module|package) '([^']+)'/.exec(err.message)?.[1] ?? '';
        const base = name.startsWith('@') ? name.split('/').slice(0, 2).join('/') : name.split('/')[0];
        const listed = { ...json.dependencies, ...json.devDependencies };
        if (base in listed) {
            return `; ${base} is not installed: run \`npm install\` in ${dir}`;
        }
        if (/^(@[\w.-]+\/)?[\w.-]+$/.test(base) && !base.startsWith('.')) {
            return `; run \`npm install ${base}\` in ${dir}`;
        }
    }
    return '';
}

// built says how to make the files that an entry point names.
function built(dir) {
    const typed = fs.existsSync(path.join(dir, 'tsconfig.json'));
    if (worker.app.packageJson.scripts?.build) {
        return `; ${typed ? 'the TypeScript is not built' : 'they may not be built'}: run \`npm run build\` in ${dir}`;
    }
    return typed ? `; the TypeScript is not built: run \`npx tsc\` in ${dir}` : '';
}

async function loadEntryPoints(dir) {
    const main = worker.app.packageJson.main;
    if (typeof main !== 'string' || main === '') {
        return;
    }
    let current = main;
    try {
        const files = glob.files(dir, main);
        if (files.length === 0) {
            const what = glob.isMagic(main) ? 'Found zero files matching the supplied pattern' : 'File does not exist';
            throw new SystemError(what + built(dir));
        }
        for (current of files) {
            const file = path.join(dir, current);
            worker.log('debug', 'system', `Loading entry point file "${current}"`);
            worker.app.entryPoint = file;
            try {
                await load(file);
            } finally {
                worker.app.entryPoint = undefined;
            }
            worker.log('debug', 'system', `Loaded entry point file "${current}"`);
        }
    } catch (thrown) {
        const hint = advice(dir, toError(thrown));
        // What is to be done needs no stack.
        const err = hint ? new SystemError(thrown.message.split('\n')[0] + hint) : toError(thrown);
        err.message = `Worker was unable to load entry point "${current}": ${err.message}`;
        err.isAzureFunctionsSystemError = true;
        // The worker itself is well: the host gets the error when it asks for the functions.
        worker.app.startError = err;
    }
}

// start loads the app of a folder, and runs its hooks for that.
async function start(dir) {
    worker.app.directory = dir;
    worker.app.packageJson = readPackage(dir);
    await loadEntryPoints(dir);
    await runHooks('appStart', readOnly({
        hookData: () => worker.app.appOnlyHookData,
        appHookData: () => worker.app.appHookData,
    }, { functionAppDirectory: dir }));
}

// callback finds the function that a module exports: the one of the name, the only one, or run or index.
function callback(exports, entryPoint) {
    let found = exports;
    let owner;
    if (exports !== null && typeof exports === 'object') {
        const names = Object.keys(exports);
        owner = exports;
        found = entryPoint ? exports[entryPoint]
            : names.length === 1 ? exports[names[0]] : exports.run || exports.index;
    }
    if (!found) {
        throw new SystemError(`Unable to determine function entry point${entryPoint ? ': ' + entryPoint : ''}. If ` +
            "multiple functions are exported, you must indicate the entry point, either by naming it 'run' or " +
            "'index', or by naming it explicitly via the 'entryPoint' metadata property.");
    }
    if (typeof found !== 'function') {
        throw new SystemError('The resolved entry point is not a function and cannot be invoked by the functions ' +
            'runtime. Make sure the function has been correctly exported.');
    }
    return (...args) => found.apply(owner, args);
}

// scriptOf is the file of a function whose function.json names none: index or run, or the only one of its folder.
function scriptOf(metadata) {
    if (metadata.scriptFile) {
        return metadata.scriptFile;
    }
    const scripts = fs.readdirSync(metadata.directory).filter((name) => /\.[cm]?js$/.test(name));
    const named = scripts.find((name) => /^(index|run)\./.test(name)) ?? (scripts.length === 1 ? scripts[0] : undefined);
    if (!named) {
        throw new SystemError('function.json has no "scriptFile", and there is no index.js');
    }
    return path.join(metadata.directory, named);
}

// loadFunction loads a function of which the host has read the function.json.
async function loadFunction(id, metadata) {
    const dir = worker.app.directory;
    let script = metadata.scriptFile;
    try {
        script = scriptOf(metadata);
        const exports = await load(script);
        worker.app.functions.set(id, { metadata, callback: callback(exports, metadata.entryPoint) });
    } catch (thrown) {
        const err = toError(thrown);
        const more = fs.existsSync(script) ? advice(dir, err) : built(dir);
        err.message = `Worker was unable to load function ${metadata.name}: '${err.message}'${more}`;
        err.isAzureFunctionsSystemError = true;
        throw err;
    }
}

module.exports = { start, loadFunction, toError };
