// What a small application does, through the Azure SDK for JavaScript. See ../README.md.
import assert from "node:assert/strict";
import { randomBytes, randomUUID } from "node:crypto";
import { TableClient, TableServiceClient, odata } from "@azure/data-tables";
import { BlobServiceClient } from "@azure/storage-blob";
import { QueueServiceClient } from "@azure/storage-queue";

const connection = process.env.LAZULI_CONNECTION_STRING;
const name = "smoke" + randomBytes(6).toString("hex");

/** call must fail with that HTTP status and Azure error code. */
async function refused(status, code, call) {
  try {
    await call();
  } catch (e) {
    const got = e.code ?? e.details?.errorCode ?? e.details?.odataError?.code;
    assert.deepEqual([e.statusCode, got === "RestError" ? e.details?.odataError?.code : got], [status, code]);
    return;
  }
  assert.fail(`not refused: want ${status} ${code}`);
}

async function all(iterator) {
  const items = [];
  for await (const item of iterator) items.push(item);
  return items;
}

async function blobs() {
  const service = BlobServiceClient.fromConnectionString(connection);
  const container = service.getContainerClient(name);
  await container.create({ metadata: { purpose: "smoke" } });
  try {
    assert.deepEqual((await container.getProperties()).metadata, { purpose: "smoke" });
    await refused(409, "ContainerAlreadyExists", () => container.create());

    const blob = container.getBlockBlobClient("folder/a b+ü.txt");
    await blob.upload("hello world", 11, { metadata: { k: "v" }, blobHTTPHeaders: { blobContentType: "text/plain" } });
    assert.equal((await blob.downloadToBuffer()).toString(), "hello world");
    assert.equal((await blob.downloadToBuffer(6, 5)).toString(), "world");
    const properties = await blob.getProperties();
    assert.deepEqual([properties.contentLength, properties.contentType, properties.metadata], [11, "text/plain", { k: "v" }]);
    await refused(412, "ConditionNotMet", () => blob.upload("x", 1, { conditions: { ifMatch: '"0x1"' } }));
    await refused(409, "BlobAlreadyExists", () => blob.upload("x", 1, { conditions: { ifNoneMatch: "*" } }));

    const big = container.getBlockBlobClient("big");
    const content = randomBytes(5 * 1024 * 1024);
    await big.uploadData(content, { blockSize: 1024 * 1024, maxSingleShotSize: 1024 * 1024, concurrency: 3 });
    assert.ok((await big.downloadToBuffer()).equals(content));
    assert.equal((await big.getBlockList("committed")).committedBlocks.length, 5);

    for (let i = 0; i < 7; i++) await container.getBlockBlobClient(`list/${i}`).upload("", 0);
    const pages = await all(container.listBlobsFlat({ prefix: "list/" }).byPage({ maxPageSize: 3 }));
    assert.deepEqual(pages.map((p) => p.segment.blobItems.length), [3, 3, 1]);
    const top = await all(container.listBlobsByHierarchy("/"));
    assert.deepEqual(top.map((i) => i.name).sort(), ["big", "folder/", "list/"]);

    await queries(container.getBlockBlobClient("people.csv"));

    await blob.delete();
    await refused(404, "BlobNotFound", () => blob.download());
  } finally {
    await container.delete();
  }
}

/** Query Blob Contents: formats, errors within an answer and before it, progress. */
async function queries(blob) {
  const text = async (response) => Buffer.concat(await all(response.readableStreamBody)).toString();
  const content = "Name,Age\nAda,36\nGrace,old\nAlan,41\n";
  await blob.upload(content, content.length);
  const errors = [];
  const progress = [];
  const response = await blob.query("SELECT Name FROM BlobStorage WHERE Age > 30", {
    inputTextConfiguration: { kind: "csv", recordSeparator: "\n", columnSeparator: ",", hasHeaders: true },
    outputTextConfiguration: { kind: "json", recordSeparator: "\n" },
    onError: (e) => errors.push(e),
    onProgress: (p) => progress.push(p.loadedBytes),
  });
  assert.equal(response.contentType, "avro/binary");
  assert.equal(await text(response), '{"Name":"Ada"}\n{"Name":"Alan"}\n');
  assert.deepEqual(errors.map((e) => [e.name, e.isFatal]), [["InvalidTypeConversion", false]]);
  assert.deepEqual(progress, [content.length, content.length]);
  assert.equal(await text(await blob.query("SELECT * FROM BlobStorage")), content);
  await refused(400, "ErrorProcessingQueryExpression", () => blob.query("SELECT Name FROM BlobStorage"));

  const large = Buffer.from("1,2\n".repeat(3_000_000));
  await blob.uploadData(large);
  assert.ok(Buffer.concat(await all((await blob.query("SELECT * FROM BlobStorage")).readableStreamBody)).equals(large));

  errors.length = 0;
  const fatal = await blob.query("SELECT * FROM BlobStorage", { inputTextConfiguration: { kind: "json", recordSeparator: "\n" }, onError: (e) => errors.push(e) });
  assert.equal(await text(fatal), "\n");
  assert.deepEqual(errors.map((e) => [e.name, e.isFatal, e.position]), [["ParseError", true, 0]]);
}

