'use strict';
// The messages of FunctionRpc.proto that a worker reads and writes, and their binary form.
//
// A decoded message is a plain object with the names of the package @azure/functions-core: camelCase, and enumerations
// as its strings. Fields that a message does not carry have the default of their type; messages and members of a oneof
// are absent instead (null and undefined).
// https://github.com/Azure/azure-functions-language-worker-protobuf/blob/main/src/proto/FunctionRpc.proto
// https://protobuf.dev/programming-guides/encoding/

const enums = {
    LogLevel: ['trace', 'debug', 'information', 'warning', 'error', 'critical', 'none'],
    LogCategory: ['user', 'system', 'customMetric'],
    Status: ['failure', 'success', 'cancelled'],
    Direction: ['in', 'out', 'inout'],
    DataType: ['undefined', 'string', 'binary', 'stream'],
    SameSite: ['none', 'lax', 'strict', 'explicitNone'],
    RetryStrategy: ['exponentialBackoff', 'fixedDelay'],
};

// A field is "number name type": type* is repeated, type% is a map from strings, type? is a member of a oneof.
const schema = {
    StreamingMessage: `1 requestId string, 20 startStream StartStream?, 17 workerInitRequest WorkerInitRequest?,
        16 workerInitResponse WorkerInitResponse?, 14 workerTerminate WorkerTerminate?, 12 workerStatusRequest Empty?,
        13 workerStatusResponse Empty?, 8 functionLoadRequest FunctionLoadRequest?,
        9 functionLoadResponse FunctionLoadResponse?, 4 invocationRequest InvocationRequest?,
        5 invocationResponse InvocationResponse?, 21 invocationCancel InvocationCancel?, 2 rpcLog RpcLog?,
        29 functionsMetadataRequest FunctionsMetadataRequest?, 30 functionMetadataResponse FunctionMetadataResponse?,
        31 functionLoadRequestCollection FunctionLoadRequestCollection?,
        32 functionLoadResponseCollection FunctionLoadResponseCollection?`,
    Empty: '',
    StartStream: '2 workerId string',
    WorkerInitRequest: `1 hostVersion string, 2 capabilities string%, 3 logCategories LogLevel%,
        4 workerDirectory string, 5 functionAppDirectory string`,
    WorkerInitResponse: '2 capabilities string%, 3 result StatusResult, 4 workerMetadata WorkerMetadata',
    WorkerMetadata: `1 runtimeName string, 2 runtimeVersion string, 3 workerVersion string, 4 workerBitness string,
        5 customProperties string%`,
    StatusResult: '4 status Status, 1 result string, 2 exception RpcException, 3 logs RpcLog*',
    WorkerTerminate: '1 gracePeriod Duration',
    FunctionLoadRequestCollection: '1 functionLoadRequests FunctionLoadRequest*',
    FunctionLoadResponseCollection: '1 functionLoadResponses FunctionLoadResponse*',
    FunctionLoadRequest: '1 functionId string, 2 metadata FunctionMetadata, 3 managedDependencyEnabled bool',
    FunctionLoadResponse: '1 functionId string, 2 result StatusResult, 3 isDependencyDownloaded bool',
    FunctionMetadata: `4 name string, 1 directory string, 2 scriptFile string, 3 entryPoint string,
        6 bindings BindingInfo%, 7 isProxy bool, 8 status StatusResult, 9 language string, 10 rawBindings string*,
        13 functionId string, 14 managedDependencyEnabled bool, 15 retryOptions RetryOptions, 16 properties string%`,
    FunctionsMetadataRequest: '1 functionAppDirectory string',
    FunctionMetadataResponse: `1 functionMetadataResults FunctionMetadata*, 2 result StatusResult,
        3 useDefaultMetadataIndexing bool`,
    InvocationRequest: `1 invocationId string, 2 functionId string, 3 inputData ParameterBinding*,
        4 triggerMetadata TypedData%, 5 traceContext TraceContext, 6 retryContext RetryContext`,
    TraceContext: '1 traceParent string, 2 traceState string, 3 attributes string%',
    RetryContext: '1 retryCount int32, 2 maxRetryCount int32, 3 exception RpcException',
    InvocationCancel: '2 invocationId string',
    InvocationResponse: `1 invocationId string, 2 outputData ParameterBinding*, 4 returnValue TypedData,
        3 result StatusResult`,
    TypedData: `1 string string?, 2 json string?, 3 bytes bytes?, 4 stream bytes?, 5 http RpcHttp?, 6 int sint64?,
        7 double double?, 8 collectionBytes CollectionBytes?, 9 collectionString CollectionString?,
        10 collectionDouble CollectionDouble?, 11 collectionSint64 CollectionSint64?,
        12 modelBindingData ModelBindingData?, 13 collectionModelBindingData CollectionModelBindingData?`,
    CollectionString: '1 string string*',
    CollectionBytes: '1 bytes bytes*',
    CollectionDouble: '1 double double*',
    CollectionSint64: '1 sint64 sint64*',
    ModelBindingData: '1 version string, 2 source string, 3 contentType string, 4 content bytes',
    CollectionModelBindingData: '1 modelBindingData ModelBindingData*',
    ParameterBinding: '1 name string, 2 data TypedData?',
    BindingInfo: '2 type string, 3 direction Direction, 4 dataType DataType, 5 properties string%',
    RpcLog: `1 invocationId string, 2 category string, 3 level LogLevel, 4 message string, 5 eventId string,
        6 exception RpcException, 7 properties string, 8 logCategory LogCategory`,
    RpcException: '3 source string, 1 stackTrace string, 2 message string, 4 isUserException bool, 5 type string',
    RpcHttpCookie: `1 name string, 2 value string, 3 domain NullableString, 4 path NullableString,
        5 expires NullableTimestamp, 6 secure NullableBool, 7 httpOnly NullableBool, 8 sameSite SameSite,
        9 maxAge NullableDouble`,
    RpcHttp: `1 method string, 2 url string, 3 headers string%, 4 body TypedData, 10 params string%,
        12 statusCode string, 15 query string%, 16 enableContentNegotiation bool, 17 rawBody TypedData,
        19 cookies RpcHttpCookie*, 20 nullableHeaders NullableString%, 21 nullableParams NullableString%,
        22 nullableQuery NullableString%`,
    RetryOptions: `2 maxRetryCount int32, 3 delayInterval Duration, 4 minimumInterval Duration,
        5 maximumInterval Duration, 6 retryStrategy RetryStrategy`,
    NullableString: '1 value string?',
    NullableDouble: '1 value double?',
    NullableBool: '1 value bool?',
    NullableTimestamp: '1 value Timestamp?',
    Timestamp: '1 seconds int64, 2 nanos int32',
    Duration: '1 seconds int64, 2 nanos int32',
};

