"""Runs a cluster in place of a single server, for the suites of clients (.ci/lib.sh, build_lazuli).

    cluster_server.py PROGRAM front|node ARGUMENTS...

ARGUMENTS are those of PROGRAM. All verbs but serve are PROGRAM's own. For serve, four nodes with --cluster-copies 3 have the data:
of each of the four shards a node has a copy or not. The clients' listeners are those of a fifth process, which has no data:
a front-end, or a node that has joined and gets no shard. It prints what a single server prints.
"""

import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

NODES, SHARDS = 4, 4

# ENTRY are the options with a value that the fifth process has in place of the nodes. The nodes have all others.
ENTRY = {"--blob-port", "--queue-port", "--table-port", "--dfs-port", "--admin-port", "--host", "--cert", "--key"}
# DROPPED are those that say where a single server has its data, or how it is watched.
DROPPED = {"--in-memory", "--no-admin", "--silent"}
PORTS = ["--blob-port=0", "--queue-port=0", "--table-port=0", "--dfs-port=0"]
PATIENCE = 300  # seconds


def free_ports(count):
    """Ports for the nodes among themselves, below those that the system and the tests choose."""
    while True:
        first, held = random.randrange(23000, 23999 - count), []
        try:
            for port in range(first, first + count):
                held.append(socket.socket())
                held[-1].bind(("127.0.0.1", port))
            return range(first, first + count)
        except OSError:
            pass
        finally:
            for s in held:
                s.close()


class Process:
    """One process of the cluster, whose output is in a file."""

    def __init__(self, cluster, name, arguments, environment):
        self.name, self.log = name, os.path.join(cluster.folder, name + ".log")
        self.out = os.path.join(cluster.folder, name + ".out")
        with open(self.out, "wb") as out, open(self.log, "wb") as log:
            self.running = subprocess.Popen([cluster.program, "serve", *arguments], stdout=out, stderr=log, env=environment)

    def text(self):
        with open(self.out) as f:
            return f.read()

    def wait_ready(self):
        end = time.monotonic() + PATIENCE
        while "Ready in" not in self.text():
            if self.running.poll() is not None or time.monotonic() > end:
                with open(self.log) as f:
                    sys.exit(f"{self.name} does not start:\n{f.read()[-4000:]}")
            time.sleep(0.1)

    def endpoint(self, service):
        """The URL of a service, without the account."""
        found = re.search(rf"^  {service} +(https?://[^/\s]+)", self.text(), re.M)
        return found and found.group(1)


