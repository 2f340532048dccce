"""The Python libraries of before 2019: azure-storage-blob 2.1, azure-storage-queue 2.1, azure-cosmosdb-table."""

import os

from account import ACCOUNT, CONNECTION, KEY
from azure.common import AzureConflictHttpError, AzureMissingResourceHttpError
from azure.cosmosdb.table.tableservice import TableService
from azure.storage.blob import AppendBlobService, BlockBlobService, PageBlobService
from azure.storage.queue import QueueService

blobs = BlockBlobService(connection_string=CONNECTION)
blobs.MAX_SINGLE_PUT_SIZE, blobs.MAX_BLOCK_SIZE = 1 << 20, 1 << 20
assert blobs.create_container("legacy-python")
try:
    blobs.create_container("legacy-python", fail_on_exist=True)
    raise AssertionError("created twice")
except AzureConflictHttpError:
    pass
content = os.urandom(5 << 20)
blobs.create_blob_from_bytes("legacy-python", "a/b ü", content, metadata={"k": "v"}, validate_content=True)
assert blobs.get_blob_to_bytes("legacy-python", "a/b ü", max_connections=2, validate_content=True).content == content
assert blobs.get_blob_to_bytes("legacy-python", "a/b ü", start_range=10, end_range=19).content == content[10:20]
assert blobs.get_blob_metadata("legacy-python", "a/b ü") == {"k": "v"}
snapshot = blobs.snapshot_blob("legacy-python", "a/b ü").snapshot
blobs.set_standard_blob_tier("legacy-python", "a/b ü", "Cool")
lease = blobs.acquire_blob_lease("legacy-python", "a/b ü", lease_duration=15)
blobs.release_blob_lease("legacy-python", "a/b ü", lease)
assert len(list(blobs.list_blobs("legacy-python", include="snapshots"))) == 2
blobs.delete_blob("legacy-python", "a/b ü", delete_snapshots="include")
append = AppendBlobService(connection_string=CONNECTION)
append.create_blob("legacy-python", "log")
append.append_blob_from_text("legacy-python", "log", "line")
assert append.get_blob_to_text("legacy-python", "log").content == "line"
pages = PageBlobService(connection_string=CONNECTION)
pages.create_blob_from_bytes("legacy-python", "page", b"x" * 1024)
assert [(r.start, r.end) for r in pages.get_page_ranges("legacy-python", "page")] == [(0, 1023)]
blobs.delete_container("legacy-python")

queues = QueueService(connection_string=CONNECTION)
queues.create_queue("legacy-python")
queues.put_message("legacy-python", "héllo")
message = queues.get_messages("legacy-python")[0]
assert message.content == "héllo"
updated = queues.update_message("legacy-python", message.id, message.pop_receipt, 0, content="again")
assert queues.peek_messages("legacy-python")[0].content == "again"
queues.clear_messages("legacy-python")
queues.delete_queue("legacy-python", fail_not_exist=True)

tables = TableService(connection_string=CONNECTION)
tables.create_table("LegacyPython")
tables.insert_entity("LegacyPython", {"PartitionKey": "p", "RowKey": "r", "Number": 1, "Text": "t'ä"})
with tables.batch("LegacyPython") as batch:
    for i in range(50):
        batch.insert_entity({"PartitionKey": "b", "RowKey": f"{i:02}", "N": i})
found = list(tables.query_entities("LegacyPython", filter="PartitionKey eq 'b' and N ge 40L", select="RowKey,N", num_results=3))
assert [e.N for e in found] == [40, 41, 42], found
tables.merge_entity("LegacyPython", {"PartitionKey": "p", "RowKey": "r", "More": True})
entity = tables.get_entity("LegacyPython", "p", "r")
assert (entity.Number, entity.More, entity.Text) == (1, True, "t'ä")
try:
    tables.get_entity("LegacyPython", "p", "none")
    raise AssertionError("found")
except AzureMissingResourceHttpError:
    pass
tables.delete_table("LegacyPython")
