import com.azure.core.credential.AccessToken;
import com.azure.core.credential.TokenCredential;
import com.azure.core.http.rest.PagedIterable;
import com.azure.core.util.BinaryData;
import com.azure.core.util.Context;
import com.azure.storage.common.ParallelTransferOptions;
import com.azure.storage.common.StorageSharedKeyCredential;
import com.azure.storage.common.sas.AccountSasPermission;
import com.azure.storage.common.sas.AccountSasResourceType;
import com.azure.storage.common.sas.AccountSasService;
import com.azure.storage.common.sas.AccountSasSignatureValues;
import com.azure.storage.file.datalake.DataLakeDirectoryClient;
import com.azure.storage.file.datalake.DataLakeFileClient;
import com.azure.storage.file.datalake.DataLakeFileSystemClient;
import com.azure.storage.file.datalake.DataLakeFileSystemClientBuilder;
import com.azure.storage.file.datalake.DataLakePathClientBuilder;
import com.azure.storage.file.datalake.DataLakeServiceAsyncClient;
import com.azure.storage.file.datalake.DataLakeServiceClient;
import com.azure.storage.file.datalake.DataLakeServiceClientBuilder;
import com.azure.storage.file.datalake.models.AccessControlChangeCounters;
import com.azure.storage.file.datalake.models.AccessControlType;
import com.azure.storage.file.datalake.models.CustomerProvidedKey;
import com.azure.storage.file.datalake.models.DataLakeAccessPolicy;
import com.azure.storage.file.datalake.models.DataLakeRequestConditions;
import com.azure.storage.file.datalake.models.DataLakeRetentionPolicy;
import com.azure.storage.file.datalake.models.DataLakeServiceProperties;
import com.azure.storage.file.datalake.models.DataLakeSignedIdentifier;
import com.azure.storage.file.datalake.models.DataLakeStorageException;
import com.azure.storage.file.datalake.models.FileQueryDelimitedSerialization;
import com.azure.storage.file.datalake.models.FileRange;
import com.azure.storage.file.datalake.models.ListFileSystemsOptions;
import com.azure.storage.file.datalake.models.ListPathsOptions;
import com.azure.storage.file.datalake.models.PathAccessControlEntry;
import com.azure.storage.file.datalake.models.PathDeletedItem;
import com.azure.storage.file.datalake.models.PathHttpHeaders;
import com.azure.storage.file.datalake.models.PathItem;
import com.azure.storage.file.datalake.models.PathPermissions;
import com.azure.storage.file.datalake.models.PathProperties;
import com.azure.storage.file.datalake.models.PathRemoveAccessControlEntry;
import com.azure.storage.file.datalake.models.RolePermissions;
import com.azure.storage.file.datalake.models.UserDelegationKey;
import com.azure.storage.file.datalake.options.DataLakeFileAppendOptions;
import com.azure.storage.file.datalake.options.DataLakeFileFlushOptions;
import com.azure.storage.file.datalake.options.DataLakePathCreateOptions;
import com.azure.storage.file.datalake.options.DataLakePathDeleteOptions;
import com.azure.storage.file.datalake.options.DataLakePathScheduleDeletionOptions;
import com.azure.storage.file.datalake.options.FileParallelUploadOptions;
import com.azure.storage.file.datalake.options.FileQueryOptions;
import com.azure.storage.file.datalake.options.FileScheduleDeletionOptions;
import com.azure.storage.file.datalake.options.PathSetAccessControlRecursiveOptions;
import com.azure.storage.file.datalake.sas.DataLakeServiceSasSignatureValues;
import com.azure.storage.file.datalake.sas.FileSystemSasPermission;
import com.azure.storage.file.datalake.sas.PathSasPermission;
import com.azure.storage.file.datalake.specialized.DataLakeLeaseClient;
import com.azure.storage.file.datalake.specialized.DataLakeLeaseClientBuilder;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Random;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import reactor.core.publisher.Mono;

