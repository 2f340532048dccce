"""obstore, Rust's object_store for Python: multipart uploads, ranges, conditional writes, pages of listings, batch deletes, signed URLs."""

import datetime
import os
import urllib.request

import obstore
from account import ACCOUNT, BLOB, CONNECTION, KEY
from azure.storage.blob import BlobServiceClient
from obstore.exceptions import AlreadyExistsError, NotFoundError, PreconditionError
from obstore.store import AzureStore

BlobServiceClient.from_connection_string(CONNECTION).create_container("obstore")
store = AzureStore("obstore", account_name=ACCOUNT, account_key=KEY, endpoint=BLOB, client_options={"allow_http": True})


def refused(error, call):
    try:
        call()
    except error:
        return
    raise AssertionError(f"not refused with {error}")


content = os.urandom(12 << 20)
obstore.put(store, "dir/large", content, use_multipart=True, chunk_size=5 << 20)
assert bytes(obstore.get(store, "dir/large").bytes()) == content
assert bytes(obstore.get_range(store, "dir/large", start=1 << 20, length=100)) == content[1 << 20:][:100]
assert [bytes(b) for b in obstore.get_ranges(store, "dir/large", starts=[0, 9 << 20], lengths=[10, 20])] == [content[:10], content[9 << 20:][:20]]

def etag(result):
    return {"e_tag": result["e_tag"]}


first = etag(obstore.put(store, "once", b"1", mode="create"))
refused(AlreadyExistsError, lambda: obstore.put(store, "once", b"2", mode="create"))
second = etag(obstore.put(store, "once", b"2", mode=first))
refused(PreconditionError, lambda: obstore.put(store, "once", b"3", mode=first))
obstore.put(store, "once", b"3", mode=second)
refused((NotFoundError, FileNotFoundError), lambda: obstore.get(store, "none"))

for i in range(30):
    obstore.put(store, f"many/{i:02}", b"x", attributes={"Content-Type": "text/plain"})
names = [m["path"] for page in obstore.list(store, prefix="many", chunk_size=7) for m in page]
assert names == [f"many/{i:02}" for i in range(30)], names
tree = obstore.list_with_delimiter(store)
assert tree["common_prefixes"] == ["dir", "many"] and [o["path"] for o in tree["objects"]] == ["once"], tree
obstore.copy(store, "once", "copy")
refused(AlreadyExistsError, lambda: obstore.copy(store, "once", "copy", overwrite=False))
obstore.rename(store, "copy", "renamed")
assert bytes(obstore.get(store, "renamed").bytes()) == b"3"
url = obstore.sign(store, "GET", "once", datetime.timedelta(minutes=5))
assert urllib.request.urlopen(url).read() == b"3"
obstore.delete(store, names + ["renamed"])
assert [m["path"] for page in obstore.list(store) for m in page] == ["dir/large", "once"]
