// @azure/storage-blob, @azure/storage-queue and @azure/data-tables 12.0.0 for Node.js, the first of the present libraries.
const assert = require("node:assert");
const { Readable } = require("node:stream");
const { BlobServiceClient } = require("@azure/storage-blob");
const { QueueServiceClient } = require("@azure/storage-queue");
const { TableServiceClient, TableClient, odata } = require("@azure/data-tables");

const connection = process.env.LAZULI_CONNECTION_STRING;
// refused tells whether an error has this status and code.
const refused = (status, code) => (e) => e.statusCode === status && e.details.errorCode === code;

async function blobs() {
  const service = BlobServiceClient.fromConnectionString(connection);
  const container = service.getContainerClient("oldest-js");
  await container.create();
  await assert.rejects(container.create(), refused(409, "ContainerAlreadyExists"));
  const blob = container.getBlockBlobClient("a/b ü");
  const content = Buffer.alloc(5 << 20, "content");
  await blob.uploadStream(Readable.from([content]), 1 << 20, 2, { metadata: { k: "v" } });
  assert.deepEqual(await blob.downloadToBuffer(), content);
  assert.equal((await blob.getProperties()).metadata.k, "v");
  await blob.createSnapshot();
  await blob.setAccessTier("Cool");
  const lease = blob.getBlobLeaseClient();
  await lease.acquireLease(-1);
  await assert.rejects(blob.upload("x", 1), refused(412, "LeaseIdMissing"));
  await lease.releaseLease();
  const page = container.getPageBlobClient("page");
  await page.create(1024);
  await page.uploadPages(Buffer.alloc(512, 1), 512, 512);
  const [range] = (await page.getPageRanges(0, 1024)).pageRange;
  assert.deepEqual([range.offset, range.count], [512, 511]); // the library counts one too few
  const log = container.getAppendBlobClient("log");
  await log.create();
  await log.appendBlock("line", 4);
  const copy = await container.getBlobClient("copy").beginCopyFromURL(log.url);
  assert.equal((await copy.pollUntilDone()).copyStatus, "success");
  const names = [];
  for await (const b of container.listBlobsFlat()) names.push(b.name);
  assert.deepEqual(names, ["a/b ü", "copy", "log", "page"]);
  await container.delete();
}

async function queues() {
  const queue = QueueServiceClient.fromConnectionString(connection).getQueueClient("oldest-js");
  await queue.create();
  await queue.sendMessage("hello");
  const [message] = (await queue.receiveMessages()).receivedMessageItems;
  assert.equal(message.messageText, "hello");
  await queue.deleteMessage(message.messageId, message.popReceipt);
  await queue.delete();
}

async function tables() {
  const options = { allowInsecureConnection: true };
  await TableServiceClient.fromConnectionString(connection, options).createTable("OldestJs");
  const table = TableClient.fromConnectionString(connection, "OldestJs", options);
  // Transactions of this version need https.
  for (let i = 0; i < 5; i++) await table.createEntity({ partitionKey: "p", rowKey: String(i).padStart(2, "0"), n: i, big: 2n ** 40n });
  const found = [];
  for await (const e of table.listEntities({ queryOptions: { filter: odata`PartitionKey eq 'p' and n lt 3` } })) found.push([e.n, e.big]);
  assert.deepEqual(found, [[0, 2n ** 40n], [1, 2n ** 40n], [2, 2n ** 40n]]);
  await table.deleteTable();
}

blobs()
  .then(queues)
  .then(tables)
  .catch((e) => {
    console.error(e);
    process.exit(1);
  });
