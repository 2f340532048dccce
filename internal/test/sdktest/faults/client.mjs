// The client for JavaScript of run.py; see README.md.

import { BlobServiceClient } from '@azure/storage-blob';
import { QueueServiceClient } from '@azure/storage-queue';
import { createInterface } from 'node:readline';

const content = Buffer.from('0123456789'.repeat(20000));
const connection = process.env.LAZULI_CONNECTION_STRING;
const options = { retryOptions: { retryDelayInMs: 1, maxRetryDelayInMs: 10, tryTimeoutInMs: 5000 } };
const box = BlobServiceClient.fromConnectionString(connection, options).getContainerClient('faults');
const queue = QueueServiceClient.fromConnectionString(connection, options).getQueueClient('faults');

for await (const line of createInterface({ input: process.stdin })) {
  const [operation, argument] = line.trim().split(' ');
  try {
    if (operation === 'put') {
      await box.getBlockBlobClient(argument).upload(content, content.length);
    } else if (operation === 'get') {
      if (!(await box.getBlobClient('b').downloadToBuffer()).equals(content)) {
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