const defaults = { string: '', bool: false, double: 0, int32: 0, int64: 0, sint64: 0 };

const messages = {};
for (const [name, text] of Object.entries(schema)) {
    const fields = text.split(',').filter((t) => t.trim()).map((t) => {
        const [number, field, type] = t.trim().split(/\s+/);
        const [, base, mark] = /^(\w+)([*%?]?)$/.exec(type);
        return { number: Number(number), name: field, type: base, mark };
    });
    messages[name] = { fields, byNumber: new Map(fields.map((f) => [f.number, f])) };
}

function isMessage(type) {
    return type in messages;
}

function wireType(type) {
    if (type === 'double') {
        return 1;
    }
    return type === 'string' || type === 'bytes' || isMessage(type) ? 2 : 0;
}

// Writer collects the bytes of one message.
class Writer {
    constructor() {
        this.parts = [];
        this.length = 0;
    }

    raw(buffer) {
        this.parts.push(buffer);
        this.length += buffer.length;
    }

    // varint writes a number of at most 53 bits, or a BigInt of 64.
    varint(value) {
        const bytes = [];
        if (typeof value === 'number' && value >= 0) {
            while (value > 127) {
                bytes.push((value % 128) | 128);
                value = Math.floor(value / 128);
            }
            bytes.push(value);
        } else {
            let big = BigInt.asUintN(64, BigInt(value));
            while (big > 127n) {
                bytes.push(Number(big & 127n) | 128);
                big >>= 7n;
            }
            bytes.push(Number(big));
        }
        this.raw(Buffer.from(bytes));
    }

    delimited(buffer) {
        this.varint(buffer.length);
        this.raw(buffer);
    }

    bytes() {
        return Buffer.concat(this.parts, this.length);
    }
}

// integer makes a whole number or a BigInt of a value; a Long of the package long is one by its text.
function integer(value) {
    if (typeof value === 'number' && Number.isSafeInteger(value)) {
        return value;
    }
    return BigInt(typeof value === 'number' ? Math.trunc(value) : String(value));
}

function writeValue(w, type, value) {
    if (isMessage(type)) {
        w.delimited(encode(type, value));
    } else if (type === 'string') {
        w.delimited(Buffer.from(String(value)));
    } else if (type === 'bytes') {
        w.delimited(Buffer.isBuffer(value) ? value : Buffer.from(value.buffer, value.byteOffset, value.byteLength));
    } else if (type === 'double') {
        const b = Buffer.alloc(8);
        b.writeDoubleLE(Number(value));
        w.raw(b);
    } else if (type === 'bool') {
        w.varint(value ? 1 : 0);
    } else if (type === 'sint64') {
        const n = BigInt(integer(value));
        w.varint(BigInt.asUintN(64, (n << 1n) ^ (n >> 63n)));
    } else if (type in enums) {
        const n = typeof value === 'number' ? value : enums[type].indexOf(value);
        if (n < 0) {
            throw new TypeError(`"${value}" is not one of ${enums[type].join(', ')}`);
        }
        w.varint(n);
    } else {
        w.varint(integer(value));
    }
}

