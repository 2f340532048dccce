// azure-storage 2.10, the legacy library for Node.js.
const assert = require("node:assert");
const { promisify } = require("node:util");
const azure = require("azure-storage");

const connection = process.env.LAZULI_CONNECTION_STRING;
const call = (service, name, ...args) => promisify(service[name]).apply(service, args);

async function main() {
  const blobs = azure.createBlobService(connection);
  await call(blobs, "createContainer", "legacy-js");
  await call(blobs, "createBlockBlobFromText", "legacy-js", "a/b ü", "text");
  assert.equal(await call(blobs, "getBlobToText", "legacy-js", "a/b ü"), "text");
  await call(blobs, "createBlockFromText", "AA==", "legacy-js", "blocks", "x");
  await call(blobs, "commitBlocks", "legacy-js", "blocks", { UncommittedBlocks: ["AA=="] });
  const list = await call(blobs, "listBlobsSegmented", "legacy-js", null);
  assert.deepEqual(list.entries.map((b) => b.name), ["a/b ü", "blocks"]);
  await call(blobs, "createAppendBlobFromText", "legacy-js", "log", "line");
  await call(blobs, "deleteContainer", "legacy-js");

  const queues = azure.createQueueService(connection);
  await call(queues, "createQueue", "legacy-js");
  await call(queues, "createMessage", "legacy-js", "hello");
  const message = await call(queues, "getMessage", "legacy-js");
  assert.equal(message.messageText, "hello");
  await call(queues, "deleteMessage", "legacy-js", message.messageId, message.popReceipt);
  await call(queues, "deleteQueue", "legacy-js");

  const tables = azure.createTableService(connection);
  const make = azure.TableUtilities.entityGenerator;
  await call(tables, "createTable", "LegacyJs");
  const batch = new azure.TableBatch();
  for (let i = 0; i < 20; i++) {
    batch.insertEntity({ PartitionKey: make.String("p"), RowKey: make.String(String(i).padStart(2, "0")), N: make.Int32(i), D: make.Double(i + 0.5) });
  }
  await call(tables, "executeBatch", "LegacyJs", batch);
  const query = new azure.TableQuery().where("PartitionKey eq ? and N lt ?", "p", 3);
  const found = await call(tables, "queryEntities", "LegacyJs", query, null);
  assert.deepEqual(found.entries.map((e) => e.N._), [0, 1, 2]);
  await call(tables, "deleteTable", "LegacyJs");
}

main().catch((err) => {
  console.error(err);
  process.exit(1);
});
