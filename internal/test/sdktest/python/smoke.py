"""What a small application does, through the Azure SDK for Python. See ../README.md."""

import datetime
import decimal
import io
import json
import os
import sys
import uuid

import nanoarrow.ipc
from azure.core import MatchConditions
from azure.core.exceptions import HttpResponseError, ResourceExistsError, ResourceNotFoundError
from azure.data.tables import EntityProperty, EdmType, TableServiceClient, TableTransactionError, UpdateMode
from azure.storage.blob import ArrowDialect, ArrowType, BlobServiceClient, BlobBlock, DelimitedJsonDialect, DelimitedTextDialect, StandardBlobTier
from azure.storage.queue import QueueServiceClient

CONNECTION = os.environ["LAZULI_CONNECTION_STRING"]
NAME = "smoke" + uuid.uuid4().hex[:12]


def refused(error, status, code, call):
    """call must fail with that class, HTTP status and Azure error code."""
    try:
        call()
    except error as e:
        got = getattr(e, "error_code", None) or json.loads(e.response.text())["odata.error"]["code"]  # tables leave it in the body
        assert (e.status_code, getattr(got, "value", got)) == (status, code), (e.status_code, got, str(e))
    else:
        raise AssertionError(f"not refused: want {status} {code}")


def blobs():
    service = BlobServiceClient.from_connection_string(CONNECTION)
    container = service.create_container(NAME, metadata={"purpose": "smoke"})
    try:
        assert container.get_container_properties().metadata == {"purpose": "smoke"}
        refused(ResourceExistsError, 409, "ContainerAlreadyExists", lambda: service.create_container(NAME))

        blob = container.get_blob_client("folder/a b+ü.txt")
        blob.upload_blob(b"hello world", metadata={"k": "v"})
        refused(ResourceExistsError, 409, "BlobAlreadyExists", lambda: blob.upload_blob(b"again"))
        assert blob.download_blob().readall() == b"hello world"
        assert blob.download_blob(offset=6, length=5).readall() == b"world"
        properties = blob.get_blob_properties()
        assert properties.size == 11 and properties.metadata == {"k": "v"}
        refused(HttpResponseError, 412, "ConditionNotMet",
                lambda: blob.upload_blob(b"x", overwrite=True, etag='"0x1"', match_condition=MatchConditions.IfNotModified))

        blocks = container.get_blob_client("blocks")
        parts = [os.urandom(300_000) for _ in range(4)]
        for i, part in enumerate(parts):
            blocks.stage_block(f"{i:04}", part)
        blocks.commit_block_list([BlobBlock(block_id=f"{i:04}") for i in range(len(parts))])
        assert blocks.download_blob(max_concurrency=2).readall() == b"".join(parts)

        for i in range(7):
            container.upload_blob(f"list/{i}", b"")
        pages = [[b.name for b in page] for page in container.list_blobs(name_starts_with="list/", results_per_page=3).by_page()]
        assert [len(p) for p in pages] == [3, 3, 1] and sum(pages, []) == [f"list/{i}" for i in range(7)], pages
        assert sorted(b.name for b in container.walk_blobs(delimiter="/")) == ["blocks", "folder/", "list/"]

        queries(container.get_blob_client("people.csv"))
        newest(service)

        blob.delete_blob()
        refused(ResourceNotFoundError, 404, "BlobNotFound", lambda: blob.download_blob())
    finally:
        container.delete_container()


