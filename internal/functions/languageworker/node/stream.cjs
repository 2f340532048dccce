'use strict';
// The worker's side of the gRPC call EventStream: messages in both directions over one HTTP/2 stream.
// https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md

const http2 = require('node:http2');
const proto = require('./proto.cjs');

// window is the number of bytes that the host may send ahead.
const window = 16 << 20;

// closeGrace is the time, in milliseconds, that a host may take to end its side of the stream.
const closeGrace = 200;

// connect opens the stream at the host's address, such as http://127.0.0.1:1234. received is called with each message
// in the order of their arrival, and ended once, with an error or nothing. maxLength bounds a message, in bytes.
function connect(address, maxLength, received, ended) {
    const session = http2.connect(address, { settings: { initialWindowSize: window } });
    session.on('connect', () => session.setLocalWindowSize(window));
    let over = false;
    const end = (err) => {
        if (!over) {
            over = true;
            session.destroy();
            ended(err);
        }
    };
    session.on('error', end);
    session.on('close', () => end());
    const call = session.request({
        ':method': 'POST',
        ':path': '/AzureFunctionsRpcMessages.FunctionRpc/EventStream',
        'content-type': 'application/grpc',
        te: 'trailers',
    });
    call.on('error', end);
    call.on('response', (headers) => {
        if (headers[':status'] !== 200) {
            end(new Error(`the host answers with the status ${headers[':status']}`));
        }
    });
    const status = (headers) => {
        if (headers['grpc-status'] && headers['grpc-status'] !== '0') {
            end(new Error(`the host ended the stream: ${headers['grpc-message'] || headers['grpc-status']}`));
        }
    };
    call.on('response', status);
    call.on('trailers', status);
    call.on('close', () => end());

    let chunks = [];
    let length = 0;
    call.on('data', (chunk) => {
        chunks.push(chunk);
        length += chunk.length;
        while (length >= 5) {
            // Joined only when a message is complete: a large one arrives in many chunks.
            if (chunks[0].length < 5) {
                chunks = [Buffer.concat(chunks, length)];
            }
            const size = chunks[0].readUInt32BE(1);
            if (chunks[0][0] !== 0) {
                return end(new Error('the host sent a compressed message'));
            }
            if (size > maxLength) {
                return end(new Error(`the host sent a message of ${size} bytes; the limit is ${maxLength}`));
            }
            if (length < 5 + size) {
                return;
            }
            const all = chunks.length === 1 ? chunks[0] : Buffer.concat(chunks, length);
            chunks = [all.subarray(5 + size)];
            length -= 5 + size;
            try {
                received(proto.decode('StreamingMessage', all.subarray(5, 5 + size)));
            } catch (err) {
                return end(err);
            }
        }
    });

    return {
        // send writes a message. An error means that it cannot be one: nothing was sent.
        send(message) {
            if (over) {
                return;
            }
            const body = proto.encode('StreamingMessage', message);
            if (body.length > maxLength) {
                throw new RangeError(`a message has ${body.length} bytes; the limit is ${maxLength}`);
            }
            const head = Buffer.alloc(5);
            head.writeUInt32BE(body.length, 1);
            call.write(Buffer.concat([head, body]));
        },
        // close ends the stream, and calls done when the host has ended it too, or does not within the grace period.
        close(done) {
            over = true;
            call.on('close', done);
            call.end(() => setTimeout(done, closeGrace));
        },
    };
}

module.exports = { connect };