/**
 * azure-storage-file-datalake: the public methods of its clients, with the account's key, signatures and tokens. Arguments: address of the
 * dfs endpoint by the account's host name, key, folder, address of tokens.
 */
public class Lake {
	private static final String USER = "22222222-2222-2222-2222-222222222222";

	private static Path folder;
	private static int checks;

	public static void main(String[] args) throws Exception {
		StorageSharedKeyCredential key = new StorageSharedKeyCredential("devstoreaccount1", args[1]);
		DataLakeServiceClient service = new DataLakeServiceClientBuilder().endpoint(args[0]).credential(key).buildClient();
		folder = Path.of(args[2]);
		filesystems(service);
		DataLakeFileSystemClient fs = service.createFileSystem("java");
		directories(fs);
		access(fs);
		files(fs);
		deleted(fs);
		encrypted(fs, args[0], key);
		asynchronous(new DataLakeServiceClientBuilder().endpoint(args[0]).credential(key).buildAsyncClient());
		signatures(service, fs, args[0]);
		tokens(fs, args[0], args[3]);
		service.deleteFileSystem("java");
		fails(404, "FilesystemNotFound", () -> fs.listPaths().stream().count());
		System.out.printf("== %d checks%n", checks);
		System.exit(0);
	}

	private static void filesystems(DataLakeServiceClient service) {
		equal(service.getAccountName(), "devstoreaccount1");
		DataLakeServiceProperties p = service.getProperties();
		p.setDeleteRetentionPolicy(new DataLakeRetentionPolicy().setEnabled(true).setDays(2));
		service.setProperties(p);
		equal(service.getProperties().getDeleteRetentionPolicy().getDays(), 2);
		DataLakeFileSystemClient a = service.createFileSystemWithResponse("java-a", Map.of("k", "v"), null, Context.NONE).getValue();
		check(!a.createIfNotExists() && a.exists(), "exists");
		equal(a.getProperties().getMetadata(), Map.of("k", "v"));
		equal(a.getProperties().hasLegalHold(), false);
		a.setMetadata(Map.of("x", "y"));
		equal(a.getProperties().getMetadata(), Map.of("x", "y"));
		fails(409, "ContainerAlreadyExists", a::create);
		DataLakeFileSystemClient b = service.getFileSystemClient("java-b");
		check(b.createIfNotExists(), "created");
		List<String> names = new ArrayList<>();
		service.listFileSystems(new ListFileSystemsOptions().setPrefix("java-").setMaxResultsPerPage(1), null).forEach(f -> names.add(f.getName()));
		equal(names, List.of("java-a", "java-b"));
		a.setAccessPolicy(null, List.of(new DataLakeSignedIdentifier().setId("reads").setAccessPolicy(
				new DataLakeAccessPolicy().setPermissions("r").setExpiresOn(OffsetDateTime.now().plusHours(1)))));
		equal(a.getAccessPolicy().getIdentifiers().get(0).getId(), "reads");
		DataLakeLeaseClient lease = new DataLakeLeaseClientBuilder().fileSystemClient(a).buildClient();
		leases(lease);
		lease.acquireLease(-1);
		fails(412, "LeaseIdMissing", a::delete);
		check(lease.breakLease() == 0, "an infinite lease breaks at once");
		a.delete();
		check(b.deleteIfExists() && !b.deleteIfExists() && !b.exists(), "deleted");
	}

	private static void leases(DataLakeLeaseClient lease) {
		String id = lease.acquireLease(15);
		equal(lease.renewLease(), id);
		equal(lease.changeLease("11111111-1111-1111-1111-111111111111"), "11111111-1111-1111-1111-111111111111");
		lease.releaseLease();
	}

