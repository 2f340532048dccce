"""adlfs, the file system of fsspec: files, folders, globs, append, copy, and pandas' way of reading parts."""

import os

import adlfs
from account import CONNECTION

fs = adlfs.AzureBlobFileSystem(connection_string=CONNECTION)
fs.mkdir("adlfs")
content = os.urandom(9 << 20)
with fs.open("adlfs/dir/large", "wb", blocksize=1 << 20) as f:
    f.write(content)
for i in range(5):
    fs.pipe(f"adlfs/dir/sub/{i}.txt", b"%d" % i)
assert fs.cat("adlfs/dir/large") == content
with fs.open("adlfs/dir/large", "rb") as f:
    f.seek(5 << 20)
    assert f.read(1000) == content[5 << 20:][:1000]
assert sorted(fs.glob("adlfs/dir/sub/*.txt")) == [f"adlfs/dir/sub/{i}.txt" for i in range(5)]
assert fs.info("adlfs/dir/large")["size"] == len(content)
assert fs.isdir("adlfs/dir/sub") and not fs.exists("adlfs/none")
fs.copy("adlfs/dir/large", "adlfs/copy")
fs.move("adlfs/copy", "adlfs/moved")
assert fs.cat("adlfs/moved") == content and not fs.exists("adlfs/copy")
assert fs.find("adlfs/dir") == ["adlfs/dir/large"] + [f"adlfs/dir/sub/{i}.txt" for i in range(5)]
fs.rm("adlfs/dir", recursive=True)
fs.invalidate_cache()
assert fs.find("adlfs") == ["adlfs/moved"], fs.find("adlfs")
