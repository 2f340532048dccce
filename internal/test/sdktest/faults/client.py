"""The client for Python of run.py; see README.md."""

import os
import socket
import sys

from azure.core.exceptions import AzureError
from azure.storage.blob import BlobServiceClient
from azure.storage.blob import ExponentialRetry as BlobRetry
from azure.storage.queue import ExponentialRetry as QueueRetry
from azure.storage.queue import QueueClient

content = b"0123456789" * 20_000
connection = os.environ["LAZULI_CONNECTION_STRING"]
settings = dict(part.split("=", 1) for part in connection.split(";"))
port = settings["BlobEndpoint"].rsplit(":", 1)[1].split("/")[0]
account = settings["AccountName"]

resolve = socket.getaddrinfo
socket.getaddrinfo = lambda host, *rest, **more: resolve("127.0.0.1" if str(host).endswith(".localhost") else host, *rest, **more)

pauses = {"initial_backoff": 0.01, "increment_base": 0.001, "random_jitter_range": 0}
box = BlobServiceClient.from_connection_string(connection, retry_policy=BlobRetry(**pauses), read_timeout=3).get_container_client("faults")
queue = QueueClient.from_connection_string(connection, "faults", retry_policy=QueueRetry(**pauses), read_timeout=3)
both = BlobServiceClient(
    f"http://{account}.blob.localhost:{port}",
    credential={"account_name": account, "account_key": settings["AccountKey"]},
    secondary_hostname=f"{account}-secondary.blob.localhost:{port}",
    retry_policy=BlobRetry(retry_to_secondary=True, **pauses),
    read_timeout=3,
).get_container_client("faults")

for line in sys.stdin:
    operation, _, argument = line.strip().partition(" ")
    try:
        if operation == "put":
            box.upload_blob(argument, content, overwrite=True)
        elif operation in ("get", "secondary"):
            if (box if operation == "get" else both).download_blob("b").readall() != content:
                print("wrong bytes", flush=True)
                continue
        else:
            queue.send_message(argument)
        print("ok", flush=True)
    except AzureError as e:
        code = getattr(e, "error_code", None)
        print(getattr(code, "value", code) or type(e).__name__, flush=True)