// encode makes the bytes of a message. It ignores members that the message does not have.
function encode(type, message) {
    const w = new Writer();
    for (const f of messages[type].fields) {
        const value = message[f.name];
        if (value === undefined || value === null) {
            continue;
        }
        if (f.mark === '%') {
            for (const [k, v] of Object.entries(value)) {
                if (v !== undefined && v !== null) {
                    const entry = new Writer();
                    entry.varint(10);
                    entry.delimited(Buffer.from(k));
                    entry.varint(16 | wireType(f.type));
                    writeValue(entry, f.type, v);
                    w.varint(f.number * 8 + 2);
                    w.delimited(entry.bytes());
                }
            }
        } else {
            for (const v of f.mark === '*' ? value : [value]) {
                w.varint(f.number * 8 + wireType(f.type));
                writeValue(w, f.type, v);
            }
        }
    }
    return w.bytes();
}

// Reader walks over the bytes of one message.
class Reader {
    constructor(buffer) {
        this.buffer = buffer;
        this.at = 0;
    }

    more() {
        return this.at < this.buffer.length;
    }

    take(length) {
        if (length < 0 || this.at + length > this.buffer.length) {
            throw new RangeError('a message ends within a field');
        }
        this.at += length;
        return this.buffer.subarray(this.at - length, this.at);
    }

    // varint returns a BigInt.
    varint() {
        let result = 0n;
        for (let shift = 0n; shift < 70n; shift += 7n) {
            const byte = this.take(1)[0];
            result |= BigInt(byte & 127) << shift;
            if (byte < 128) {
                return BigInt.asUintN(64, result);
            }
        }
        throw new RangeError('a varint has more than ten bytes');
    }

    // short returns a number, which a tag or a length is.
    short() {
        let result = 0;
        for (let factor = 1; factor < 2 ** 35; factor *= 128) {
            const byte = this.take(1)[0];
            result += (byte & 127) * factor;
            if (byte < 128) {
                return result;
            }
        }
        throw new RangeError('a length has more than five bytes');
    }

    skip(wire) {
        switch (wire) {
            case 0:
                this.varint();
                break;
            case 1:
                this.take(8);
                break;
            case 2:
                this.take(this.short());
                break;
            case 5:
                this.take(4);
                break;
            default:
                throw new RangeError(`a field has the wire type ${wire}`);
        }
    }
}

// number returns a Number where it holds the value, else a BigInt.
function number(big) {
    const n = Number(big);
    return Number.isSafeInteger(n) ? n : big;
}

function readValue(r, type) {
    if (isMessage(type)) {
        return decode(type, r.take(r.short()));
    }
    switch (type) {
        case 'string':
            return r.take(r.short()).toString();
        case 'bytes':
            return Buffer.from(r.take(r.short()));
        case 'double':
            return r.take(8).readDoubleLE();
        case 'bool':
            return r.varint() !== 0n;
        case 'sint64': {
            const n = r.varint();
            return number((n >> 1n) ^ -(n & 1n));
        }
        case 'int32':
        case 'int64':
            return number(BigInt.asIntN(64, r.varint()));
        default:
            return enums[type][Number(r.varint())] ?? enums[type][0];
    }
}

function fallback(f) {
    switch (f.mark) {
        case '*':
            return [];
        case '%':
            return {};
        case '?':
            return undefined;
    }
    if (f.type in enums) {
        return enums[f.type][0];
    }
    if (f.type === 'bytes') {
        return Buffer.alloc(0);
    }
    return f.type in defaults ? defaults[f.type] : null;
}

// decode reads the bytes of a message. Fields that it does not know are skipped.
function decode(type, buffer) {
    const { fields, byNumber } = messages[type];
    const message = {};
    for (const f of fields) {
        const value = fallback(f);
        if (value !== undefined) {
            message[f.name] = value;
        }
    }
    const r = new Reader(buffer);
    while (r.more()) {
        const tag = r.short();
        const f = byNumber.get(tag >>> 3);
        const wire = tag & 7;
        if (!f) {
            r.skip(wire);
        } else if (f.mark === '%') {
            const entry = new Reader(r.take(r.short()));
            let key = '';
            let value = isMessage(f.type) ? decode(f.type, Buffer.alloc(0)) : fallback({ type: f.type });
            while (entry.more()) {
                const part = entry.short();
                if (part >>> 3 === 1) {
                    key = readValue(entry, 'string');
                } else if (part >>> 3 === 2) {
                    value = readValue(entry, f.type);
                } else {
                    entry.skip(part & 7);
                }
            }
            // Not message[f.name][key]: a key such as __proto__ is a key like any other.
            Object.defineProperty(message[f.name], key,
                { value, writable: true, enumerable: true, configurable: true });
        } else if (f.mark === '*' && wire === 2 && wireType(f.type) !== 2) {
            const packed = new Reader(r.take(r.short()));
            while (packed.more()) {
                message[f.name].push(readValue(packed, f.type));
            }
        } else if (wire !== wireType(f.type)) {
            r.skip(wire);
        } else if (f.mark === '*') {
            message[f.name].push(readValue(r, f.type));
        } else {
            message[f.name] = readValue(r, f.type);
        }
    }
    return message;
}

// content is the name of the member of a StreamingMessage's oneof that is set.
function content(message) {
    return Object.keys(message).find((k) => k !== 'requestId');
}

module.exports = { encode, decode, content };
