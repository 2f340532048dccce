"""Partitioned Parquet by abfs:// addresses: pandas and pyarrow over adlfs, pyarrow's own file system, Delta, DuckDB."""

import threading

import adlfs
import deltalake
import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs as pafs
import pyarrow.parquet as pq
from azure.storage.filedatalake import DataLakeServiceClient

from account import ACCOUNT, BLOB, CONNECTION, KEY
from host import DFS, KEY_CREDENTIAL

frame = pd.DataFrame({"day": ["a", "b", "c"] * 1000, "n": range(3000), "text": [f"row {i}" for i in range(3000)]})
options = {"connection_string": CONNECTION}
service = DataLakeServiceClient(DFS, credential=KEY_CREDENTIAL)
service.create_file_system("tables")


def same(got):
    got = got.astype({"day": "str"}).sort_values("n", ignore_index=True)[["day", "n", "text"]]
    pd.testing.assert_frame_equal(got, frame, check_dtype=False)


def directories(path):
    return sorted(p.name for p in service.get_file_system_client("tables").get_paths(path, recursive=False)
                  if p.is_directory)


# pandas and pyarrow over adlfs.
frame.to_parquet("abfs://tables/pandas", partition_cols=["day"], storage_options=options)
assert directories("pandas") == [f"pandas/day={d}" for d in "abc"]
same(pd.read_parquet("abfs://tables/pandas", storage_options=options))
assert len(pd.read_parquet("abfs://tables/pandas", filters=[("day", "=", "b")], storage_options=options)) == 1000
frame.to_csv("abfs://tables/csv/part.csv", index=False, storage_options=options)
same(pd.read_csv("abfs://tables/csv/part.csv", storage_options=options))
fs = adlfs.AzureBlobFileSystem(connection_string=CONNECTION)
ds.write_dataset(pa.Table.from_pandas(frame), "tables/dataset", format="parquet", filesystem=fs,
                 partitioning=ds.partitioning(pa.schema([("day", pa.string())]), flavor="hive"))
same(ds.dataset("tables/dataset", filesystem=fs, partitioning="hive").to_table().to_pandas())
fs.rm("tables/dataset", recursive=True)
fs.invalidate_cache()
assert "tables/dataset" not in fs.ls("tables")

# pyarrow's own file system asks whether the account has a hierarchical namespace, and then uses the dfs endpoint.
native = pafs.AzureFileSystem(ACCOUNT, account_key=KEY, blob_storage_authority=f".blob.localhost:{DFS.split(':')[-1]}",
                              dfs_storage_authority=f".dfs.localhost:{DFS.split(':')[-1]}", blob_storage_scheme="http",
                              dfs_storage_scheme="http")
# Directories that writes by the Blob endpoint made: the client cannot read an item without a length.
assert len(native.get_file_info(pafs.FileSelector("tables/pandas", recursive=True))) == 6
native.create_dir("tables/native/empty", recursive=True)
assert native.get_file_info("tables/native/empty").type == pafs.FileType.Directory
ds.write_dataset(pa.Table.from_pandas(frame), "tables/native/t", format="parquet", filesystem=native,
                 partitioning=ds.partitioning(pa.schema([("day", pa.string())]), flavor="hive"))
same(pq.read_table("tables/native/t", filesystem=native).to_pandas())
assert len(native.get_file_info(pafs.FileSelector("tables/native", recursive=True))) == 8
native.move("tables/native/t", "tables/native/moved")
same(pq.read_table("tables/native/moved", filesystem=native).to_pandas())
native.move("tables/native/moved/day=a", "tables/native/a")
with native.open_output_stream("tables/native/file", metadata={"Content-Type": "text/plain"}) as out:
    out.write(b"x" * 100)
native.copy_file("tables/native/file", "tables/native/copy")
native.move("tables/native/copy", "tables/native/file")
try:
    native.move("tables/native/file", "tables/native/empty")
    raise AssertionError("a file replaces a directory")
except OSError:
    pass
with native.open_input_file("tables/native/file") as source:
    source.seek(50)
    assert source.read(10) == b"x" * 10
native.delete_dir_contents("tables/native/moved")
assert native.get_file_info("tables/native/moved").type == pafs.FileType.Directory
assert native.get_file_info(pafs.FileSelector("tables/native/moved", allow_not_found=True)) == []
native.delete_dir("tables/native")
assert native.get_file_info("tables/native").type == pafs.FileType.NotFound

# Delta: four writers commit at once, and no commit is lost.
storage = {"azure_storage_account_name": ACCOUNT, "azure_storage_account_key": KEY, "azure_storage_endpoint": BLOB,
           "azure_allow_http": "true"}
table = "abfss://tables/delta"
deltalake.write_deltalake(table, frame.iloc[:0], storage_options=storage)


def commit(n):
    for i in range(3):
        deltalake.write_deltalake(table, frame.iloc[n * 300 + i * 100:][:100], mode="append", storage_options=storage)


writers = [threading.Thread(target=commit, args=(n,)) for n in range(4)]
for w in writers:
    w.start()
for w in writers:
    w.join()
got = deltalake.DeltaTable(table, storage_options=storage)
assert got.version() == 12 and len(got.to_pandas()) == 1200, (got.version(), len(got.to_pandas()))
got.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
assert deltalake.DeltaTable(table, storage_options=storage).to_pandas()["n"].is_unique

# DuckDB through fsspec: its own extension for Azure is not in the package.
duckdb.register_filesystem(fs)
fs.invalidate_cache()
duckdb.sql("COPY (SELECT * FROM frame) TO 'abfs://tables/duck.parquet' (FORMAT parquet)")
assert duckdb.sql("SELECT count(*) FROM read_parquet('abfs://tables/pandas/*/*.parquet', hive_partitioning=true) "
                  "WHERE day = 'c'").limit(1).fetchall() == [(1000,)]
same(duckdb.sql("FROM 'abfs://tables/duck.parquet'").df())

# The connection string that the server prints leads all requests to the address of Blob.
printed = DataLakeServiceClient.from_connection_string(CONNECTION)
files = printed.create_file_system("printed")
files.create_file("dir/file").upload_data(b"content", overwrite=True)
files.get_directory_client("dir").rename_directory("printed/renamed")
assert files.get_file_client("renamed/file").download_file().readall() == b"content"
files.delete_directory("renamed")
assert not list(files.get_paths())