	private static void directories(DataLakeFileSystemClient fs) {
		DataLakeDirectoryClient d = fs.createDirectory("d ä%2F");
		equal(d.getDirectoryPath(), "d ä%2F");
		fails(409, "PathAlreadyExists", () -> fs.createDirectory("d ä%2F"));
		fs.createDirectoryIfNotExists("d ä%2F");
		fs.createDirectory("d ä%2F", true);
		DataLakeDirectoryClient sub = d.createSubdirectory("sub");
		d.createSubdirectoryIfNotExists("sub");
		DataLakeFileClient f = sub.createFile("f");
		sub.createFileIfNotExists("f");
		sub.createFile("f", true);
		check(f.exists() && d.exists() && d.getProperties().isDirectory(), "kinds");
		equal(paths(fs.listPaths(new ListPathsOptions().setRecursive(true).setMaxResults(1), null)), List.of("d ä%2F", "d ä%2F/sub", "d ä%2F/sub/f"));
		equal(paths(d.listPaths(false, false, null, null)), List.of("d ä%2F/sub"));
		d.setMetadata(Map.of("m", "1"));
		equal(d.getProperties().getMetadata().get("m"), "1");
		d.setHttpHeaders(new PathHttpHeaders().setContentLanguage("en"));
		equal(d.getProperties().getContentLanguage(), "en");
		leases(new DataLakeLeaseClientBuilder().directoryClient(d).buildClient());

		String etag = d.getProperties().getETag();
		DataLakeDirectoryClient moved = d.rename(null, "moved");
		equal(moved.getProperties().getETag(), etag);
		check(!d.exists() && fs.getFileClient("moved/sub/f").exists(), "renamed");
		fails(404, "SourcePathNotFound", () -> d.rename(null, "x"));
		fails(404, "RenameDestinationParentPathNotFound", () -> moved.rename(null, "no/x"));
		fails(409, "InvalidRenameSourcePath", () -> moved.rename(null, "moved/x"));
		fails(412, "SourceConditionNotMet", () -> moved.renameWithResponse(null, "x", new DataLakeRequestConditions().setIfMatch("\"0x1\""),
				null, null, Context.NONE));
		fails(409, "PathAlreadyExists", () -> fs.getFileClient("moved/sub/f").renameWithResponse(null, "moved/sub/f", null,
				new DataLakeRequestConditions().setIfNoneMatch("*"), null, Context.NONE));
		fails(409, "DirectoryNotEmpty", moved::delete);
		fails(409, "PathConflict", () -> fs.createFile("moved/sub"));
		sub = moved.getSubdirectoryClient("sub");
		sub.deleteFile("f");
		check(!sub.deleteFileIfExists("f"), "deleted");
		moved.deleteSubdirectory("sub");
		check(!moved.deleteSubdirectoryIfExists("sub"), "deleted");
		moved.delete();
		check(!moved.deleteIfExists() && !fs.deleteDirectoryIfExists("moved"), "deleted");
		fs.createDirectory("t").createSubdirectory("u").createFile("v");
		fs.getDirectoryClient("t").deleteRecursively();
		fs.createFile("t/u");
		fs.deleteDirectoryWithResponse("t", true, null, null, Context.NONE);
		fs.createDirectory("t");
		fs.deleteDirectory("t");
		check(!fs.getDirectoryClient("t").deleteIfExistsWithResponse(new DataLakePathDeleteOptions().setIsRecursive(true), null, Context.NONE).getValue(),
				"deleted");
		fails(404, "PathNotFound", () -> fs.deleteDirectory("t"));
	}

