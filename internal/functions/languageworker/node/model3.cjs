'use strict';
// The programming model of apps with a function.json for each function (version 3 of @azure/functions, and earlier): a
// function takes a context and its inputs, and answers by context.bindings, context.res, context.done or its result.
// Such apps need no package. https://learn.microsoft.com/azure/azure-functions/functions-reference-node?pivots=nodejs-model-v3

const { randomUUID } = require('node:crypto');
const { format } = require('node:util');
const { SystemError } = require('./core.cjs');
const { parseForm } = require('./form.cjs');

const isType = (binding, type) => binding?.type?.toLowerCase() === type;

// fromTyped is the value of a TypedData: text that is JSON is parsed.
function fromTyped(data, parse = true) {
    const text = data?.string || data?.json;
    if (text !== undefined && text !== null) {
        if (parse) {
            try {
                return JSON.parse(text);
            } catch {
                // It is text, then.
            }
        }
        return text;
    }
    if (data?.string === '') {
        return '';
    }
    return data?.bytes ?? data?.stream ?? data?.int ?? data?.double ?? data?.collectionBytes?.bytes ??
        data?.collectionString?.string ?? data?.collectionDouble?.double ?? data?.collectionSint64?.sint64;
}

function toTyped(value) {
    if (typeof value === 'string') {
        return { string: value };
    }
    if (ArrayBuffer.isView(value)) {
        return { bytes: value };
    }
    if (typeof value === 'number') {
        return Number.isSafeInteger(value) ? { int: value } : { double: value };
    }
    return { json: JSON.stringify(value) };
}

// camel gives the members of objects, at each depth but within arrays, names that begin with a small letter.
function camel(value) {
    if (value === null || typeof value !== 'object' || Array.isArray(value) || Buffer.isBuffer(value)) {
        return value;
    }
    const members = Object.entries(value).map(([k, v]) => [k.charAt(0).toLowerCase() + k.slice(1), camel(v)]);
    return Object.fromEntries(members);
}

function metadataValues(metadata) {
    return camel(Object.fromEntries(Object.entries(metadata ?? {}).map(([k, v]) => [k, fromTyped(v)])));
}

// mapping reads headers, the query or the route's values, which a host sends in one of two forms.
function mapping(nullable, plain) {
    const entries = Object.entries(nullable ?? {});
    return entries.length > 0 ? Object.fromEntries(entries.map(([k, v]) => [k, v.value ?? ''])) : { ...plain };
}

// decodeText decodes a body by its byte order mark; without one it is UTF-8.
function decodeText(b) {
    const starts = (...mark) => mark.every((byte, i) => b[i] === byte);
    const wide = (from, read) => {
        let text = '';
        for (let i = from; i + 4 <= b.length; i += 4) {
            const point = read(i);
            text += point <= 0x10ffff ? String.fromCodePoint(point) : '\ufffd';
        }
        return text;
    };
    if (starts(0xff, 0xfe, 0, 0)) {
        return wide(4, (i) => b.readUInt32LE(i));
    }
    if (starts(0, 0, 0xfe, 0xff)) {
        return wide(4, (i) => b.readUInt32BE(i));
    }
    if (starts(0xfe, 0xff)) {
        return new TextDecoder('utf-16be').decode(b);
    }
    return new TextDecoder(starts(0xff, 0xfe) ? 'utf-16le' : 'utf-8').decode(b);
}

// userOf is the user whom Azure's authentication has put into the headers, or null.
function userOf(headers) {
    if (!headers['x-ms-client-principal']) {
        return null;
    }
    const claims = JSON.parse(Buffer.from(headers['x-ms-client-principal'], 'base64').toString());
    const user = claims.identityProvider
        ? { type: 'StaticWebApps', id: claims.userId, username: claims.userDetails, identityProvider: claims.identityProvider }
        : { type: 'AppService', id: headers['x-ms-client-principal-id'],
            username: headers['x-ms-client-principal-name'], identityProvider: headers['x-ms-client-principal-idp'] };
    return { ...user, claimsPrincipalData: claims };
}

class Request {
    #user;

    constructor(http) {
        this.method = http.method;
        this.url = http.url;
        this.originalUrl = http.url;
        this.headers = mapping(http.nullableHeaders, http.headers);
        this.query = mapping(http.nullableQuery, http.query);
        this.params = mapping(http.nullableParams, http.params);
        if (http.body?.bytes) {
            this.bufferBody = http.body.bytes;
            const type = this.get('content-type')?.toLowerCase() ?? '';
            const binary = type === 'application/octet-stream' || type.startsWith('multipart/');
            const body = binary ? http.body : { string: decodeText(this.bufferBody) };
            this.body = fromTyped(body);
            this.rawBody = binary ? this.bufferBody.toString() : body.string;
        } else if (http.body) {
            this.body = fromTyped(http.body);
            this.rawBody = fromTyped(http.body, false);
        }
    }

