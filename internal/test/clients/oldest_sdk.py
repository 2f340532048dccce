"""azure-storage-blob 12.0 and azure-storage-queue 12.0, the first of the present libraries."""

import os

from account import CONNECTION
from azure.core.exceptions import HttpResponseError, ResourceExistsError
from azure.storage.blob import BlobBlock, BlobServiceClient
from azure.storage.queue import QueueServiceClient

service = BlobServiceClient.from_connection_string(CONNECTION, max_single_put_size=1 << 20, max_block_size=1 << 20)
container = service.create_container("oldest-python")
try:
    service.create_container("oldest-python")
    raise AssertionError("created twice")
except ResourceExistsError:
    pass
blob = container.get_blob_client("a/b ü")
content = os.urandom(5 << 20)
blob.upload_blob(content, metadata={"k": "v"}, validate_content=True)
assert blob.download_blob(validate_content=True).readall() == content
assert blob.get_blob_properties().metadata == {"k": "v"}
blob.create_snapshot()
blob.set_standard_blob_tier("Cool")
lease = blob.acquire_lease()
try:
    blob.upload_blob(b"x", overwrite=True)
    raise AssertionError("written without the lease")
except HttpResponseError as e:
    assert e.error_code == "LeaseIdMissing", e.error_code
lease.release()
blocks = container.get_blob_client("blocks")
blocks.stage_block("1", b"a")
blocks.commit_block_list([BlobBlock(block_id="1")])
page = container.get_blob_client("page")
page.create_page_blob(1024)
page.upload_page(b"x" * 512, offset=512, length=512)
assert page.get_page_ranges()[0] == [{"start": 512, "end": 1023}], page.get_page_ranges()
assert [b.name for b in container.list_blobs()] == ["a/b ü", "blocks", "page"]
copy = container.get_blob_client("copy")
assert copy.start_copy_from_url(blocks.url)["copy_status"] == "success"
service.delete_container("oldest-python")

queues = QueueServiceClient.from_connection_string(CONNECTION)
queue = queues.create_queue("oldest-python")
queue.send_message("hello")
message = next(queue.receive_messages())
assert message.content == "hello"
queue.delete_message(message)
queues.delete_queue("oldest-python")