	private static void access(DataLakeFileSystemClient fs) {
		DataLakeDirectoryClient d = fs.createDirectoryWithResponse("acl", new DataLakePathCreateOptions().setPermissions("rwxr-x--x").setUmask("0000")
				.setOwner(USER).setGroup(USER), null, Context.NONE).getValue();
		equal(d.getAccessControl().getPermissions().toString(), "0751");
		equal(d.getAccessControl().getOwner(), USER);
		d.createSubdirectory("one").createFile("f");
		d.createSubdirectory("two").createFile("f");
		List<PathAccessControlEntry> list = PathAccessControlEntry.parseList("user::rwx,group::r-x,other::---,user:" + USER + ":r-x");
		d.setAccessControlList(list, USER, "$superuser");
		equal(PathAccessControlEntry.serializeList(d.getAccessControl().getAccessControlList()), "user::rwx,user:" + USER + ":r-x,group::r-x,mask::r-x,other::---");
		d.setPermissions(new PathPermissions().setOwner(RolePermissions.parseSymbolic("rwx", false)).setGroup(RolePermissions.parseSymbolic("r--", false))
				.setOther(RolePermissions.parseSymbolic("--x", false)).setStickyBit(true), null, null);
		equal(d.getAccessControl().getPermissions().toString(), "1741");
		AccessControlChangeCounters n = d.setAccessControlRecursive(PathAccessControlEntry.parseList("user::rwx,group::r--,other::---")).getCounters();
		equal(List.of(n.getChangedDirectoriesCount(), n.getChangedFilesCount(), n.getFailedChangesCount()), List.of(3L, 2L, 0L));
		List<Long> batches = new ArrayList<>();
		d.setAccessControlRecursiveWithResponse(new PathSetAccessControlRecursiveOptions(PathAccessControlEntry.parseList("user::rwx,group::r-x,other::---"))
				.setBatchSize(2).setMaxBatches(9).setProgressHandler(r -> batches.add(r.getValue().getBatchCounters().getChangedDirectoriesCount())), null, Context.NONE);
		check(batches.size() == 3, batches);
		d.updateAccessControlRecursive(List.of(new PathAccessControlEntry().setAccessControlType(AccessControlType.USER).setEntityId(USER)
				.setPermissions(RolePermissions.parseSymbolic("rwx", false))));
		check(access(fs, "acl/two/f").contains("user:" + USER + ":rwx"), "updated");
		d.removeAccessControlRecursive(PathRemoveAccessControlEntry.parseList("user:" + USER));
		check(!access(fs, "acl/two/f").contains(USER), "removed");
	}

	private static String access(DataLakeFileSystemClient fs, String path) {
		return PathAccessControlEntry.serializeList(fs.getFileClient(path).getAccessControl().getAccessControlList());
	}

