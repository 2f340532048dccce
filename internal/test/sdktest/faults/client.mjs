// The client for JavaScript of run.py; see README.md.

import { BlobServiceClient, StorageSharedKeyCredential } from '@azure/storage-blob';
import { QueueServiceClient } from '@azure/storage-queue';
import dns from 'node:dns';
import { createInterface } from 'node:readline';

const content = Buffer.from('0123456789'.repeat(20000));
const connection = process.env.LAZULI_CONNECTION_STRING;
const settings = Object.fromEntries(connection.split(';').map((part) => part.split(/=(.*)/s)));
const port = new URL(settings.BlobEndpoint).port;
const account = settings.AccountName;

const { lookup } = dns;
dns.lookup = (host, ...rest) => lookup(host.endsWith('.localhost') ? '127.0.0.1' : host, ...rest);

const retryOptions = { retryDelayInMs: 1, tryTimeoutInMs: 3000 };
const box = BlobServiceClient.fromConnectionString(connection, { retryOptions }).getContainerClient('faults');
const queue = QueueServiceClient.fromConnectionString(connection, { retryOptions }).getQueueClient('faults');
const both = new BlobServiceClient(`http://${account}.blob.localhost:${port}`, new StorageSharedKeyCredential(account, settings.AccountKey),
  { retryOptions: { ...retryOptions, secondaryHost: `${account}-secondary.blob.localhost` } }).getContainerClient('faults');

for await (const line of createInterface({ input: process.stdin })) {
  const [operation, argument] = line.trim().split(' ');
  try {
    if (operation === 'put') {
      await box.getBlockBlobClient(argument).upload(content, content.length);
    } else if (operation === 'get' || operation === 'secondary') {
      if (!(await (operation === 'get' ? box : both).getBlobClient('b').downloadToBuffer()).equals(content)) {
        console.log('wrong bytes');
        continue;
      }
    } else {
      await queue.sendMessage(argument);
    }
    console.log('ok');
  } catch (e) {
    console.log(e.details?.errorCode ?? e.code ?? e.name);
  }
}
