'use strict';
// Bodies of HTML forms, for req.parseFormBody(): application/x-www-form-urlencoded and multipart/form-data.
// https://www.rfc-editor.org/rfc/rfc7578

const { SystemError } = require('./core.cjs');

// Form holds the parts in their order, as [name, { value, fileName, contentType }].
class Form {
    #parts;

    constructor(parts) {
        this.#parts = parts;
    }

    get(name) {
        return this.#parts.find(([n]) => n === name)?.[1] ?? null;
    }

    getAll(name) {
        return this.#parts.filter(([n]) => n === name).map(([, part]) => part);
    }

    has(name) {
        return this.#parts.some(([n]) => n === name);
    }

    get length() {
        return this.#parts.length;
    }

    [Symbol.iterator]() {
        return this.#parts[Symbol.iterator]();
    }
}

// header splits a header's value into its first word and its parameters.
function header(text) {
    const parameters = {};
    const matches = text.matchAll(/;\s*([\w!#$%&'*+.^`|~-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^;\s]*))/g);
    for (const [, name, quoted, token] of matches) {
        parameters[name.toLowerCase()] = quoted !== undefined ? quoted.replace(/\\(.)/g, '$1') : token;
    }
    return [text.split(';')[0].trim().toLowerCase(), parameters];
}

function multipart(body, boundary) {
    const parts = [];
    const mark = Buffer.from('--' + boundary);
    const lineEnd = Buffer.from('\r\n');
    let at = body.indexOf(mark);
    while (at >= 0) {
        at += mark.length;
        if (body.subarray(at, at + 2).toString() === '--') {
            return parts;
        }
        const head = body.indexOf(lineEnd, at);
        const empty = body.indexOf('\r\n\r\n', head);
        const next = body.indexOf(Buffer.concat([lineEnd, mark]), empty);
        if (head < 0 || empty < 0 || next < 0) {
            break;
        }
        const part = { value: body.subarray(empty + 4, Math.max(next, empty + 4)) };
        let name;
        for (const line of body.subarray(head + 2, empty).toString().split('\r\n')) {
            const colon = line.indexOf(':');
            const field = line.slice(0, colon).trim().toLowerCase();
            const value = line.slice(colon + 1).trim();
            if (field === 'content-disposition') {
                const [, parameters] = header(value);
                name = parameters.name;
                if (parameters.filename !== undefined) {
                    part.fileName = parameters.filename;
                }
            } else if (field === 'content-type') {
                part.contentType = value;
            }
        }
        if (name === undefined) {
            throw new SystemError('A part of the form has no name.');
        }
        parts.push([name, part]);
        at = next + 2;
    }
    throw new SystemError('The form ends before its last boundary.');
}

// parseForm reads a body of a content type.
function parseForm(body, contentType) {
    const bytes = Buffer.isBuffer(body) ? body : Buffer.from(String(body));
    const [type, parameters] = header(contentType);
    switch (type) {
        case 'multipart/form-data':
            if (!parameters.boundary) {
                throw new SystemError('The content type of the form has no boundary.');
            }
            return new Form(multipart(bytes, parameters.boundary));
        case 'application/x-www-form-urlencoded':
            return new Form([...new URLSearchParams(bytes.toString())].map(([n, v]) => [n, { value: Buffer.from(v) }]));
        default:
            throw new SystemError(`Media type "${type}" does not match types supported for form parsing: ` +
                '"multipart/form-data", "application/x-www-form-urlencoded".');
    }
}

module.exports = { parseForm };