	private static void files(DataLakeFileSystemClient fs) throws Exception {
		byte[] content = new byte[9_000_000];
		new Random(1).nextBytes(content);
		DataLakeFileClient f = fs.createFileWithResponse("files/f", new DataLakePathCreateOptions().setMetadata(Map.of("m", "1")).setEncryptionContext("context")
				.setPathHttpHeaders(new PathHttpHeaders().setContentType("text/x")), null, Context.NONE).getValue();
		PathProperties p = f.getProperties();
		equal(List.of(p.getMetadata().get("m"), p.getContentType(), p.getEncryptionContext()), List.of("1", "text/x", "context"));
		f.append(new ByteArrayInputStream(content, 0, 1000), 0, 1000);
		f.append(BinaryData.fromBytes(Arrays.copyOfRange(content, 1000, content.length)), 1000);
		fails(304, "ConditionNotMet", () -> f.flush(content.length, false));
		fails(400, "InvalidFlushPosition", () -> f.flush(5000, true));
		f.flush(content.length, true);
		check(Arrays.equals(read(f), content), "content");
		String lease = new DataLakeLeaseClientBuilder().fileClient(f).buildClient().acquireLease(60);
		fails(412, "LeaseIdMissing", () -> f.append(BinaryData.fromString("x"), content.length));
		f.appendWithResponse(BinaryData.fromString("more"), content.length, new DataLakeFileAppendOptions().setLeaseId(lease).setFlush(true), null, Context.NONE);
		f.flushWithResponse(content.length + 4, new DataLakeFileFlushOptions().setRequestConditions(new DataLakeRequestConditions().setLeaseId(lease))
				.setPathHttpHeaders(new PathHttpHeaders().setContentType("text/y")).setClose(true), null, Context.NONE);
		new DataLakeLeaseClientBuilder().fileClient(f).leaseId(lease).buildClient().releaseLease();
		equal(f.getProperties().getFileSize(), (long) content.length + 4);
		equal(f.getProperties().getContentType(), "text/y");

		ByteArrayOutputStream part = new ByteArrayOutputStream();
		f.readWithResponse(part, new FileRange(100, 50L), null, null, true, null, Context.NONE);
		check(Arrays.equals(part.toByteArray(), Arrays.copyOfRange(content, 100, 150)), "range");
		fails(412, "ConditionNotMet", () -> f.readWithResponse(new ByteArrayOutputStream(), null, null, new DataLakeRequestConditions().setIfMatch("\"0x1\""), false,
				null, Context.NONE));
		fails(416, "InvalidRange", () -> f.readWithResponse(new ByteArrayOutputStream(), new FileRange(1L << 40), null, null, false, null, Context.NONE));
		try (InputStream in = f.openInputStream().getInputStream()) {
			check(Arrays.equals(Arrays.copyOf(in.readAllBytes(), content.length), content), "stream");
		}
		fails(409, "PathAlreadyExists", () -> f.upload(BinaryData.fromString("x")));
		f.upload(new ByteArrayInputStream(content), content.length, true);
		check(Arrays.equals(read(f), content), "uploaded");
		f.uploadWithResponse(new FileParallelUploadOptions(new ByteArrayInputStream(content)).setPermissions("rw-r-----")
				.setParallelTransferOptions(new ParallelTransferOptions().setBlockSizeLong(1L << 20).setMaxSingleUploadSizeLong(1L << 20).setMaxConcurrency(4)), null,
				Context.NONE);
		check(Arrays.equals(read(f), content), "uploaded in parts");
		Path local = folder.resolve("content"), back = folder.resolve("back");
		Files.write(local, content);
		f.uploadFromFile(local.toString(), true);
		f.readToFile(back.toString(), true);
		check(Arrays.equals(Files.readAllBytes(back), content), "files");
		DataLakeFileClient g = fs.getFileClient("files/g");
		try (OutputStream out = g.getOutputStream()) {
			out.write(content, 0, 100_000);
		}
		equal(g.getProperties().getFileSize(), 100_000L);
		g.scheduleDeletion(new FileScheduleDeletionOptions(OffsetDateTime.now().plusHours(1)));
		check(g.getProperties().getExpiresOn() != null, "expiry");
		fs.createFileWithResponse("files/h", new DataLakePathCreateOptions().setScheduleDeletionOptions(
				new DataLakePathScheduleDeletionOptions(Duration.ofHours(1))), null, Context.NONE);
		check(fs.getFileClient("files/h").getProperties().getExpiresOn() != null, "expiry");
		g.upload(BinaryData.fromString("Name,Age\nA,1\nB,2\n"), true);
		ByteArrayOutputStream rows = new ByteArrayOutputStream();
		FileQueryDelimitedSerialization csv = new FileQueryDelimitedSerialization().setColumnSeparator(',').setRecordSeparator('\n').setHeadersPresent(true);
		g.queryWithResponse(new FileQueryOptions("SELECT Name FROM BlobStorage WHERE Age > 1", rows).setInputSerialization(csv), null, Context.NONE);
		equal(rows.toString(StandardCharsets.UTF_8).trim(), "B");
		DataLakeFileClient moved = g.rename(null, "files/moved");
		check(moved.exists() && !g.exists(), "renamed");
		equal(fs.getFileClient("files/moved").getSystemProperties().getFileSize(), 17L);
		fs.createFileIfNotExists("files/i");
		fs.deleteFile("files/i");
		check(!fs.deleteFileIfExists("files/i") && !fs.getFileClient("files/i").deleteIfExists(), "deleted");
		DataLakeFileSystemClient other = fs;
		fails(404, "PathNotFound", () -> other.deleteFile("files/i"));
	}

