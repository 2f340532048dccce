"""Data that goes through exports and imports: `fill NAME FILE`, `clear NAME`, `check NAME FILE`, for a container and queue of that name."""

import sys

from account import CONNECTION
from azure.data.tables import TableServiceClient
from azure.storage.blob import BlobServiceClient, ContentSettings
from azure.storage.queue import QueueServiceClient

command, name = sys.argv[1:3]
container = BlobServiceClient.from_connection_string(CONNECTION).get_container_client(name)
table = TableServiceClient.from_connection_string(CONNECTION).get_table_client("AzuriteData")
queue = QueueServiceClient.from_connection_string(CONNECTION).get_queue_client(name)

if command == "fill":
    with open(sys.argv[3], "rb") as f:
        container.upload_blob("large", f, max_concurrency=1)
    container.upload_blob("dir/ä b", b"x", metadata={"k": "v"}, tags={"t": "u"}, content_settings=ContentSettings(content_type="a/b"))
    history = container.get_blob_client("history")
    for i in range(3):
        history.upload_blob(b"%d" % i, overwrite=True)
        if i < 2:
            history.create_snapshot()
    container.get_blob_client("log").create_append_blob()
    container.get_blob_client("log").append_block(b"line")
    page = container.get_blob_client("page")
    page.create_page_blob(1 << 20)
    page.upload_page(b"x" * 512, offset=4096, length=512)
    queue.create_queue()
    for i in range(5):
        queue.send_message(f"message {i} ä", time_to_live=-1)
    table.create_table()
    table.submit_transaction([("create", {"PartitionKey": "p", "RowKey": f"{i:03}", "N": i, "D": float(i), "L": (1 << 60, "Edm.Int64"), "T": "ä'"}) for i in range(100)])
elif command == "clear":
    for blob in container.list_blobs():
        container.delete_blob(blob.name, delete_snapshots="include")
    queue.clear_messages()
    for entity in table.list_entities():
        table.delete_entity(entity)
else:
    with open(sys.argv[3], "rb") as f:
        assert container.download_blob("large").readall() == f.read()
    blob = container.get_blob_client("dir/ä b")
    p = blob.get_blob_properties()
    assert (p.metadata, blob.get_blob_tags(), p.content_settings.content_type, blob.download_blob().readall()) == ({"k": "v"}, {"t": "u"}, "a/b", b"x"), p
    states = [container.get_blob_client("history", snapshot=b.snapshot).download_blob().readall() for b in container.list_blobs("history", include=["snapshots"])]
    assert states == [b"0", b"1", b"2"], states
    assert container.download_blob("log").readall() == b"line"
    page = container.get_blob_client("page")
    assert page.get_page_ranges()[0] == [{"start": 4096, "end": 4607}] and page.get_blob_properties().size == 1 << 20
    assert [m.content for m in queue.peek_messages(max_messages=32)] == [f"message {i} ä" for i in range(5)]
    entities = list(table.list_entities())
    assert [(e["RowKey"], e["N"], e["D"], type(e["D"]), e["L"][0], e["T"]) for e in entities] == [(f"{i:03}", i, float(i), float, 1 << 60, "ä'") for i in range(100)], entities[:2]
