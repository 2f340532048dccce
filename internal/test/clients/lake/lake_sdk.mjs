// @azure/storage-file-datalake: each public method of its clients, on an account with a hierarchical namespace.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import * as lake from "@azure/storage-file-datalake";

const settings = Object.fromEntries(process.env.LAZULI_CONNECTION_STRING.split(";").filter(Boolean).map(p => [p.slice(0, p.indexOf("=")), p.slice(p.indexOf("=") + 1)]));
// The library knows which address is that of the Blob endpoint for hosts of Azure alone.
const url = `https://${settings.AccountName}.dfs.core.windows.net`;
const key = new lake.StorageSharedKeyCredential(settings.AccountName, settings.AccountKey);

// What is called is noted: at the end every public method must have been.
const called = new Set();
const clients = [lake.DataLakeServiceClient, lake.DataLakeFileSystemClient, lake.DataLakePathClient, lake.DataLakeDirectoryClient, lake.DataLakeFileClient, lake.DataLakeLeaseClient];
const methods = c => Object.getOwnPropertyNames(c.prototype).filter(n => n !== "constructor" && !n.endsWith("Internal") && !n.startsWith("_") &&
  !n.endsWith("Segment") && !n.endsWith("Items") && !n.endsWith("Segments") && typeof Object.getOwnPropertyDescriptor(c.prototype, n).value === "function");
for (const c of clients) {
  for (const n of methods(c)) {
    const own = c.prototype[n];
    c.prototype[n] = function (...args) {
      called.add(`${c.name}.${n}`);
      return own.apply(this, args);
    };
  }
}

async function fails(code, call) {
  await assert.rejects(call, e => {
    assert.equal(e.code ?? e.details?.errorCode, code, e.message);
    return true;
  });
}
const names = async pages => {
  const all = [];
  for await (const p of pages) all.push(p.name);
  return all;
};

const service = new lake.DataLakeServiceClient(url, key);
await service.setProperties({ deleteRetentionPolicy: { enabled: true, days: 2 } });
assert.equal((await service.getProperties()).deleteRetentionPolicy.days, 2);
const fs = service.getFileSystemClient("node");
await fs.create({ metadata: { k: "v" } });
assert.equal((await fs.createIfNotExists()).succeeded, false);
assert.deepEqual(await names(service.listFileSystems({ prefix: "nod" })), ["node"]);
assert.ok(await fs.exists());
await fs.setMetadata({ a: "b" });
assert.deepEqual((await fs.getProperties()).metadata, { a: "b" });
await fs.setAccessPolicy("file", [{ id: "reads", accessPolicy: { permissions: "r", expiresOn: new Date(Date.now() + 3600e3) } }]);
assert.equal((await fs.getAccessPolicy()).signedIdentifiers[0].id, "reads");
await fs.setAccessPolicy();
const lease = fs.getDataLakeLeaseClient();
await lease.acquireLease(15);
await lease.renewLease();
await lease.changeLease("11111111-1111-1111-1111-111111111111");
await fails("LeaseIdMissing", () => fs.delete());
await lease.releaseLease();
await lease.acquireLease(-1);
await lease.breakLease(0);
const second = service.getFileSystemClient("second");
await second.create();
await second.deleteIfExists();
assert.equal((await second.deleteIfExists()).succeeded, false);

const d = fs.getDirectoryClient("d");
await d.create({ permissions: "rwxr-x---", umask: "0000" });
assert.equal((await d.createIfNotExists()).succeeded, false);
await fails("PathAlreadyExists", () => d.create({ conditions: { ifNoneMatch: "*" } }));
await d.getSubdirectoryClient("sub").create();
const inner = d.getFileClient("sub/inner");
await inner.createIfNotExists();
assert.deepEqual(await names(fs.listPaths({ recursive: true })), ["d", "d/sub", "d/sub/inner"]);
await d.setMetadata({ m: "1" });
assert.equal((await d.getProperties()).metadata.m, "1");
await d.setHttpHeaders({ contentLanguage: "en" });
await d.setPermissions({ owner: { read: true, write: true, execute: true }, group: { read: true, write: false, execute: true },
  other: { read: false, write: false, execute: true }, stickyBit: true, extendedAcls: false });
const user = "22222222-2222-2222-2222-222222222222";
const entry = (accessControlType, entityId, text) => ({ accessControlType, entityId, defaultScope: false,
  permissions: { read: text.includes("r"), write: text.includes("w"), execute: text.includes("x") } });
const base = [entry("user", "", "rwx"), entry("group", "", "rx"), entry("other", "", "")];
const set = await d.setAccessControlRecursive([...base, entry("user", user, "rx")], { batchSize: 1 });
assert.deepEqual([set.counters.changedDirectoriesCount, set.counters.changedFilesCount, set.counters.failedChangesCount], [2, 1, 0]);
await d.updateAccessControlRecursive([entry("user", user, "rwx")]);
const access = await d.getAccessControl();
assert.ok(access.acl.some(a => a.entityId === user && a.permissions.write));
assert.equal(access.permissions.stickyBit, true);
await d.removeAccessControlRecursive([{ accessControlType: "user", entityId: user, defaultScope: false }]);
assert.ok(!(await d.getAccessControl()).acl.some(a => a.entityId === user));
await d.setAccessControl(base, { owner: user });
assert.equal((await d.getAccessControl()).owner, user);
assert.equal(d.toDirectoryClient().name, "d");
const leased = d.getDataLakeLeaseClient();
await leased.acquireLease(15);
await fails("LeaseIdMissing", () => d.delete(true));
await leased.releaseLease();
await d.move("moved");
const moved = fs.getDirectoryClient("moved");
assert.ok(await moved.exists() && !(await fs.getDirectoryClient("d").exists()));
await fails("SourcePathNotFound", () => fs.getDirectoryClient("d").move("x"));
await fails("DirectoryNotEmpty", () => moved.delete(false));