	private static void deleted(DataLakeFileSystemClient fs) {
		fs.createDirectory("soft").createFile("f");
		fs.getDirectoryClient("soft").deleteRecursively();
		PathDeletedItem item = fs.listDeletedPaths("soft", null, Context.NONE).stream().findFirst().get();
		equal(item.getPath(), "soft");
		fs.undeletePath(item.getPath(), item.getDeletionId());
		check(fs.getFileClient("soft/f").exists(), "restored");
	}

	private static void encrypted(DataLakeFileSystemClient fs, String url, StorageSharedKeyCredential key) {
		byte[] secret = new byte[32];
		new Random(2).nextBytes(secret);
		DataLakeFileClient plain = fs.getFileClient("encrypted"), f = plain.getCustomerProvidedKeyClient(new CustomerProvidedKey(secret));
		f.upload(BinaryData.fromString("secret"));
		equal(new String(read(f), StandardCharsets.UTF_8), "secret");
		check(f.getProperties().getEncryptionKeySha256() != null, "key");
		fails(409, "BlobUsesCustomerSpecifiedEncryption", () -> read(plain));
	}

	private static void asynchronous(DataLakeServiceAsyncClient service) {
		var fs = service.getFileSystemAsyncClient("java");
		var f = fs.getFileAsyncClient("async/f");
		Mono<String> all = f.upload(BinaryData.fromString("text").toFluxByteBuffer(), null, true).then(f.read().reduce(new ByteArrayOutputStream(), (out, b) -> {
			byte[] bytes = new byte[b.remaining()];
			b.get(bytes);
			out.writeBytes(bytes);
			return out;
		})).map(out -> out.toString(StandardCharsets.UTF_8));
		equal(all.block(), "text");
		equal(fs.getDirectoryAsyncClient("async").listPaths().map(PathItem::getName).collectList().block(), List.of("async/f"));
		fs.getDirectoryAsyncClient("async").rename(null, "async2").block();
		equal(fs.getFileAsyncClient("async2/f").exists().block(), true);
	}

	private static void signatures(DataLakeServiceClient service, DataLakeFileSystemClient fs, String url) {
		OffsetDateTime expiry = OffsetDateTime.now().plusHours(1);
		fs.createDirectory("signed").createSubdirectory("sub").createFile("f");
		fs.createFile("outside");
		String ofFS = fs.generateSas(new DataLakeServiceSasSignatureValues(expiry, FileSystemSasPermission.parse("rl")));
		check(paths(filesystem(url, ofFS).listPaths()).contains("outside"), "listed");
		String ofDir = fs.getDirectoryClient("signed").generateSas(new DataLakeServiceSasSignatureValues(expiry, PathSasPermission.parse("rl")));
		check(ofDir.contains("sr=d") && ofDir.contains("sdd=1"), ofDir);
		check(filesystem(url, ofDir).getFileClient("signed/sub/f").exists(), "below");
		fails(403, "AuthorizationPermissionMismatch", () -> filesystem(url, ofDir).createFile("signed/no"));
		fails(403, null, () -> filesystem(url, ofDir).getFileClient("outside").getProperties());
		String ofFile = fs.getFileClient("outside").generateSas(new DataLakeServiceSasSignatureValues(expiry, PathSasPermission.parse("rw")));
		new DataLakePathClientBuilder().endpoint(url).fileSystemName("java").pathName("outside").sasToken(ofFile).buildFileClient()
				.upload(BinaryData.fromString("x"), true);
		String ofAccount = service.generateAccountSas(new AccountSasSignatureValues(expiry, AccountSasPermission.parse("rl"), AccountSasService.parse("b"),
				AccountSasResourceType.parse("sco")));
		DataLakeServiceClient by = new DataLakeServiceClientBuilder().endpoint(url).sasToken(ofAccount).buildClient();
		check(by.listFileSystems().stream().anyMatch(f -> f.getName().equals("java")), "listed");
		fails(403, "AuthorizationPermissionMismatch", () -> by.createFileSystem("java-no"));
	}

