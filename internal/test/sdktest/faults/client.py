"""The client for Python of run.py; see README.md."""

import os
import sys

from azure.core.exceptions import AzureError
from azure.storage.blob import BlobServiceClient
from azure.storage.blob import ExponentialRetry as BlobRetry
from azure.storage.queue import QueueClient
from azure.storage.queue import ExponentialRetry as QueueRetry

content = b"0123456789" * 20_000
connection = os.environ["LAZULI_CONNECTION_STRING"]
pauses = {"initial_backoff": 0.01, "increment_base": 0.001, "random_jitter_range": 0}
box = BlobServiceClient.from_connection_string(connection, retry_policy=BlobRetry(**pauses), read_timeout=5).get_container_client("faults")
queue = QueueClient.from_connection_string(connection, "faults", retry_policy=QueueRetry(**pauses), read_timeout=5)

for line in sys.stdin:
    operation, _, argument = line.strip().partition(" ")
    try:
        if operation == "put":
            box.upload_blob(argument, content, overwrite=True)
        elif operation == "get":
            if box.download_blob("b").readall() != content:
                print("wrong bytes", flush=True)
                continue
        else:
            queue.send_message(argument)
        print("ok", flush=True)
    except AzureError as e:
        code = getattr(e, "error_code", None)
        print(getattr(code, "value", code) or type(e).__name__, flush=True)