    get user() {
        if (this.#user === undefined) {
            this.#user = userOf(this.headers);
        }
        return this.#user;
    }

    get(name) {
        return this.headers[name.toLowerCase()];
    }

    parseFormBody() {
        const type = this.get('content-type');
        if (!type) {
            throw new SystemError('"content-type" header must be defined.');
        }
        return parseForm(this.bufferBody ?? Buffer.alloc(0), type);
    }
}

// Response is context.res until the function replaces it.
class Response {
    headers = {};
    cookies = [];

    constructor(done) {
        Object.defineProperty(this, '_done', { value: done, enumerable: false });
        // Own members, as functions may pass them around: const { send } = context.res.
        for (const [name, method] of Object.entries({ send: 'end', header: 'setHeader', set: 'setHeader', get: 'getHeader' })) {
            Object.defineProperty(this, name, { value: this[method].bind(this), enumerable: false });
        }
    }

    end(body) {
        if (body !== undefined) {
            this.body = body;
        }
        if (Buffer.isBuffer(this.body) && !this.getHeader('content-type')) {
            this.type('application/octet-stream');
        }
        this._done();
        return this;
    }

    setHeader(name, value) {
        this.headers[name.toLowerCase()] = value;
        return this;
    }

    getHeader(name) {
        return this.headers[name.toLowerCase()];
    }

    removeHeader(name) {
        delete this.headers[name.toLowerCase()];
        return this;
    }

    status(code) {
        this.statusCode = code;
        return this;
    }

    sendStatus(code) {
        return this.status(code).end();
    }

    type(type) {
        return this.setHeader('content-type', type);
    }

    json(body) {
        this.type('application/json');
        this.end(body);
    }
}

// checked returns a member of a cookie, which must have a type if it is there.
function checked(value, type, name) {
    if (value === undefined || value === null) {
        return undefined;
    }
    if (typeof value !== type) {
        throw new SystemError(
            `A '${type}' type was expected instead of a '${typeof value}' type. Cannot parse value of 'cookie.${name}'.`);
    }
    return { value };
}

function toCookie(c) {
    const maxAge = typeof c.maxAge === 'string' && c.maxAge.trim() !== '' && !isNaN(c.maxAge) ? Number(c.maxAge) : c.maxAge;
    const expires = c.expires === undefined || c.expires === null ? NaN : new Date(c.expires).getTime();
    const sameSite = { lax: 'lax', strict: 'strict', none: 'explicitNone' }[c.sameSite?.toLowerCase()] ?? 'none';
    return {
        name: checked(c.name, 'string', 'name')?.value ?? '',
        value: checked(c.value, 'string', 'value')?.value ?? '',
        domain: checked(c.domain, 'string', 'domain'),
        path: checked(c.path, 'string', 'path'),
        expires: expires > 0 ? { value: { seconds: Math.round(expires / 1000) } } : undefined,
        secure: checked(c.secure, 'boolean', 'secure'),
        httpOnly: checked(c.httpOnly, 'boolean', 'httpOnly'),
        sameSite,
        maxAge: checked(maxAge, 'number', 'maxAge'),
    };
}

function toHttp(value) {
    if (typeof value !== 'object' || Array.isArray(value)) {
        throw new SystemError("The HTTP response must be an 'object' type that can include properties such as 'body', " +
            "'status', and 'headers'.");
    }
    const r = value ?? {};
    const status = r.statusCode || (typeof r.status === 'function' ? undefined : r.status);
    const headers = Object.entries(r.headers ?? {}).filter(([, v]) => v !== undefined && v !== null);
    return {
        http: {
            statusCode: status?.toString(),
            headers: Object.fromEntries(headers.map(([k, v]) => [k, v.toString()])),
            cookies: (r.cookies ?? []).map(toCookie),
            enableContentNegotiation: Boolean(r.enableContentNegotiation),
            body: toTyped(r.body),
        },
    };
}

// Invocation is one call of a function.
class Invocation {
    #core;
    #bindings;
    #over = false; // The function has ended.
    #promised = false; // It returned a promise.
    #finish;

    constructor(core) {
        this.#core = core;
        this.#bindings = Object.entries(core.metadata.bindings ?? {});
    }

