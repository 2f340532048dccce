"""adlfs: many small files on the account of the connection string. Arguments: the name of the account's kind, the number of files."""

import sys
import time

import adlfs

from account import CONNECTION

KIND, FILES = sys.argv[1], int(sys.argv[2])
BATCH = 2000


def row(what, began):
    print(f"| adlfs, {FILES} files of 100 bytes: {what} | {KIND} | {FILES / (time.monotonic() - began):.0f} |", flush=True)


fs = adlfs.AzureBlobFileSystem(connection_string=CONNECTION)
fs.mkdir("small")
content = b"x" * 100
names = [f"small/d/{i // 1000:03}/{i:06}" for i in range(FILES)]
began = time.monotonic()
for at in range(0, FILES, BATCH):
    fs.pipe({n: content for n in names[at:at + BATCH]}, batch_size=64)
row("write", began)
fs.invalidate_cache()
began = time.monotonic()
assert len(fs.find("small/d")) == FILES
row("list", began)
began = time.monotonic()
for at in range(0, FILES, BATCH):
    got = fs.cat(names[at:at + BATCH], batch_size=64)
    assert all(v == content for v in got.values()) and len(got) == min(BATCH, FILES - at)
row("read", began)
fs.invalidate_cache()
began = time.monotonic()
fs.rm("small/d", recursive=True)
row("delete", began)
fs.invalidate_cache()
assert not fs.exists("small/d")
