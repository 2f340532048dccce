"""Lazuli: Azure-compatible tables, queues and blobs in one program.

    with lazuli.start() as server:
        client = BlobServiceClient.from_connection_string(server.connection_string)

The package's pytest plugin has a fixture `lazuli_server`, one server for the session.
"""

import atexit
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time

__all__ = ["Server", "program", "start"]


def program():
    """Return the path of the program."""
    name = "lazuli.exe" if sys.platform == "win32" else "lazuli"
    folders = [sysconfig.get_path("scripts")]
    if hasattr(sysconfig, "get_preferred_scheme"):
        folders.append(sysconfig.get_path("scripts", sysconfig.get_preferred_scheme("user")))
    # Installed with --target, the scripts are in bin beside the package.
    folders.append(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "bin"))
    for path in [os.environ.get("LAZULI_BINARY"), *(os.path.join(f, name) for f in folders), shutil.which("lazuli")]:
        if path and os.path.isfile(path):
            return path
    raise FileNotFoundError("the program lazuli is not installed: pip install lazuli")


class Server:
    """A running server. It ends with the process that started it, or with stop()."""

    def __init__(self, process, connection_string):
        self._process = process
        #: The connection string of the development account.
        self.connection_string = connection_string

    def stop(self):
        """Stop the server and wait until it has ended."""
        if self._process.poll() is None:
            self._process.terminate()
            self._process.wait()
        atexit.unregister(self.stop)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


def start(*args, location=None, timeout=60, env=None):
    """Start a server on free ports of this machine, and return when it serves.

    location is the data folder; without it no data is kept. args are more arguments of `lazuli serve`, env more environment
    variables; LAZULI_* and AZURITE_* of this process are not handed on. timeout is in seconds.
    """
    command = [program(), "serve"]
    for service in ("blob", "queue", "table", "admin"):
        command += [f"--{service}-port", "0"]
    command += (["--location", str(location)] if location else ["--in-memory"]) + [str(a) for a in args]
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("LAZULI_", "AZURITE_"))}
    environment.update(env or {})
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        # Files, not pipes, so that nobody has to read what the server prints later.
        names = [os.path.join(folder, "out"), os.path.join(folder, "err")]
        with open(names[0], "wb") as out, open(names[1], "wb") as err:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=environment)
        deadline = time.monotonic() + timeout
        try:
            while True:
                ended = process.poll() is not None
                with open(names[0], encoding="utf-8") as out:
                    text = out.read()
                if re.search(r"^Ready", text, re.M):
                    server = Server(process, re.search(r"^\s*(\S*AccountName=\S+)", text, re.M)[1])
                    atexit.register(server.stop)
                    return server
                if ended or time.monotonic() > deadline:
                    with open(names[1], encoding="utf-8") as err:
                        why = f"it exited with {process.returncode}" if ended else "it was not ready in time"
                        raise RuntimeError(f"lazuli did not start: {why}\n{err.read()}")
                time.sleep(0.02)
        except BaseException:
            process.kill()
            process.wait()
            raise