def newest(service):
    """What service version 2026-10-06 has, which this library is the first to speak."""
    container = service.create_container(NAME + "-new")
    try:
        blob = container.get_blob_client("dir/a")
        blob.upload_blob(b"x", metadata={"k": "v"}, tags={"t": "u"}, standard_blob_tier=StandardBlobTier.SMART)
        properties = blob.download_blob().properties
        assert (properties.blob_tier, properties.smart_access_tier) == ("Smart", "Hot"), properties
        assert blob.get_blob_properties().smart_access_tier == "Hot"
        for i in range(5):
            container.upload_blob(f"list/{i}", b"12345")
        container.get_blob_client("page").create_page_blob(512)

        def plain(items):
            return [{k: v for k, v in b.items() if v not in (None, {}) and k not in ("content_settings", "lease", "copy", "immutability_policy")} for b in items]

        include = ["metadata", "tags"]
        arrow = plain(container.list_blobs(include=include, response_format="arrow"))
        xml = plain(container.list_blobs(include=include, response_format="xml"))
        for a, x in zip(arrow, xml, strict=True):
            # Of these, the library reads one form only, or reads both differently.
            for k in ("tag_count", "encrypted_metadata", "object_replication_source_properties", "deleted", "server_encrypted", "blob_tier_inferred",
                      "has_legal_hold", "has_versions_only", "is_append_blob_sealed"):
                a.pop(k, None), x.pop(k, None)
            assert a == x, (a, x)
        pages = [[b.name for b in page] for page in container.list_blobs(name_starts_with="list/", response_format="arrow", results_per_page=2, end_before="list/4").by_page()]
        assert pages == [["list/0", "list/1"], ["list/2", "list/3"]], pages
        assert [b.name for b in container.walk_blobs(delimiter="/", response_format="arrow")] == ["dir/", "list/", "page"]

        staged = container.get_blob_client("blocks").stage_block("1", b"x", validate_content=True)
        assert staged["content_md5"] and staged["content_crc64"], staged

        people = container.get_blob_client("people.csv")
        people.upload_blob(b"Ada,36\nAlan,41\n")
        result = people.query_blob("SELECT _1, _2, _2 FROM BlobStorage", output_format=[
            ArrowDialect(ArrowType.STRING, name="name"), ArrowDialect(ArrowType.INT64, name="age"), ArrowDialect(ArrowType.DECIMAL, name="exact", precision=6, scale=2)])
        with nanoarrow.ipc.InputStream.from_readable(io.BytesIO(result.readall())) as stream:
            rows = nanoarrow.ArrayStream(stream).read_all().to_pylist()
        assert rows == [{"name": "Ada", "age": 36, "exact": decimal.Decimal("36.00")}, {"name": "Alan", "age": 41, "exact": decimal.Decimal("41.00")}], rows
    finally:
        container.delete_container()


def queries(blob):
    """Query Blob Contents: formats, errors within an answer and before it."""
    content = b"Name,Age\r\nAda,36\r\nGrace,old\r\nAlan,41\r\n"
    blob.upload_blob(content)
    errors = []
    text = DelimitedTextDialect(has_header=True)
    reader = blob.query_blob("SELECT Name FROM BlobStorage WHERE Age > 30", blob_format=text, output_format=DelimitedJsonDialect(delimiter="\n"),
                             on_error=errors.append)
    assert reader.readall() == b'{"Name":"Ada"}\n{"Name":"Alan"}\n' and len(reader) == len(content), len(reader)
    assert [(e.error, e.is_fatal) for e in errors] == [("InvalidTypeConversion", False)], errors
    assert blob.query_blob("SELECT * FROM BlobStorage").readall() == content.replace(b"\r\n", b"\n")
    assert list(blob.query_blob("SELECT COUNT(*) FROM BlobStorage", blob_format=text).records()) == [b"_1", b"3", b""]
    refused(HttpResponseError, 400, "ErrorProcessingQueryExpression", lambda: blob.query_blob("SELECT Name FROM BlobStorage"))

    blob.upload_blob(b"1,2\n" * 3_000_000, overwrite=True)
    result = blob.query_blob("SELECT _2 FROM BlobStorage").readall()
    assert result == b"2\n" * 3_000_000, len(result)

    blob.upload_blob(b"{name: owner}", overwrite=True)
    errors.clear()
    assert blob.query_blob("SELECT * FROM BlobStorage", blob_format=DelimitedJsonDialect(), output_format=text, on_error=errors.append).readall() == b""
    assert [(e.error, e.is_fatal, e.position) for e in errors] == [("ParseError", True, 0)], errors