	private static void tokens(DataLakeFileSystemClient fs, String url, String tokens) throws Exception {
		String answer = HttpClient.newHttpClient().send(HttpRequest.newBuilder(URI.create(tokens + "?resource=https://storage.azure.com&api-version=2019-08-01"))
				.header("X-IDENTITY-HEADER", "any").build(), HttpResponse.BodyHandlers.ofString()).body();
		Matcher m = Pattern.compile("\"access_token\":\"([^\"]*)\"").matcher(answer);
		check(m.find(), answer);
		TokenCredential token = request -> Mono.just(new AccessToken(m.group(1), OffsetDateTime.now().plusHours(1)));
		DataLakeServiceClient service = new DataLakeServiceClientBuilder().endpoint(url).credential(token).buildClient();
		DataLakeFileSystemClient by = service.getFileSystemClient("java");
		by.createFile("by-token");
		check(!by.getFileClient("by-token").getAccessControl().getOwner().equals("$superuser"), "the caller owns it");
		UserDelegationKey key = service.getUserDelegationKey(OffsetDateTime.now().minusMinutes(5), OffsetDateTime.now().plusHours(1));
		OffsetDateTime expiry = OffsetDateTime.now().plusMinutes(30);
		String delegated = by.generateUserDelegationSas(new DataLakeServiceSasSignatureValues(expiry, FileSystemSasPermission.parse("racwdlmeop")), key);
		filesystem(url, delegated).getFileClient("by-token").upload(BinaryData.fromString("x"), true);
		filesystem(url, delegated).getFileClient("by-token").rename(null, "by-delegation");
		String limited = by.generateUserDelegationSas(new DataLakeServiceSasSignatureValues(expiry, FileSystemSasPermission.parse("rwl"))
				.setAgentObjectId(USER).setCorrelationId("33333333-3333-3333-3333-333333333333"), key);
		fails(403, "AuthorizationPermissionMismatch", () -> filesystem(url, limited).getFileClient("acl/one/f").read(new ByteArrayOutputStream()));
		String ofDir = fs.getDirectoryClient("signed").generateUserDelegationSas(new DataLakeServiceSasSignatureValues(expiry, PathSasPermission.parse("rl")), key,
				"devstoreaccount1", Context.NONE);
		check(filesystem(url, ofDir).getFileClient("signed/sub/f").exists(), "below");
	}

	private static DataLakeFileSystemClient filesystem(String url, String sas) {
		return new DataLakeFileSystemClientBuilder().endpoint(url).fileSystemName("java").sasToken(sas).buildClient();
	}

	private static byte[] read(DataLakeFileClient f) {
		ByteArrayOutputStream out = new ByteArrayOutputStream();
		f.read(out);
		return out.toByteArray();
	}

	private static List<String> paths(PagedIterable<PathItem> items) {
		List<String> names = new ArrayList<>();
		items.forEach(i -> names.add(i.getName()));
		return names;
	}

	private static void check(boolean ok, Object what) {
		checks++;
		if (!ok) {
			throw new AssertionError(what);
		}
	}

	private static void equal(Object got, Object want) {
		check(Objects.equals(got, want), got + ", want " + want);
	}

	private static void fails(int status, String code, Runnable call) {
		try {
			call.run();
		} catch (DataLakeStorageException e) {
			check(e.getStatusCode() == status && (code == null || code.equals(e.getErrorCode())), e.getStatusCode() + " " + e.getErrorCode() + ", want " + status + " " + code);
			return;
		}
		throw new AssertionError("no " + status + " " + code);
	}
}
