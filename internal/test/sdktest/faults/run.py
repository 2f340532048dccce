"""Prints what the SDKs do about faults, as a table in Markdown; see README.md."""

import json
import os
import subprocess
import sys
import time
import urllib.request

here = os.path.dirname(os.path.abspath(__file__))
admin = os.environ["LAZULI_ADMIN"].rstrip("/")
commands = {
    "python": [sys.executable, here + "/client.py"],
    "js": ["node", "client.mjs"],
    "go": ["go", "run", here + "/goclient"],
    "java": ["mvn", "-q", "-f", here + "/java/pom.xml", "compile", "exec:java"],
}
folders = {"js": os.environ.get("LAZULI_JS", here)}

# The rules, as the table names them: what the client does, and the rule.
scenarios = [
    ("503 `ServerBusy`, twice", "get", {"operation": "Get Blob", "error": "ServerBusy", "count": 2}),
    ("503 `ServerBusy`, always", "get", {"operation": "Get Blob", "error": "ServerBusy"}),
    ("500 `OperationTimedOut`, always", "get", {"operation": "Get Blob", "error": "OperationTimedOut"}),
    ("500 `InternalError`, always", "put x", {"operation": "Put Blob", "error": "InternalError"}),
    ("reset before a write, once", "put x", {"operation": "Put Blob", "reset": "before", "count": 1}),
    ("reset before a write, always", "put x", {"operation": "Put Blob", "reset": "before"}),
    ("upload applied, not answered, once", "put x", {"operation": "Put Blob", "unanswered": True, "count": 1}),
    ("message put, not answered, once", "message x", {"operation": "Put Message", "unanswered": True, "count": 1}),
    ("download cut, once", "get", {"operation": "Get Blob", "truncate": 100_000, "count": 1}),
    ("download cut, always", "get", {"operation": "Get Blob", "truncate": 100_000}),
    ("a bit of a download changed", "get", {"operation": "Get Blob", "corrupt": 100_000}),
    ("a bit of an upload changed", "put x", {"operation": "Put Blob", "corrupt": 100_000, "corruptRequest": True, "count": 1}),
]


def ask(method, path="", body=None):
    request = urllib.request.Request(admin + "/admin/faults" + path, method=method, data=json.dumps(body).encode() if body else None)
    with urllib.request.urlopen(request) as answer:
        text = answer.read()
        return json.loads(text) if text else None


def run(client, line):
    client.stdin.write(line + "\n")
    client.stdin.flush()
    return client.stdout.readline().strip()


def prepare():
    """Makes the container and the queue, with the SDK for Python."""
    from azure.storage.blob import BlobServiceClient
    from azure.storage.queue import QueueClient

    connection = os.environ["LAZULI_CONNECTION_STRING"]
    box = BlobServiceClient.from_connection_string(connection).get_container_client("faults")
    queue = QueueClient.from_connection_string(connection, "faults")
    if not box.exists():
        box.create_container()
    box.upload_blob("b", b"0123456789" * 20_000, overwrite=True)
    try:
        queue.create_queue()
    except Exception:
        pass
    return box, queue


def main(names):
    ask("DELETE")
    box, queue = prepare()
    rows = {what: [] for what, _, _ in scenarios}
    for name in names:
        client = subprocess.Popen(commands[name], cwd=folders.get(name), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if run(client, "put warm") != "ok" or run(client, "get") != "ok" or run(client, "message warm") != "ok":
            sys.exit(name + ": the client does not work without faults")
        for what, line, rule in scenarios:
            queue.clear_messages()
            added = ask("POST", body=rule)["name"]
            began = time.monotonic()
            outcome = run(client, line)
            took = time.monotonic() - began
            status = next(r for r in ask("GET") if r["name"] == added)
            ask("DELETE", "/" + added)
            notes = [f"{status['hits']} hit" + ("s" if status["hits"] != 1 else "")]
            if line.startswith("message"):
                count = queue.get_queue_properties().approximate_message_count
                notes.append(f"{count} message" + ("s" if count != 1 else "") + " in the queue")
            if line.startswith("put") and "corrupt" in rule:
                stored = box.download_blob("x").readall() == b"0123456789" * 20_000
                notes.append("stored as sent" if stored else "stored wrong")
            rows[what].append(f"{'success' if outcome == 'ok' else '`' + outcome + '`'}, {', '.join(notes)}")
            print(f"{name}: {what}: {outcome}, {notes}, {took:.1f} s", file=sys.stderr)
        client.stdin.close()
        client.wait()
    print("| fault | " + " | ".join(names) + " |\n| --- |" + " --- |" * len(names))
    for what, cells in rows.items():
        print(f"| {what} | " + " | ".join(cells) + " |")


main(sys.argv[1:] or ["python", "js", "go"])