def queues():
    service = QueueServiceClient.from_connection_string(CONNECTION)
    queue = service.create_queue(NAME)
    try:
        sent = queue.send_message("first <&> ü")
        queue.send_message("second", visibility_timeout=3600)
        assert [m.content for m in queue.peek_messages(5)] == ["first <&> ü"]
        (got,) = queue.receive_messages(max_messages=5, visibility_timeout=30)
        assert (got.id, got.content, got.dequeue_count) == (sent.id, "first <&> ü", 1)
        assert queue.get_queue_properties().approximate_message_count == 2
        updated = queue.update_message(got, content="changed", visibility_timeout=0)
        refused(HttpResponseError, 404, "MessageNotFound", lambda: queue.delete_message(got.id, got.pop_receipt))
        (again,) = queue.receive_messages(visibility_timeout=30)
        assert (again.content, again.dequeue_count) == ("changed", 2) and updated.id == again.id
        queue.delete_message(again)
        queue.clear_messages()
        assert list(queue.receive_messages()) == []
        assert NAME in [q.name for q in service.list_queues(name_starts_with="smoke")]
    finally:
        queue.delete_queue()
    refused(ResourceNotFoundError, 404, "QueueNotFound", lambda: queue.send_message("x"))


def tables():
    service = TableServiceClient.from_connection_string(CONNECTION)
    table = service.create_table(NAME)
    try:
        refused(ResourceExistsError, 409, "TableAlreadyExists", lambda: service.create_table(NAME))
        when = datetime.datetime(2026, 1, 2, 3, 4, 5, 600000, datetime.timezone.utc)
        entity = {"PartitionKey": "O'Hara", "RowKey": "ü/1".replace("/", "-"), "text": "x", "number": 7, "big": EntityProperty(1 << 40, EdmType.INT64),
                  "real": 1.5, "yes": True, "when": when, "id": uuid.uuid4(), "bytes": b"\x00\xff"}
        table.create_entity(entity)
        refused(ResourceExistsError, 409, "EntityAlreadyExists", lambda: table.create_entity(entity))
        got = table.get_entity("O'Hara", "ü-1")
        for name, value in entity.items():
            assert got[name] == value, (name, got[name], value)

        table.update_entity({"PartitionKey": "O'Hara", "RowKey": "ü-1", "text": "y"}, mode=UpdateMode.MERGE)
        assert table.get_entity("O'Hara", "ü-1")["number"] == 7
        refused(HttpResponseError, 412, "UpdateConditionNotSatisfied",
                lambda: table.update_entity(entity, mode=UpdateMode.REPLACE, etag=got.metadata["etag"], match_condition=MatchConditions.IfNotModified))

        table.submit_transaction([("upsert", {"PartitionKey": "p", "RowKey": f"{i:03}", "n": i}) for i in range(100)])
        found = list(table.query_entities("PartitionKey eq 'p' and n ge @low", parameters={"low": 90}, select=["RowKey", "n"], results_per_page=4))
        assert [e["n"] for e in found] == list(range(90, 100)), found
        try:
            table.submit_transaction([("create", {"PartitionKey": "p", "RowKey": "new"}), ("create", {"PartitionKey": "p", "RowKey": "001"})])
            raise AssertionError("a transaction with a double was taken")
        except TableTransactionError as e:
            assert (e.status_code, e.index) == (409, 1), (e.status_code, e.index)
        refused(ResourceNotFoundError, 404, "ResourceNotFound", lambda: table.get_entity("p", "new"))
        table.delete_entity("p", "000")
        assert sum(1 for _ in table.list_entities()) == 100
    finally:
        service.delete_table(NAME)


for part in (blobs, queues, tables):
    part()
    print(f"python {part.__name__}: ok")
    sys.stdout.flush()