class Cluster:
    def __init__(self, program, arguments):
        self.program = program
        self.entry, self.nodes, self.dropped, location = divided(arguments)
        for option in sorted(ENTRY):  # by the environment
            value = os.environ.pop("LAZULI_" + option[2:].upper().replace("-", "_"), None)
            if value is not None:
                self.entry.append(f"{option}={value}")
        if location is None or "--in-memory" in self.dropped:
            location = tempfile.mkdtemp(prefix="lazuli-cluster")
            self.temporary = location
        else:
            self.temporary = None
        self.folder = location
        os.makedirs(location, exist_ok=True)
        self.secret = os.path.join(location, "secret")
        with open(self.secret, "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as f:
            f.write("%064x" % random.getrandbits(256))
        ports = free_ports(NODES + 1)
        self.addresses = [f"127.0.0.1:{port}" for port in ports]
        self.peers = ",".join(f"n{i + 1}={a}" for i, a in enumerate(self.addresses[:NODES]))
        self.processes = []

    def start(self, name, arguments, environment=None):
        process = Process(self, name, [*arguments, f"--cluster-node={name}", "--cluster-secret-file=" + self.secret],
                          environment or os.environ)
        self.processes.append(process)
        return process

    def start_node(self, i, peers, arguments):
        return self.start(f"n{i + 1}", [*self.nodes, *arguments, "--location=" + os.path.join(self.folder, f"n{i + 1}"),
                                        f"--shards={SHARDS}", "--cluster-copies=3", "--cluster-listen=" + self.addresses[i],
                                        "--cluster-peers=" + peers])

    def run(self, mode):
        """Starts all, the process of the clients last, and returns that one."""
        for i in range(NODES):
            self.start_node(i, self.peers, [*PORTS, "--admin-port=0"])
        for p in self.processes:
            p.wait_ready()
        quiet = [o for o in self.dropped if o == "--no-admin"]
        if mode == "front":
            # Options by the environment are those of servers with data.
            plain = {k: v for k, v in os.environ.items() if not k.startswith("LAZULI_")}
            entry = self.start("f1", [*self.entry, *quiet, "--cluster-front", "--cluster-peers=" + self.peers], plain)
        else:
            self.admin("cluster", "balance", "--auto=off")
            entry = self.start_node(NODES, f"{self.peers},n{NODES + 1}={self.addresses[NODES]}", [*self.entry, *quiet])
        entry.wait_ready()
        return entry

    def admin(self, *arguments):
        """A verb for the admin listener of the first node. Right after the start it may have no leader yet."""
        port = self.processes[0].endpoint("Admin").rsplit(":", 1)[1]
        end = time.monotonic() + PATIENCE
        while subprocess.run([self.program, *arguments, "--admin-port=" + port], stdout=subprocess.DEVNULL,
                             stderr=subprocess.PIPE).returncode:
            if time.monotonic() > end:
                sys.exit("does not succeed: " + " ".join(arguments))
            time.sleep(0.5)

    def shown(self, entry):
        """What a single server prints: a front-end knows no account and gives out no tokens, so the rest is the first node's."""
        text, node = entry.text(), self.processes[0]
        if "DefaultEndpointsProtocol=" not in text:
            connection = re.search(r"DefaultEndpointsProtocol=\S+", node.text()).group(0)
            for service in ("Blob", "Queue", "Table", "Dfs"):
                if entry.endpoint(service):
                    connection = re.sub(rf"({service}Endpoint)=https?://[^/]+", rf"\1={entry.endpoint(service)}", connection)
            if entry.endpoint("Blob").startswith("https:"):
                connection = connection.replace("DefaultEndpointsProtocol=http;", "DefaultEndpointsProtocol=https;")
            if entry.endpoint("Dfs") and "DfsEndpoint" not in connection:
                connection = connection.rstrip(";") + f";DfsEndpoint={entry.endpoint('Dfs')}/devstoreaccount1;"
            text = re.sub(r"^Ready", f"  {connection}\n\nReady", text, flags=re.M)
            text = re.sub(r"^(  Admin +)https?://[^/\s]+", rf"\g<1>{node.endpoint('Admin')}", text, flags=re.M)
        return text

    def close(self):
        for p in reversed(self.processes):
            if p.running.poll() is None:
                p.running.terminate()
        for p in self.processes:
            try:
                p.running.wait(30)
            except subprocess.TimeoutExpired:
                p.running.kill()
        if self.temporary and not os.environ.get("LAZULI_CI_CLUSTER_KEEP"):
            shutil.rmtree(self.temporary, ignore_errors=True)


def divided(arguments):
    """The arguments of serve: those of the clients' process, those of the nodes, those of neither, and the data folder."""
    entry, nodes, dropped, location = [], [], [], None
    rest = list(arguments)
    while rest:
        option = [rest.pop(0)]
        if rest and not rest[0].startswith("--") and "=" not in option[0]:
            option.append(rest.pop(0))
        name = option[0].partition("=")[0]
        if name == "--location":
            location = option[-1].removeprefix("--location=")
        elif name in DROPPED:
            dropped += option
        elif name in ENTRY:
            entry += option
        else:
            nodes += option
    return entry, nodes, dropped, location


def main():
    program, mode, *arguments = sys.argv[1:]
    if arguments and arguments[0] != "serve" and not arguments[0].startswith("--"):
        os.execv(program, [program, *arguments])
    cluster = Cluster(program, arguments[1:] if arguments[:1] == ["serve"] else arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        entry = cluster.run(mode)
        if "--silent" not in cluster.dropped:
            print(cluster.shown(entry), end="", flush=True)
        while all(p.running.poll() is None for p in cluster.processes):
            time.sleep(0.5)
        sys.exit("a process of the cluster has ended: " + ", ".join(p.name for p in cluster.processes if p.running.poll() is not None))
    except KeyboardInterrupt:
        pass
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        cluster.close()


main()
