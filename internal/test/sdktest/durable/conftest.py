"""Lets the tests in tests/durabletask of microsoft/durabletask-python run on Lazuli.

In place of the in-memory backend that each test starts on a port, they get a server of Lazuli with an empty folder; LAZULI names the binary. The blobs of the
development account are those of LAZULI_CONNECTION_STRING.
"""
import os
import shutil
import subprocess
import tempfile
import time

import azure.storage.blob
import azure.storage.blob.aio
import durabletask.testing


class Server:
    def __init__(self, port, max_history_size=0):
        self.folder = tempfile.mkdtemp(prefix="lazuli-durabletask")
        with open(self.folder + "/out", "wb") as out:
            self.process = subprocess.Popen(
                [os.environ["LAZULI"], "--location", self.folder + "/data", "--blob-port", "0", "--queue-port", "0", "--table-port", "0", "--admin-port", "0",
                 "--durable", "--durable-listen", f"127.0.0.1:{port}"], stdout=out, stderr=subprocess.STDOUT,
                env={k: v for k, v in os.environ.items() if not k.startswith("LAZULI_")})
        for _ in range(1200):
            with open(self.folder + "/out") as out:
                text = out.read()
            if "\nReady" in text:
                return
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        self.stop()
        raise RuntimeError("lazuli does not start: " + text)

    def stop(self, grace=None):
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def reset(self):
        pass  # The next test has another server.


durabletask.testing.create_test_backend = Server

for client in azure.storage.blob.BlobServiceClient, azure.storage.blob.aio.BlobServiceClient:
    def connect(cls, text, *arguments, real=client.from_connection_string.__func__, **options):
        return real(cls, os.environ["LAZULI_CONNECTION_STRING"] if text == "UseDevelopmentStorage=true" else text, *arguments, **options)
    client.from_connection_string = classmethod(connect)
