"""Prints what the SDKs do about faults, as a table in Markdown; see README.md."""

import json
import os
import re
import subprocess
import sys
import time
import urllib.request
from importlib.metadata import version

here = os.path.dirname(os.path.abspath(__file__))
admin = os.environ["LAZULI_ADMIN"].rstrip("/")
connection = os.environ["LAZULI_CONNECTION_STRING"]
content = b"0123456789" * 20_000

commands = {
    "go": ["go", "run", here + "/goclient"],
    "python": [sys.executable, here + "/client.py"],
    "js": ["node", "client.mjs"],
    "java": ["java", "-cp", os.environ.get("LAZULI_JAVA", ""), "Client"],
}
folders = {"js": os.environ.get("LAZULI_JS", here), "go": here}
titles = {"go": "Go", "python": "Python", "js": "JavaScript", "java": "Java"}

# The rules, as the table names them: what the client does, and the rules. The tries of the clients end after 3 seconds.
lost = {"secondary": {"lag": "10m", "failedOver": True}}
lags = {"secondary": {"lag": "10m"}}
down = {"endpoint": "primary", "operation": "Get Blob", "error": "ServerBusy"}
scenarios = [
    ("503 `ServerBusy`, twice", "get", [{"operation": "Get Blob", "error": "ServerBusy", "count": 2}]),
    ("503 `ServerBusy`, always", "get", [{"operation": "Get Blob", "error": "ServerBusy"}]),
    ("500 `OperationTimedOut`, always", "get", [{"operation": "Get Blob", "error": "OperationTimedOut"}]),
    ("500 `InternalError`, always", "put x", [{"operation": "Put Blob", "error": "InternalError"}]),
    ("answer delayed by 1 s", "get", [{"operation": "Get Blob", "delay": "1s"}]),
    ("answer to a download delayed by 10 s, once", "get", [{"operation": "Get Blob", "delay": "10s", "count": 1}]),
    ("answer to a download delayed by 10 s, always", "get", [{"operation": "Get Blob", "delay": "10s"}]),
    ("answer to an upload delayed by 10 s, always", "put x", [{"operation": "Put Blob", "delay": "10s"}]),
    ("download at 100,000 bytes per second (2 s)", "get", [{"operation": "Get Blob", "slow": 100_000}]),
    ("download at 20,000 bytes per second (10 s)", "get", [{"operation": "Get Blob", "slow": 20_000}]),
    ("upload at 20,000 bytes per second (10 s)", "put x", [{"operation": "Put Blob", "slow": 20_000}]),
    ("reset before a write, once", "put x", [{"operation": "Put Blob", "reset": "before", "count": 1}]),
    ("reset before a write, always", "put x", [{"operation": "Put Blob", "reset": "before"}]),
    ("reset during a download, once", "get", [{"operation": "Get Blob", "reset": "during", "count": 1}]),
    ("reset during a download, 10 times", "get", [{"operation": "Get Blob", "reset": "during", "count": 10}]),
    ("reset after the answer to a download, always", "get", [{"operation": "Get Blob", "reset": "after"}]),
    ("reset after the answer to a put of a message, always", "message x", [{"operation": "Put Message", "reset": "after"}]),
    ("upload applied, not answered, once", "put x", [{"operation": "Put Blob", "unanswered": True, "count": 1}]),
    ("message put, not answered, once", "message x", [{"operation": "Put Message", "unanswered": True, "count": 1}]),
    ("download cut, once", "get", [{"operation": "Get Blob", "truncate": 100_000, "count": 1}]),
    ("download cut, always", "get", [{"operation": "Get Blob", "truncate": 100_000}]),
    ("a bit of a download changed", "get", [{"operation": "Get Blob", "corrupt": 100_000}]),
    ("a bit of an upload changed", "put x", [{"operation": "Put Blob", "corrupt": 100_000, "corruptRequest": True, "count": 1}]),
    ("throttled to a request in 2 s, 3 downloads", "get 3", [{"operation": "Get Blob", "throttle": {"requests": 0.5}}]),
    ("the same, with `Retry-After: 2`", "get 3", [{"operation": "Get Blob", "throttle": {"requests": 0.5}, "retryAfter": "2s"}]),
    ("throttled to 100,000 bytes per second, with `Retry-After: 2`, 2 downloads", "get 2", [{"operation": "Get Blob", "throttle": {"bytes": 100_000}, "retryAfter": "2s"}]),
    ("primary answers 503, the secondary does not lag", "secondary", [down]),
    ("primary answers 503, the secondary does not have the blob yet", "secondary", [down, lags]),
    ("failed over, the blob is lost", "secondary", [lost]),
]