    #log(level, ...args) {
        if (this.#over && this.#core.state !== 'postInvocationHooks') {
            this.#core.log('warning', 'system', "Warning: Unexpected call to 'log' on the context object after function " +
                'execution has completed. Please check for asynchronous calls that are not awaited or calls to ' +
                `'done' made before function execution completes. Function name: ${this.#core.metadata.name}. ` +
                `Invocation Id: ${this.#core.invocationId}.`);
        }
        this.#core.log(level, 'user', format(...args));
    }

    // ended is called at context.done, and when the promise of a function is fulfilled. Once is right, twice a mistake.
    #ended(context) {
        if (this.#over && !(this.#promised && context.suppressAsyncDoneError)) {
            this.#core.log('error', 'system', this.#promised
                ? "Error: Choose either to return a promise or call 'done'. Do not use both in your script."
                : "Error: 'done' has already been called. Please check your script for extraneous calls to 'done'.");
        }
        this.#over = true;
    }

    async getArguments() {
        const { request, metadata, invocationId } = this.#core;
        const done = (err, result) => this.#finish?.(err, result);
        const level = (name) => (...args) => this.#log(name, ...args);
        const context = {
            invocationId,
            executionContext: {
                invocationId,
                functionName: metadata.name,
                functionDirectory: metadata.directory,
                retryContext: request.retryContext,
            },
            bindings: {},
            bindingData: { invocationId, ...metadataValues(request.triggerMetadata) },
            traceContext: request.traceContext ? {
                traceparent: request.traceContext.traceParent,
                tracestate: request.traceContext.traceState,
                attributes: request.traceContext.attributes,
            } : {},
            bindingDefinitions: this.#bindings.map(([name, b]) => ({ name, type: b.type, direction: b.direction })),
            log: Object.assign(level('information'), {
                error: level('error'),
                warn: level('warning'),
                info: level('information'),
                verbose: level('trace'),
            }),
            done,
        };
        const inputs = [];
        for (const { name, data } of request.inputData) {
            if (!data || !name) {
                continue;
            }
            let input;
            if (data.http) {
                input = new Request(data.http);
                context.req = input;
                context.res = new Response(done);
                const { bindingData } = context;
                bindingData.sys = { methodName: metadata.name, utcNow: new Date().toISOString(), randGuid: randomUUID() };
                bindingData.query ??= { ...input.query };
                bindingData.headers ??= { ...input.headers };
            } else {
                input = fromTyped(data);
                if (isType(metadata.bindings[name], 'timertrigger')) {
                    input = camel(input);
                }
            }
            context.bindings[name] = input;
            inputs.push(input);
        }
        return { context, inputs };
    }

    async invokeFunction(context, inputs, callback) {
        const called = new Promise((resolve, reject) => {
            this.#finish = (err, result) => {
                this.#ended(context);
                if (err !== undefined && err !== null) {
                    reject(err);
                } else {
                    resolve(result);
                }
            };
        });
        try {
            const result = callback(context, ...inputs);
            this.#promised = typeof result?.then === 'function';
            if (!this.#promised) {
                return await called;
            }
            const awaited = Promise.resolve(result).then((value) => {
                this.#ended(context);
                return value;
            });
            return await Promise.race([awaited, called]);
        } finally {
            this.#over = true;
        }
    }

    async getResponse(context, result) {
        const outputs = this.#bindings.filter(([, b]) => b.direction !== 'in');
        const convert = (b, value) => (isType(b, 'http') ? toHttp(value) : toTyped(value));
        const http = outputs.find(([, b]) => isType(b, 'http'))?.[0];
        if (http && context.res && context.bindings[http] === undefined) {
            context.bindings[http] = context.res;
        }
        const response = { invocationId: this.#core.invocationId, outputData: [] };
        const returned = outputs.find(([name]) => name === '$return')?.[1];
        const activity = this.#bindings.some(([, b]) => isType(b, 'activitytrigger'));
        const present = result || activity && result !== undefined && result !== null;
        const members = present && !returned && typeof result === 'object' ? result : {};
        if (present && returned) {
            response.returnValue = convert(returned, result);
        }
        for (const [name, b] of outputs) {
            // What was returned goes before what was assigned to context.bindings.
            const value = members[name] !== undefined ? members[name] : context.bindings[name];
            if (value !== undefined && !(name === '$return' && response.returnValue)) {
                response.outputData.push({ name, data: convert(b, value) });
            }
        }
        const used = outputs.some(([name]) => members[name] !== undefined);
        if (present && !returned && !used && !this.#bindings.some(([, b]) => isType(b, 'httptrigger'))) {
            response.returnValue = toTyped(result);
        }
        return response;
    }
}

module.exports = {
    name: '@azure/functions',
    version: '3.5.1',
    getInvocationModel: (core) => new Invocation(core),
};
