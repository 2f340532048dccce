"""Runs public function apps as they are, with lazuli in the place of func, and says for each function what happened.

    function_apps.py LAZULI FOLDER CACHE LOGS [PART-OF-A-NAME...]

FOLDER has a checkout of each repository of APPS, in a folder OWNER+NAME. An app is copied, its packages are installed, it
is started, and the steps are made. What leaves the machine (the apps that ask other sites) may fail inside of a function
that handles it; the step says what its result must have.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

SCHEDULER = {"DURABLE_TASK_SCHEDULER_CONNECTION_STRING": "Endpoint=http://localhost:8080;Authentication=None", "TASKHUB_NAME": "default"}
EMPLOYEES = [{"name": name, "email": "x@example.com", "startdate": "01.02.2022", "role": role} for name, role in (("Johnny", "developer"), ("Daniel", "sales"))]
PLAYER = {"id": "1", "nickName": "Starlord", "email": "x@example.com", "location": {"region": "missouri", "country": "usa"}}
UNIVERSITY = "marcduiker+azure-functions-university"
LESSONS = "src/typescript/"

# Of each app: the checkout, the folder in it, settings, and the steps. A step is (method, path, body, status, text that the
# answer has), or a start of a workflow: ("start", path, body, its status, text that its output has, events...).
APPS = [
    ("Azure-Samples+durable-functions-order-processing-python", "order_processor", SCHEDULER, [
        ("start", "orchestrators/process_orchestrator", None, "Completed", "true")]),
    ("Azure-Samples+durable-functions-quickstart-python-azd", "src", {}, [
        ("start", "orchestrators/fetch_orchestration", None, "Completed", "")]),
    ("Azure-Samples+durable-functions-quickstart-javascript-azd", "src", SCHEDULER, [
        ("start", "FetchOrchestration_HttpStart", None, "Completed", "")]),
    ("Azure-Samples+durable-functions-quickstart-typescript-azd", "src", SCHEDULER, [
        ("start", "orchestrators/fetchOrchestration", None, "Completed", "")]),
    ("Azure-Samples+functions-quickstart-python-http-azd", ".", {}, [
        ("GET", "httpget?name=Ada", None, 200, "Hello, Ada"), ("POST", "httppost", {"name": "Ada", "age": 5}, 200, "5 years old")]),
    ("Azure-Samples+functions-quickstart-python-azd-timer", "src", {"TIMER_SCHEDULE": "*/2 * * * * *"}, [
        ("admin", "timer_function", "", 202, "")]),
    ("Azure-Samples+functions-quickstart-javascript-azd", ".", {}, [
        ("GET", "httpget?name=Ada", None, 200, "Hello, Ada"), ("POST", "httppost", {"name": "Ada", "age": 5}, 200, "5 years old")]),
    (UNIVERSITY, LESSONS + "durable-functions/chaining/DurableFunctionApp", {}, [
        ("start", "orchestrators/DurableFunctionsOrchestrator", {}, "Completed", "Hello London!"),
        ("start", "orchestrators/GitHubInfoOrchestrator", {"repositoryName": "x"}, "", "")]),
    (UNIVERSITY, LESSONS + "durable-functions/advanced-patterns/01DurableFunctionApp-FanOutFanIn", {}, [
        ("start", "orchestrators/OnboardingOrchestrator", EMPLOYEES[0], "Completed", "Access card created for Johnny")]),
    (UNIVERSITY, LESSONS + "durable-functions/advanced-patterns/02DurableFunctionApp-SubOrchestration", {}, [
        ("start", "orchestrators/ParallelOnboardingOrchestrator", {"employees2onboard": EMPLOYEES}, "Completed", "")]),
    (UNIVERSITY, LESSONS + "durable-functions/advanced-patterns/03DurableFunctionApp-ExternalEvent", {}, [
        ("start", "orchestrators/OnboardingOrchestratorExternalEvent", EMPLOYEES[1], "Completed", "was ordered for Daniel", ("ApprovalRequest", "approved"))]),
    (UNIVERSITY, LESSONS + "AzureFunctions.Blob", {}, [
        ("POST", "Exercise2PlainBlobOutputBindings", PLAYER, 201, "created"),
        ("POST", "Exercise3BindingExpressionsForBlobOutputBindings", PLAYER, 201, "created"),
        ("POST", "Exercise4PayloadDataOfTriggerForBlobOutputBindings", PLAYER, 201, "id 1"),
        ("blob", "players/in/player-1.json", PLAYER), ("blob", "samples-workitems/note.txt", "text"),
        ("GET", "Exercise5/GetPlayerFromBlob/1", None, 200, "Starlord"), ("GET", "Exercise5/GetPlayerFromBlob/9", None, 404, ""),
        ("GET", "Exercise6/GetPlayerFromBlob/1", None, 200, "Starlord"), ("called", "Exercise7BlobTriggeredFunction")]),
    ("yeongseon+azure-functions-practical-guide", "apps/nodejs", {"QueueStorage": "UseDevelopmentStorage=true", "TIMER_LAB_SCHEDULE": "0 */2 * * * *"}, [
        ("GET", "hello/Ada", None, 200, "Hello, Ada"), ("GET", "health", None, 200, "healthy"), ("GET", "info", None, 200, "name"),
        ("GET", "exceptions/test-error", None, 200, "Handled"), ("GET", "exceptions/unhandled", None, 500, ""),
        ("GET", "requests/log-levels", None, 200, "levels"), ("queue", "work-items", '{"a": 1}'), ("admin", "timerLab", "", 202, ""),
        ("admin", "scheduledCleanup", "", 202, ""), ("POST", "durable/start-replay-lab", {}, 202, "instanceIds"),
        ("called", "queueProcessor"), ("called", "replayStormOrchestrator")]),
]


def main():
    lazuli, folder, cache, logs = sys.argv[1:5]
    failed = False
    for checkout, path, settings, steps in APPS:
        name = checkout + "/" + path
        if sys.argv[5:] and not any(part in name for part in sys.argv[5:]):
            continue
        if not os.path.isdir(os.path.join(folder, checkout)):
            print("%s: no checkout" % name)
            failed = True
            continue
        try:
            failed |= not App(lazuli, os.path.join(folder, checkout, path), name, cache, logs).run(settings, steps)
        except (OSError, subprocess.CalledProcessError, AssertionError) as e:
            print("%s: FAILED: %s" % (name, e))
            failed = True
    sys.exit(failed)


class App:
    def __init__(self, lazuli, source, name, cache, logs):
        self.lazuli, self.name, self.log = lazuli, name, os.path.join(logs, name.replace("/", "+") + ".log")
        self.dir = os.path.join(cache, "apps", name.replace("/", "+"))
        if not os.path.isfile(os.path.join(self.dir, "installed")):
            shutil.rmtree(self.dir, ignore_errors=True)
            shutil.copytree(source, self.dir)
            self.install()
            open(os.path.join(self.dir, "installed"), "w").close()

    def install(self):
        with open(self.log, "w") as log:

            def do(*command):
                subprocess.run(command, cwd=self.dir, stdout=log, stderr=log, check=True)

            if os.path.exists(os.path.join(self.dir, "package.json")):
                do("npm", "install", "--ignore-scripts", "--no-audit", "--no-fund")
                if os.path.exists(os.path.join(self.dir, "tsconfig.json")):
                    do("npm", "run", "build")
            else:
                do(sys.executable, "-m", "venv", ".venv")
                do(".venv/bin/python", "-m", "pip", "install", "--quiet", "-r", "requirements.txt")

    def run(self, settings, steps):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.address = "http://localhost:%d" % s.getsockname()[1]
        runtime = "node" if os.path.exists(os.path.join(self.dir, "package.json")) else "python"
        hub = "h" + "".join(c for c in self.name if c.isalnum())[-30:]
        environ = dict(os.environ, FUNCTIONS_WORKER_RUNTIME=runtime, AzureFunctionsJobHost__extensions__durableTask__hubName=hub, **settings)
        with open(self.log, "a") as log:
            host = subprocess.Popen([self.lazuli, "func", "start", "--port", self.address.rsplit(":", 1)[1]], cwd=self.dir, env=environ, stdout=log, stderr=log)
        try:
            self.until("it listens", lambda: host.poll() is not None or self.ask("GET", "/admin/host/ping")[0] == 200)
            assert host.poll() is None, "it does not start; see " + self.log
            wrong = [w for w in map(self.step, steps) if w]
            print("%s: %s" % (self.name, "; ".join(wrong) or "as expected"))
            for f in json.loads(self.ask("GET", "/admin/lazuli/")[1])["functions"]:
                what = "%d succeeded, %d failed" % (f["succeeded"], f["failed"]) if f["succeeded"] + f["failed"] else "not called"
                print("    %s (%s): %s" % (f["name"], f["trigger"], f.get("error") or what))
            return not wrong
        finally:
            host.terminate()
            host.wait(60)

    def step(self, step):
        """Make a step, and return what is wrong."""
        kind, target = step[:2]
        if kind == "called":
            self.until(target + " is called", lambda: any(f["name"] == target and f["succeeded"] for f in json.loads(self.ask("GET", "/admin/lazuli/")[1])["functions"]))
        elif kind in ("blob", "queue"):
            text = step[2] if isinstance(step[2], str) else json.dumps(step[2])
            top = target.split("/")[0]
            subprocess.run([self.lazuli, kind, "create", top], check=False, capture_output=True)
            command = ["queue", "put", target, text]
            if kind == "blob":
                with open(os.path.join(self.dir, "sent"), "w") as f:
                    f.write(text)
                command = ["blob", "put", f.name, target]
            subprocess.run([self.lazuli, *command], check=True, capture_output=True)
        elif kind == "start":
            return self.workflow(*step[1:])
        else:
            method, path, body = ("POST", "/admin/functions/" + target, {"input": step[2]}) if kind == "admin" else (kind, "/api/" + target, step[2])
            status, text = self.ask(method, path, body)
            if status != step[3] or step[4] not in text:
                return "%s %s: %d %s" % (kind, target, status, text[:200])
        return None

    def workflow(self, path, body, want, output, *events):
        status, text = self.ask("POST", "/api/" + path, body)
        if status != 202:
            return "%s: %d %s" % (path, status, text[:200])
        links, state = json.loads(text), {}

        def ended():
            state.update(json.loads(self.ask("GET", links["statusQueryGetUri"])[1]))
            return state["runtimeStatus"] not in ("Pending", "Running")

        for name, value in events:
            self.ask("POST", links["sendEventPostUri"].replace("{eventName}", name), value)
        self.until(path + " ends", ended)
        if want and state["runtimeStatus"] != want or output not in json.dumps(state["output"]):
            return "%s: %s %s" % (path, state["runtimeStatus"], json.dumps(state["output"])[:200])
        return None

    def ask(self, method, path, body=None):
        url = path if path.startswith("http") else self.address + path
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as e:
            return e.code, e.read().decode()
        except OSError as e:
            return 0, str(e)

    def until(self, what, holds):
        end = time.time() + 120
        while not holds():
            assert time.time() < end, "waited in vain until " + what
            time.sleep(0.2)


main()
