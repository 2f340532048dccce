'use strict';
// Sends the trace of an invocation with the requests that its code makes with Azure's SDKs. The invocation is found by
// its asynchronous context. A traceparent that the app's own tracing has set stays. The entry lazuli of the host's
// tracestate names the invocation, and is sent in each case; a tracestate
// of the function's caller is without it, and gets it here. Neither header is signed.
// https://www.w3.org/TR/trace-context/#tracestate-header

const { AsyncLocalStorage } = require('node:async_hooks');
const http = require('node:http');
const https = require('node:https');
const { syncBuiltinESMExports } = require('node:module');

const invocations = new AsyncLocalStorage();

// during runs a function as a part of an invocation.
function during({ traceContext, invocationId }, act) {
    const parent = traceContext?.traceParent;
    if (!parent) {
        return act();
    }
    let state = traceContext.traceState || '';
    if (!/(^|,)\s*lazuli=/.test(state)) {
        state = [`lazuli=${invocationId}`, state].filter(Boolean).join(',');
    }
    return invocations.run({ parent, state }, act);
}

// add adds the headers to the options of a request if it is one of Azure's SDKs, which all send their client request id.
function add(options) {
    const invocation = invocations.getStore();
    const given = options?.headers;
    if (!invocation || !given || typeof given !== 'object' || Array.isArray(given)) {
        return options;
    }
    const names = new Map(Object.keys(given).map((name) => [name.toLowerCase(), name]));
    if (!names.has('x-ms-client-request-id')) {
        return options;
    }
    const headers = { ...given };
    const name = names.get('tracestate') ?? 'tracestate';
    if (!names.has('traceparent')) {
        headers.traceparent = invocation.parent;
        if (invocation.state) {
            headers[name] = invocation.state;
        }
        return { ...options, headers };
    }
    const own = invocation.state.split(',').find((entry) => entry.startsWith('lazuli='));
    const others = headers[name] ? String(headers[name]).split(',') : [];
    if (own && !others.includes(own)) {
        headers[name] = [own, ...others].join(',');
    }
    return { ...options, headers };
}

// install changes http.request and https.request, which the SDKs call with options alone or behind an address.
function install() {
    for (const module of [http, https]) {
        const { request } = module;
        module.request = function (...args) {
            const at = typeof args[0] === 'string' || args[0] instanceof URL ? 1 : 0;
            if (args[at] && typeof args[at] === 'object') {
                args[at] = add(args[at]);
            }
            return request.apply(this, args);
        };
    }
    syncBuiltinESMExports();
}

module.exports = { during, install };
