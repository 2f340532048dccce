"""deltalake (delta-rs over object_store): eight processes commit to one table at the same time, and no commit is lost."""

import multiprocessing

from account import ACCOUNT, BLOB, CONNECTION, KEY

WRITERS, COMMITS = 8, 4
OPTIONS = {"account_name": ACCOUNT, "account_key": KEY, "azure_storage_endpoint": BLOB, "endpoint": BLOB, "allow_http": "true"}
TABLE = "az://delta/table"


def write(writer):
    import pyarrow
    from deltalake import CommitProperties, write_deltalake

    for i in range(COMMITS):
        rows = pyarrow.table({"writer": [writer], "commit": [i]})
        write_deltalake(TABLE, rows, mode="append", storage_options=OPTIONS, commit_properties=CommitProperties(max_commit_retries=500))


if __name__ == "__main__":
    import pyarrow
    from azure.storage.blob import BlobServiceClient
    from deltalake import DeltaTable, write_deltalake

    BlobServiceClient.from_connection_string(CONNECTION).create_container("delta")
    write_deltalake(TABLE, pyarrow.table({"writer": [-1], "commit": [-1]}), storage_options=OPTIONS)
    with multiprocessing.get_context("spawn").Pool(WRITERS) as pool:
        pool.map(write, range(WRITERS), chunksize=1)
    table = DeltaTable(TABLE, storage_options=OPTIONS)
    rows = sorted((r["writer"], r["commit"]) for r in table.to_pyarrow_table().to_pylist())
    assert rows == sorted([(-1, -1)] + [(w, c) for w in range(WRITERS) for c in range(COMMITS)]), rows
    assert table.version() == WRITERS * COMMITS, table.version()
