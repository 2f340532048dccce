"""azure-storage-file-datalake: each public method of its clients, on an account with a hierarchical namespace."""

import inspect
import io
import os
import sys
from datetime import datetime, timedelta, timezone

import azure.storage.filedatalake as lake
from azure.core import MatchConditions
from azure.core.exceptions import HttpResponseError, ResourceExistsError, ResourceNotFoundError

from account import ACCOUNT, KEY
from host import DFS, KEY_CREDENTIAL, token_credential

CLIENTS = [lake.DataLakeServiceClient, lake.FileSystemClient, lake.DataLakeDirectoryClient, lake.DataLakeFileClient,
           lake.DataLakeLeaseClient]
called = set()


def watch(cls, name):
    method = getattr(cls, name)

    def wrapper(*args, **kwargs):
        called.add((cls.__name__, name))
        return method(*args, **kwargs)

    setattr(cls, name, classmethod(lambda c, *a, **k: wrapper(*a, **k)) if inspect.ismethod(method) else wrapper)


def public(cls):
    return [n for n, v in inspect.getmembers(cls) if not n.startswith("_") and callable(v)]


for c in CLIENTS:
    for n in public(c):
        watch(c, n)


def fails(error, code, call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except error as e:
        assert e.error_code == code, f"{e.error_code}, want {code}"
        return e
    raise AssertionError(f"no {code}")


service = lake.DataLakeServiceClient(DFS, credential=KEY_CREDENTIAL)

# Service.
properties = service.get_service_properties()
service.set_service_properties(
    delete_retention_policy=lake.RetentionPolicy(enabled=True, days=2),
    cors=[lake.CorsRule(["https://example.net"], ["GET"], max_age_in_seconds=60)])
now = service.get_service_properties()
assert now["delete_retention_policy"].days == 2 and now["cors"][0].allowed_origins == "https://example.net"
fs = service.create_file_system("python", metadata={"k": "v"})
assert [f.name for f in service.list_file_systems(name_starts_with="pyth", include_metadata=True)] == ["python"]
assert next(iter(service.list_file_systems(name_starts_with="python", include_metadata=True))).metadata == {"k": "v"}
assert service.get_file_system_client("python").exists()
assert not service.get_directory_client("python", "none").exists()
assert not service.get_file_client("python", "none").exists()
service.create_file_system("second")
service.delete_file_system("second")
connection = f"AccountName={ACCOUNT};AccountKey={KEY};BlobEndpoint={DFS.replace('.dfs.', '.blob.')}"
assert lake.DataLakeServiceClient.from_connection_string(connection).get_file_system_client("python").exists()

# Filesystem.
assert lake.FileSystemClient.from_connection_string(connection, "python").exists()
fs.set_file_system_metadata({"a": "b"})
assert fs.get_file_system_properties().metadata == {"a": "b"}
policy = lake.AccessPolicy(lake.FileSystemSasPermissions(read=True, list=True),
                           expiry=datetime.now(timezone.utc) + timedelta(hours=1))
fs.set_file_system_access_policy({"reads": policy}, public_access=lake.PublicAccess.File)
access = fs.get_file_system_access_policy()
assert access["signed_identifiers"][0].id == "reads" and access["public_access"] == "blob", access
fs.set_file_system_access_policy({})
lease = fs.acquire_lease()
fails(HttpResponseError, "LeaseIdMissing", fs.delete_file_system)
lease.renew()
lease.change("11111111-1111-1111-1111-111111111111")
lease.release()
taken = lake.DataLakeLeaseClient(fs)
taken.acquire(15)
taken.break_lease(0)
other = service.get_file_system_client("third")
other.create_file_system()
fails(ResourceExistsError, "ContainerAlreadyExists", other.create_file_system)
other.delete_file_system()
fs.create_directory("d/e", metadata={"x": "y"}, permissions="rwxr-x---", umask="0000")
fs.create_file("d/f", content_settings=lake.ContentSettings(content_type="text/plain"))
fs.create_directory("gone/below")
fs.create_file("gone.txt")
assert [p.name for p in fs.get_paths(recursive=False)] == ["d", "gone", "gone.txt"]
assert [(p.name, p.is_directory) for p in fs.get_paths("d")] == [("d/e", True), ("d/f", False)]
assert [p.name for page in fs.get_paths(max_results=2).by_page() for p in page] == \
    ["d", "d/e", "d/f", "gone", "gone/below", "gone.txt"]
fs.delete_directory("gone")
fs.delete_file("gone.txt")
deleted = {p.name: p.deletion_id for p in fs.list_deleted_paths()}
assert set(deleted) == {"gone", "gone.txt"}, deleted
restored = fs._undelete_path("gone", deleted["gone"])
assert restored.get_directory_properties() and fs.get_directory_client("gone/below").exists()
fs.delete_directory("gone")
fails(ResourceNotFoundError, "PathNotFound", fs.delete_directory, "gone")
fails(ResourceNotFoundError, "FilesystemNotFound", list, service.get_file_system_client("none").get_paths())

# Directory.
d = fs.get_directory_client("d")
assert lake.DataLakeDirectoryClient.from_connection_string(connection, "python", "d").exists()
fails(ResourceExistsError, "PathAlreadyExists", d.create_directory, match_condition=MatchConditions.IfMissing)
sub = d.create_sub_directory("sub")
sub.create_file("inner").append_data(b"x", 0, length=1, flush=True)
assert d.get_sub_directory_client("sub").exists() and d.get_file_client("sub/inner").exists()
assert sorted(p.name for p in d.get_paths()) == ["d/e", "d/f", "d/sub", "d/sub/inner"]
d.set_metadata({"m": "1"})
p = d.get_directory_properties()
assert p.metadata["m"] == "1", p.metadata
d.set_http_headers(lake.ContentSettings(content_language="en"))
d.set_access_control(owner="11111111-1111-1111-1111-111111111111", group="$superuser", permissions="rwxr-x--x")
a = d.get_access_control()
assert (a["owner"], a["permissions"]) == ("11111111-1111-1111-1111-111111111111", "rwxr-x--x"), a
user = "user:22222222-2222-2222-2222-222222222222"
r = d.set_access_control_recursive(f"user::rwx,group::r-x,other::---,{user}:r-x")
assert (r.counters.directories_successful, r.counters.files_successful, r.counters.failure_count) == (3, 2, 0), r.counters
progress = []
d.update_access_control_recursive(f"{user}:rwx", batch_size=2, progress_hook=progress.append)
assert len(progress) == 3 and progress[-1].aggregate_counters.directories_successful == 3
assert f"{user}:rwx" in d.get_access_control()["acl"]
d.remove_access_control_recursive(user)
assert user not in d.get_access_control()["acl"]
lease = d.acquire_lease(15)
fails(HttpResponseError, "LeaseIdMissing", d.delete_directory)
lease.release()
etag = d.get_directory_properties().etag
d = d.rename_directory("python/moved")
assert d.path_name == "moved" and d.get_file_client("sub/inner").exists()
fails(ResourceNotFoundError, "SourcePathNotFound", fs.get_directory_client("d").rename_directory, "python/other")
# The library sets the mode legacy, with which a directory replaces an empty one. With posix it moves into it.
for n in ("legacy", "posix"):
    fs.create_directory(f"modes/{n}/from")
    fs.create_file(f"modes/{n}/from/inner")
    fs.create_directory(f"modes/{n}/to")
    fs.get_directory_client(f"modes/{n}/from").rename_directory(f"python/modes/{n}/to", mode=n)
assert [p.name for p in fs.get_paths("modes")] == [
    "modes/legacy", "modes/legacy/to", "modes/legacy/to/inner",
    "modes/posix", "modes/posix/to", "modes/posix/to/from", "modes/posix/to/from/inner"]
fs.create_file("modes/legacy/file")
for n, code in (("legacy", "DirectoryNotEmpty"), ("posix", "DirectoryNotEmpty"), ("none", "InvalidQueryParameterValue")):
    fs.create_directory("modes/from/to/below")
    fails(HttpResponseError, code, fs.get_directory_client("modes/from/to").rename_directory,
          "python/modes/legacy/to" if n == "legacy" else "python/modes/legacy", mode=n)
fs.get_file_client("modes/legacy/file").rename_file("python/modes/posix/to", mode="posix")
assert fs.get_file_client("modes/posix/to/file").exists()
fs.delete_directory("modes")
fails(HttpResponseError, "SourceConditionNotMet", d.rename_directory, "python/x", source_etag='"0x1"',
      source_match_condition=MatchConditions.IfNotModified)
d.delete_sub_directory("sub")
assert not d.get_sub_directory_client("sub").exists()
fs.get_directory_client("short").create_directory()
fs.get_directory_client("short").delete_directory()
fs.create_file("t")

# File.
f = fs.get_file_client("files/one")
f.create_file(metadata={"n": "1"}, encryption_context="context",
              expires_on=datetime.now(timezone.utc) + timedelta(hours=1))
assert lake.DataLakeFileClient.from_connection_string(connection, "python", "files/one").exists()
p = f.get_file_properties()
assert p.metadata["n"] == "1" and p.expiry_time and p.encryption_context == "context", dict(p)
content = os.urandom(1 << 20)
f.append_data(content, 0, len(content), validate_content=True)
f.append_data(b"tail", len(content), 4)
fails(HttpResponseError, "InvalidFlushPosition", f.flush_data, 3)
f.flush_data(len(content) + 4, content_settings=lake.ContentSettings(content_type="x/y"))
assert f.download_file().readall() == content + b"tail"
assert f.download_file(offset=len(content), length=2).readall() == b"ta"
stream = io.BytesIO()
f.download_file(max_concurrency=2).readinto(stream)
assert len(stream.getvalue()) == len(content) + 4
f.set_file_expiry("RelativeToNow", expires_on=100000)
f.set_file_expiry("NeverExpire")
assert f.get_file_properties().expiry_time is None
f.upload_data(b"a,b\n1,2\n", overwrite=True, metadata={"u": "1"})
assert f.get_file_properties().size == 8
f.upload_data(io.BytesIO(content * 5), overwrite=True, chunk_size=1 << 20, max_concurrency=3)
assert f.download_file().readall() == content * 5
f.set_metadata({"z": "1"})
f.set_http_headers(lake.ContentSettings(content_type="text/csv", cache_control="none"))
p = f.get_file_properties()
assert p.metadata["z"] == "1" and p.content_settings.cache_control == "none"
f.set_access_control(acl="user::rw-,group::r--,other::---")
assert f.get_access_control()["permissions"] == "rw-r-----"
f.set_access_control_recursive("user::rwx,group::r--,other::---")
f.update_access_control_recursive(f"{user}:r--")
f.remove_access_control_recursive(user)
lease = f.acquire_lease(-1)
fails(HttpResponseError, "LeaseIdMissing", f.append_data, b"x", 0, 1)
f.append_data(b"x", len(content) * 5, 1, lease=lease)
lease.release()
f.append_data(b"y", len(content) * 5, 1, flush=True, lease_action="acquire-release", lease_duration=15,
              lease="33333333-3333-3333-3333-333333333333")
assert f.get_file_properties().lease.state == "available"
f.upload_data(b"Name,Age\nA,1\nB,2\n", overwrite=True)
answer = f.query_file("SELECT Name FROM BlobStorage WHERE Age > 1",
                      file_format=lake.DelimitedTextDialect(has_header=True)).readall()
assert answer == b"Name\nB\n", answer
renamed = f.rename_file("python/files/ä b+c%41")
assert renamed.download_file().readall().startswith(b"Name")
fails(ResourceNotFoundError, "PathNotFound", f.get_access_control)
renamed.delete_file()
assert not renamed.exists()

# Tokens.
expiry = datetime.now(timezone.utc) + timedelta(hours=1)
sas = lake.generate_directory_sas(ACCOUNT, "python", "moved", KEY, expiry=expiry,
                                  permission=lake.DirectorySasPermissions(read=True, list=True))
limited = lake.DataLakeDirectoryClient(DFS, "python", "moved", credential=sas)
assert limited.exists()
limited_fs = lake.FileSystemClient(DFS, "python", credential=sas)  # get_paths of a directory's client sends no signature
assert [p.name for p in limited_fs.get_paths("moved")] == ["moved/e", "moved/f"]
fails(HttpResponseError, "AuthorizationPermissionMismatch", limited.create_file, "no")
fails(HttpResponseError, "AuthenticationFailed", lake.DataLakeFileClient(DFS, "python", "t", credential=sas).get_access_control)
sas = lake.generate_file_sas(ACCOUNT, "python", "moved", "f", KEY, "r", expiry)
assert lake.DataLakeFileClient(DFS, "python", "moved/f", credential=sas).download_file().readall() == b""
sas = lake.generate_file_system_sas(ACCOUNT, "python", KEY, "racwdl", expiry)
assert list(lake.FileSystemClient(DFS, "python", credential=sas).get_paths())
sas = lake.generate_account_sas(ACCOUNT, KEY, lake.ResourceTypes(service=True, file_system=True, object=True),
                                lake.AccountSasPermissions(read=True, list=True), expiry)
assert list(lake.DataLakeServiceClient(DFS, credential=sas).list_file_systems())

with lake.DataLakeServiceClient(DFS, credential=token_credential()) as trusted:
    key = trusted.get_user_delegation_key(datetime.now(timezone.utc) - timedelta(minutes=5), expiry)
    sas = lake.generate_directory_sas(ACCOUNT, "python", "moved", key, permission="racwdlmeop", expiry=expiry)
    c = lake.DataLakeDirectoryClient(DFS, "python", "moved", credential=sas)
    c.create_file("by-token")
    c.set_access_control(permissions="rwxrwxrwx")
    own = trusted.get_file_client("python", "moved/own")
    own.create_file()
    assert own.get_access_control(upn=False)["owner"] == key.signed_oid

for client in (d, f, fs, service):
    client.close()

# Azure has no tags on accounts with a hierarchical namespace, and no soft-deleted containers are kept here.
absent = {("DataLakeServiceClient", "undelete_file_system"), ("DataLakeDirectoryClient", "set_tags"),
          ("DataLakeDirectoryClient", "get_tags"), ("DataLakeFileClient", "set_tags"), ("DataLakeFileClient", "get_tags")}
missed = {(c.__name__, n) for c in CLIENTS for n in public(c)} - called - absent
print(f"== {len(called)} public methods")
sys.exit(f"not called: {sorted(missed)}" if missed else 0)