const f = fs.getFileClient("files/ä b+c%41");
await f.create({ encryptionContext: "context", metadata: { n: "1" } });
assert.equal((await f.getProperties()).metadata.n, "1");
assert.equal(f.toFileClient().name, "files/ä b+c%41");
const content = randomBytes(3 << 20);
await f.append(content, 0, content.length);
await fails("InvalidFlushPosition", () => f.flush(3));
await f.flush(content.length);
assert.deepEqual(await f.readToBuffer(), content);
const part = await f.read(100, 50);
const chunks = [];
for await (const c of part.readableStreamBody) chunks.push(c);
assert.deepEqual(Buffer.concat(chunks), content.subarray(100, 150));
await f.upload(content.subarray(0, 10), { chunkSize: 4 });
await f.uploadStream((await import("node:stream")).Readable.from([content]), { chunkSize: 1 << 20 });
const path = `${process.argv[2]}/file`;
await (await import("node:fs/promises")).writeFile(path, content);
await f.uploadFile(path);
await f.readToFile(`${path}.back`);
assert.deepEqual(await (await import("node:fs/promises")).readFile(`${path}.back`), content);
await f.setExpiry("RelativeToNow", { timeToExpireInMs: 3600e3 });
assert.ok((await f.getProperties()).expiresOn);
await f.setExpiry("NeverExpire");
await f.upload(Buffer.from("Name,Age\nA,1\nB,2\n"));
const rows = [];
for await (const c of (await f.query("SELECT Name FROM BlobStorage WHERE Age > 1", { inputTextConfiguration: { kind: "csv", hasHeaders: true } })).readableStreamBody) rows.push(c);
assert.match(Buffer.concat(rows).toString(), /B/);
await f.deleteIfExists();
assert.equal((await f.deleteIfExists()).succeeded, false);
const deleted = [];
for await (const p of fs.listDeletedPaths()) deleted.push(p);
assert.deepEqual(deleted.map(p => p.name), ["files/ä b+c%41"]);
const restored = await fs.undeletePath("files/ä b+c%41", deleted[0].deletionId);
assert.ok(await restored.pathClient.exists());

// Signatures.
const expiresOn = new Date(Date.now() + 3600e3);
const limited = lake.generateDataLakeSASQueryParameters({ fileSystemName: "node", pathName: "moved", isDirectory: true, directoryDepth: 1,
  permissions: lake.DirectorySASPermissions.parse("rl"), expiresOn }, key);
const bySAS = new lake.DataLakeFileSystemClient(`${url}/node?${limited}`);
assert.deepEqual(await names(bySAS.listPaths({ path: "moved" })), ["moved/sub"]);
await fails("AuthorizationPermissionMismatch", () => bySAS.getFileClient("moved/no").create());
assert.ok(await new lake.DataLakeFileClient(await inner.generateSasUrl({ permissions: lake.DataLakeSASPermissions.parse("r"), expiresOn })).getProperties().catch(e => e.statusCode === 404));
assert.deepEqual(await names(new lake.DataLakeFileSystemClient(await fs.generateSasUrl({ permissions: lake.FileSystemSASPermissions.parse("rl"), expiresOn })).listPaths()), ["files", "moved"]);
assert.ok((await moved.generateSasUrl({ permissions: lake.DirectorySASPermissions.parse("r"), expiresOn })).includes("sr=d"));
assert.ok(service.generateAccountSasUrl(expiresOn).includes("sig="));
const token = { getToken: async () => {
  const r = await fetch(`${process.env.IDENTITY_ENDPOINT}?resource=https://storage.azure.com&api-version=2019-08-01`, { headers: { "X-IDENTITY-HEADER": "any" } });
  return { token: (await r.json()).access_token, expiresOnTimestamp: Date.now() + 3600e3 };
} };
const trusted = new lake.DataLakeServiceClient(url, token);
const delegated = await trusted.getUserDelegationKey(new Date(Date.now() - 300e3), expiresOn);
const by = new lake.DataLakeFileSystemClient(`${url}/node?${lake.generateDataLakeSASQueryParameters({ fileSystemName: "node",
  permissions: lake.FileSystemSASPermissions.parse("racwdlmeop"), expiresOn }, delegated, settings.AccountName)}`);
await by.getFileClient("by-token").create();
await by.getFileClient("by-token").delete();
for (const c of [fs, moved, inner]) {
  assert.ok((await c.generateUserDelegationSasUrl({ permissions: { toString: () => "r" }, expiresOn }, delegated)).includes("skoid"));
}

// No deleted filesystem is kept here, and renames of filesystems are not public on Azure.
const absent = new Set(["DataLakeServiceClient.undeleteFileSystem", "DataLakeServiceClient.renameFileSystem", "DataLakeFileSystemClient.delete"]);
await fs.delete();
const missed = clients.flatMap(c => methods(c).map(n => `${c.name}.${n}`)).filter(n => !called.has(n) && !absent.has(n));
// The methods that a file's client has of the path's client were called on one of the two.
assert.deepEqual(missed.filter(n => !/generateSasStringToSign|generateUserDelegation.*StringToSign|StringToSign/.test(n)), []);
console.log(`== ${called.size} public methods`);