def ask(method, path="", body=None):
    request = urllib.request.Request(admin + "/admin/faults" + path, method=method, data=json.dumps(body).encode() if body else None)
    with urllib.request.urlopen(request) as answer:
        text = answer.read()
        return json.loads(text) if text else None


def run(client, line):
    client.stdin.write(line + "\n")
    client.stdin.flush()
    answer = client.stdout.readline().strip()
    if not answer:
        sys.exit(f"{client.args}: no answer to {line!r}")
    return answer


def prepare():
    """Makes the container and the queue, with the SDK for Python."""
    from azure.storage.blob import BlobServiceClient
    from azure.storage.queue import QueueClient

    box = BlobServiceClient.from_connection_string(connection).get_container_client("faults")
    queue = QueueClient.from_connection_string(connection, "faults")
    if not box.exists():
        box.create_container()
    box.upload_blob("b", content, overwrite=True)
    try:
        queue.create_queue()
    except Exception:
        pass
    return box, queue


def plural(n, noun):
    return f"{n} {noun}" + ("" if n == 1 else "s")


def cell(outcomes, hits, notes):
    """One cell of the table: what the program got, and how often the rule had an effect."""
    same = len(set(outcomes)) == 1
    text = ", ".join("success" if o == "ok" else o if o == "no such option" else f"`{o}`" for o in (outcomes[:1] if same else outcomes))
    return ", ".join([text] + [plural(n, "hit") if len(hits) == 1 else f"{plural(n, 'hit')} at {where}" for where, n in hits] + notes)


def meet(client, line, rules, box, queue):
    """Lets a client meet rules and returns the cell."""
    queue.clear_messages()
    operation, _, times = line.partition(" ") if line.startswith("get ") else (line, "", "")
    added = [ask("POST", body=rule)["name"] for rule in rules]
    outcomes = [run(client, operation) for _ in range(int(times or 1))]
    status = {rule["name"]: rule for rule in ask("GET")}
    ask("DELETE")
    if outcomes[0] == "no such option":
        return outcomes[0]
    hits = [("the secondary" if "secondary" in status[name] else "the primary", status[name]["hits"]) for name in added]
    notes = []
    if line.startswith("message"):
        notes.append(plural(queue.get_queue_properties().approximate_message_count, "message") + " in the queue")
    if line.startswith("put") and "corrupt" in rules[0]:
        notes.append("stored as sent" if box.download_blob("x").readall() == content else "stored wrong")
    return cell(outcomes, hits, notes)


def versions(names):
    """The sentence about the packages that were measured."""
    with open(os.path.join(here, "../../../../go.mod")) as f:
        gomod = f.read()
    module = lambda path: re.search(re.escape(path) + r" v([\d.]+)", gomod)[1]
    package = lambda path: json.load(open(os.path.join(folders["js"], "node_modules", path, "package.json")))["version"]
    with open(here + "/java/pom.xml") as f:
        pom = f.read()
    artifact = lambda name: re.search(f"<artifactId>{name}</artifactId><version>([^<]+)<", pom)[1]
    azure = "github.com/Azure/azure-sdk-for-go/sdk/storage/"
    texts = {
        "go": lambda: f"azblob {module(azure + 'azblob')} and azqueue {module(azure + 'azqueue/v2')} for Go",
        "python": lambda: f"azure-storage-blob {version('azure-storage-blob')} and azure-storage-queue {version('azure-storage-queue')} for Python",
        "js": lambda: f"@azure/storage-blob {package('@azure/storage-blob')} and @azure/storage-queue {package('@azure/storage-queue')} for JavaScript",
        "java": lambda: f"azure-storage-blob {artifact('azure-storage-blob')} and azure-storage-queue {artifact('azure-storage-queue')} for Java",
    }
    return "Measured with " + ", ".join(texts[name]() for name in names) + "."


def main(names):
    ask("DELETE")
    box, queue = prepare()
    rows = {what: [] for what, _, _ in scenarios}
    for name in names:
        client = subprocess.Popen(commands[name], cwd=folders.get(name), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for line in ["put warm", "get", "message warm", "secondary"]:
            if (outcome := run(client, line)) not in ("ok", "no such option"):
                sys.exit(f"{name}: {line} fails without faults: {outcome}")
        for what, line, rules in scenarios:
            began = time.monotonic()
            rows[what].append(meet(client, line, rules, box, queue))
            print(f"{name}: {what}: {rows[what][-1]}, {time.monotonic() - began:.1f} s", file=sys.stderr)
        client.stdin.close()
        client.wait()
    print(versions(names) + "\n")
    print("| fault | " + " | ".join(titles[name] for name in names) + " |\n| --- |" + " --- |" * len(names))
    for what, cells in rows.items():
        print(f"| {what} | " + " | ".join(cells) + " |")


main(sys.argv[1:] or ["go", "python", "js", "java"])