async function queues() {
  const service = QueueServiceClient.fromConnectionString(connection);
  const queue = service.getQueueClient(name);
  await queue.create();
  try {
    const sent = await queue.sendMessage("first <&> ü");
    await queue.sendMessage("second", { visibilityTimeout: 3600 });
    const peeked = (await queue.peekMessages({ numberOfMessages: 5 })).peekedMessageItems;
    assert.deepEqual(peeked.map((m) => m.messageText), ["first <&> ü"]);
    const [got] = (await queue.receiveMessages({ numberOfMessages: 5, visibilityTimeout: 30 })).receivedMessageItems;
    assert.deepEqual([got.messageId, got.dequeueCount], [sent.messageId, 1]);
    assert.equal((await queue.getProperties()).approximateMessagesCount, 2);
    await queue.updateMessage(got.messageId, got.popReceipt, "changed", 0);
    await refused(404, "MessageNotFound", () => queue.deleteMessage(got.messageId, got.popReceipt));
    const [again] = (await queue.receiveMessages({ visibilityTimeout: 30 })).receivedMessageItems;
    assert.deepEqual([again.messageText, again.dequeueCount], ["changed", 2]);
    await queue.deleteMessage(again.messageId, again.popReceipt);
    await queue.clearMessages();
    assert.equal((await queue.receiveMessages()).receivedMessageItems.length, 0);
    assert.ok((await all(service.listQueues({ prefix: "smoke" }))).some((q) => q.name === name));
  } finally {
    await queue.delete();
  }
  await refused(404, "QueueNotFound", () => queue.sendMessage("x"));
}

async function tables() {
  const options = { allowInsecureConnection: true };
  const service = TableServiceClient.fromConnectionString(connection, options);
  const table = TableClient.fromConnectionString(connection, name, options);
  await service.createTable(name);
  try {
    const id = randomUUID();
    const entity = { partitionKey: "O'Hara", rowKey: "ü-1", text: "x", number: 7, big: 1099511627776n, real: 1.5, yes: true,
      when: new Date("2026-01-02T03:04:05.600Z"), id: { type: "Guid", value: id }, bytes: new Uint8Array([0, 255]) };
    await table.createEntity(entity);
    await refused(409, "EntityAlreadyExists", () => table.createEntity(entity));
    const got = await table.getEntity("O'Hara", "ü-1");
    for (const key of ["text", "number", "big", "real", "yes"]) assert.equal(got[key], entity[key], key);
    assert.equal(new Date(got.when).getTime(), entity.when.getTime());
    assert.equal(got.id.value ?? got.id, id);
    assert.deepEqual([...got.bytes], [0, 255]);

    await table.updateEntity({ partitionKey: "O'Hara", rowKey: "ü-1", text: "y" }, "Merge");
    assert.equal((await table.getEntity("O'Hara", "ü-1")).number, 7);
    await refused(412, "UpdateConditionNotSatisfied", () => table.updateEntity(entity, "Replace", { etag: got.etag }));

    const rows = [...Array(100).keys()].map((n) => ["upsert", { partitionKey: "p", rowKey: String(n).padStart(3, "0"), n }, "Replace"]);
    await table.submitTransaction(rows);
    const filter = odata`PartitionKey eq ${"p"} and n ge ${90}`;
    const found = await all(table.listEntities({ queryOptions: { filter, select: ["rowKey", "n"] } }));
    assert.deepEqual(found.map((e) => e.n), [90, 91, 92, 93, 94, 95, 96, 97, 98, 99]);
    await refused(409, "EntityAlreadyExists", () => table.submitTransaction([
      ["create", { partitionKey: "p", rowKey: "new" }], ["create", { partitionKey: "p", rowKey: "001" }]]));
    await refused(404, "ResourceNotFound", () => table.getEntity("p", "new"));
    await table.deleteEntity("p", "000");
    assert.equal((await all(table.listEntities())).length, 100);
  } finally {
    await service.deleteTable(name);
  }
}

for (const part of [blobs, queues, tables]) {
  await part();
  console.log(`javascript ${part.name}: ok`);
}
