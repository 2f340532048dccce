"""The worker of Python function apps.

It speaks the language-worker protocol with the host that started it, and has the package azure-functions-runtime do the
work: read the app's code, convert values, call functions. For apps of the v1 model, whose functions are folders with a
function.json, that is azure-functions-runtime-v1.
"""

import argparse
import asyncio
import importlib
import importlib.metadata
import logging
import os
import queue
import re
import shutil
import subprocess
import sys
import threading
import types

HERE = os.path.dirname(os.path.abspath(__file__))
MISSING_EXIT = 3


def runtime_package(script_root):
    """Return the package that runs an app: the v2 model has a file in which all functions are declared."""
    script = os.environ.get("PYTHON_SCRIPT_FILE_NAME") or "function_app.py"
    return "azure-functions-runtime" if os.path.exists(os.path.join(script_root, script)) else "azure-functions-runtime-v1"


def require(script_root, package):
    """Import what the worker needs and return the runtime, or say in one sentence what is missing."""
    found, missing = import_all(package)
    own = [name for name in missing if name != "azure-functions"]
    if own and bring(own):
        found, missing = import_all(package)
    if missing:
        say(
            "packages that run the app are missing in Python %d.%d at %s; install them: %s"
            % (*sys.version_info[:2], sys.prefix, install_command(script_root, missing))
        )
    return found


def import_all(package):
    """Import what the worker needs; return the runtime, and the names of the packages that are missing."""
    found, missing = None, []
    for module, name in (
        ("grpc", "grpcio"),
        ("google.protobuf", "protobuf"),
        ("azure.functions", "azure-functions"),
        (package.replace("-", "_"), package),
    ):
        try:
            found = importlib.import_module(module)
        except ModuleNotFoundError as e:
            if e.name and not module.startswith(e.name):
                raise  # The package is there, and something that it needs is not.
            missing.append(name)
    return found, missing


# The packages of the worker itself, which Core Tools bring too. Their versions are fixed, so that a folder that is
# there is never changed.
OWN = ("grpcio", "protobuf")
RUNTIMES = ("azure-functions-runtime==1.3.0", "azure-functions-runtime-v1==1.2.0")


def own_folder():
    """Return the folder of the worker's own packages for this interpreter."""
    cache = os.environ.get("LOCALAPPDATA") if os.name == "nt" else os.environ.get("XDG_CACHE_HOME")
    cache = cache or os.path.join(os.path.expanduser("~"), ".cache")
    tag = "%s-%d.%d-1" % (sys.implementation.name, *sys.version_info[:2])
    return os.path.join(cache, "lazuli", "python-worker", tag)


def bring(names):
    """Have the worker's own packages found, behind those of the app; install them if this was never done before.

    They are installed into a folder of their own: the app's environment stays as it is. Return whether they are there.
    """
    folder = own_folder()
    if not os.path.isdir(folder) and not install_own(folder, names):
        return False
    sys.path.append(folder)
    importlib.invalidate_caches()
    for name in ("google", "azure"):
        # A package over several folders that was imported before has to look into this one too.
        module, path = sys.modules.get(name), os.path.join(folder, name)
        if module is not None and os.path.isdir(path) and path not in module.__path__:
            module.__path__ = list(module.__path__) + [path]
    return True


def install_own(folder, names):
    """Install the worker's own packages, and return whether that succeeded."""
    print("installing %s for the worker, once, into %s" % (", ".join(names), folder), file=sys.stderr, flush=True)
    work = "%s.%d" % (folder, os.getpid())
    try:
        for pip in interpreters():
            common = [pip, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target", work]
            if all(
                subprocess.run(common + more, stdin=subprocess.DEVNULL, timeout=55).returncode == 0
                for more in (list(OWN), ["--no-deps", "--ignore-requires-python", *RUNTIMES])
            ):
                break
        else:
            return False
        os.rename(work, folder)
    except subprocess.TimeoutExpired:
        return False
    except OSError:
        return os.path.isdir(folder)  # Another process was faster.
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return True


def interpreters():
    """Return the interpreters whose pip can install for this one: that of an environment may have none."""
    base = getattr(sys, "_base_executable", sys.executable)
    return [sys.executable] if base == sys.executable else [sys.executable, base]


def install_command(script_root, packages):
    """Return the command that installs packages, in an environment of the app's own if it has none."""
    # In the shell of the user, who is in the app's folder.
    python, make = sys.executable, ""
    if sys.prefix == sys.base_prefix:
        make = "cd %s && %s -m venv .venv && " % (script_root, python)
        python = os.path.join(".venv", "Scripts" if os.name == "nt" else "bin", "python")
    runtimes = [p for p in packages if p.startswith("azure-functions-runtime")]
    if runtimes and sys.version_info < (3, 13):
        # pip refuses them for an older Python, on which they work.
        others = [p for p in packages if p not in runtimes]
        command = "%s -m pip install --ignore-requires-python --no-deps %s" % (python, " ".join(runtimes))
        if others:
            command = "%s -m pip install %s && %s" % (python, " ".join(others), command)
    else:
        command = "%s -m pip install %s" % (python, " ".join(packages))
    return make + command


# Modules whose package has another name, where apps often lack it.
PACKAGES = {"azure.durable_functions": "azure-functions-durable", "azurefunctions": "azurefunctions-extensions-bindings-blob"}


def explained(response):
    """Shorten the account of an app that cannot be read, and say what is to be installed."""
    if not response.result.HasField("exception"):
        return response
    exception, script_root = response.result.exception, os.getcwd()
    noise = re.compile(r"\. Cannot find module\. Please check .*", re.S)
    exception.stack_trace = noise.sub("", exception.stack_trace)
    lines = exception.stack_trace.split("\n")
    own = 'File "' + os.path.join(script_root, "")
    for i, line in enumerate(lines):
        if own in line and "site-packages" not in line:
            end = lines.index("", i) if "" in lines[i:] else len(lines)  # Exceptions that followed say the same.
            exception.stack_trace = "\n".join(lines[i:end])
            break
    missing = re.search(r"No module named '([^']+)'", exception.message)
    if missing is None:
        return response
    name = missing[1]
    package = next((p for module, p in PACKAGES.items() if (name + ".").startswith(module + ".")), None)
    if package is not None:
        advice = "add %s to requirements.txt, and install it: %s" % (package, install_command(script_root, [package]))
    else:
        advice = "is it in requirements.txt and installed: %s -m pip install -r requirements.txt" % sys.executable
    exception.message = "%s; %s" % (noise.sub("", exception.message), advice)
    return response


def say(text):
    """End the process with one sentence for the user."""
    print(text, file=sys.stderr, flush=True)
    sys.exit(MISSING_EXIT)


def make_messages(path):
    """Make the classes of the protocol's messages from their descriptors, with the names that the runtime expects."""
    from google.protobuf import descriptor_pb2, descriptor_pool, duration_pb2, message_factory, timestamp_pb2

    with open(path, "rb") as f:
        own = descriptor_pb2.FileDescriptorProto.FromString(f.read())
    pool = descriptor_pool.DescriptorPool()
    for text in (duration_pb2.DESCRIPTOR.serialized_pb, timestamp_pb2.DESCRIPTOR.serialized_pb, own.SerializeToString()):
        pool.AddSerializedFile(text)
    messages = types.SimpleNamespace()
    for m in own.message_type:
        descriptor = pool.FindMessageTypeByName(own.package + "." + m.name)
        setattr(messages, m.name, message_factory.GetMessageClass(descriptor))
    return messages


class ChangedModule:
    """A loader that calls a function for the module that another loader has run."""

    def __init__(self, own, changed):
        self.own = own
        self.changed = changed

    def create_module(self, spec):
        return self.own.create_module(spec)

    def exec_module(self, module):
        self.own.exec_module(module)
        self.changed(module)

    def __getattr__(self, name):
        return getattr(self.own, name)


class Tracing:
    """Sends the trace of an invocation with the requests that its code makes with Azure's SDKs.

    It is a hook behind azure-core's own policy for traces: that of an app which traces its requests itself stays. The
    entry lazuli of the host's tracestate names the invocation, and is sent in each case. Neither header is signed.
    https://www.w3.org/TR/trace-context/#tracestate-header
    """

    HOOKS = ("azure.core.pipeline.policies._distributed_tracing", "azure.core.tracing.common")

    def __init__(self, worker):
        self.worker = worker
        self.parents = {}  # by invocation: traceparent, tracestate

    # Of the import system: a module is changed when the app imports it, and never imported for that.

    def install(self):
        sys.meta_path.insert(0, self)

    def find_spec(self, name, path=None, target=None):
        if name not in self.HOOKS:
            return None
        others = (f for f in sys.meta_path if f is not self and hasattr(f, "find_spec"))
        spec = next((s for s in (f.find_spec(name, path, target) for f in others) if s), None)
        if spec is None or not hasattr(spec.loader, "exec_module"):
            return spec
        spec.loader = ChangedModule(spec.loader, self.changed)
        return spec

    def changed(self, module):
        try:
            self.change(module)
        except Exception as e:  # Another version of the SDK works as it is.
            logging.getLogger("azure_functions_worker").warning("requests are sent without their trace: %s", e)

    def change(self, module):
        if module.__name__ == self.HOOKS[0]:
            policy = module.DistributedTracingPolicy
            own = policy.on_request

            def on_request(policy, request):
                own(policy, request)
                self.add(request.http_request.headers)

            policy.on_request = on_request
            return
        with_own = module.with_current_context

        def with_current_context(func):
            # The threads in which the SDK moves the parts of a blob.
            func, invocation = with_own(func), self.worker.invocation()

            def run(*args, **kwargs):
                token = self.worker.current.set(invocation)
                try:
                    return func(*args, **kwargs)
                finally:
                    self.worker.current.reset(token)

            return run

        module.with_current_context = with_current_context

    def add(self, headers):
        found = self.parents.get(self.worker.invocation())  # The invocation may end meanwhile, in another thread.
        if found is None:
            return
        parent, state = found
        if "traceparent" not in headers:
            headers["traceparent"] = parent
            if state:
                headers["tracestate"] = state
            return
        own = next((e for e in state.split(",") if e.startswith("lazuli=")), None)
        if own is None:
            return
        given = headers.get("tracestate") or ""
        if own not in given.split(","):
            headers["tracestate"] = own + "," + given if given else own


class Request:
    """A request as azure_functions_runtime takes it."""

    def __init__(self, request, properties):
        self.request = request
        self.properties = properties


class LogHandler(logging.Handler):
    """Sends records to the host, with the invocation that they belong to."""

    LEVELS = ((50, 5), (40, 4), (30, 3), (20, 2), (10, 1), (0, 0))

    def __init__(self, worker):
        super().__init__()
        self.worker = worker

    def emit(self, record):
        first = record.name.split(".")[0]
        system = first.startswith(("azure_functions_runtime", "azure_functions_worker")) or record.name == "azure.functions"
        if system and (self.worker.starting or record.levelno < logging.WARNING):
            return  # The runtime's account of what the host is told in responses, or logs itself.
        try:
            message = self.format(record)
        except Exception:
            self.handleError(record)
            return
        level = next(value for least, value in self.LEVELS if record.levelno >= least)
        p = self.worker.protos
        self.worker.send(
            p.StreamingMessage(
                rpc_log=p.RpcLog(
                    invocation_id=self.worker.invocation() or "",
                    category=record.name,
                    level=level,
                    message=message,
                    log_category=p.RpcLog.System if system else p.RpcLog.User,
                )
            )
        )


class Worker:
    """One stream to the host, and the invocations on it."""

    def __init__(self, options, protos, runtime):
        self.options = options
        self.protos = protos
        self.runtime = runtime
        self.outgoing = queue.SimpleQueue()
        self.loop = None
        self.properties = {"host": options.host, "protos": protos}
        self.running = {}
        self.tracing = Tracing(self)
        self.starting = True
        self.context = importlib.import_module(runtime.__name__ + ".bindings.context")
        self.executor = importlib.import_module(runtime.__name__ + ".utils.executor")

    def send(self, message):
        self.outgoing.put(message)

    def invocation(self):
        """Return the ID of the invocation that the current thread or task works for."""
        found = self.executor.invocation_id_cv.get() or self.current.get()
        return found or getattr(self.context._invocation_id_local, "invocation_id", None)

    def run(self):
        import contextvars

        import grpc

        self.current = contextvars.ContextVar("invocation", default=None)
        self.tracing.install()
        limit = self.options.max_message
        channel = grpc.insecure_channel(
            "%s:%d" % (self.options.host, self.options.port),
            [("grpc.max_send_message_length", limit), ("grpc.max_receive_message_length", limit)],
        )
        p = self.protos
        stream = channel.stream_stream(
            "/AzureFunctionsRpcMessages.FunctionRpc/EventStream",
            request_serializer=p.StreamingMessage.SerializeToString,
            response_deserializer=p.StreamingMessage.FromString,
        )
        self.send(
            p.StreamingMessage(
                request_id=self.options.request_id, start_stream=p.StartStream(worker_id=self.options.worker_id)
            )
        )
        responses = stream(iter(self.outgoing.get, None))
        # Not asyncio.run, at whose end other tasks of the app, such as its HTTP server's, complain.
        asyncio.new_event_loop().run_until_complete(self.serve(responses))
        os._exit(0)  # Threads of functions may run for ever.

    async def serve(self, responses):
        self.loop = asyncio.get_running_loop()
        done = asyncio.Event()

        def receive():
            import grpc

            try:
                for message in responses:
                    self.loop.call_soon_threadsafe(self.dispatch, message, done)
            except grpc.RpcError:
                pass  # The host has ended.
            self.loop.call_soon_threadsafe(done.set)

        threading.Thread(target=receive, daemon=True, name="host").start()
        await done.wait()
        running = list(self.running.values())
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def dispatch(self, message, done):
        kind = message.WhichOneof("content")
        if kind == "worker_terminate":
            done.set()
            return
        handler = getattr(self, "on_" + kind, None) if kind else None
        if handler is None:
            return
        task = self.loop.create_task(self.answer(handler, message, kind))
        if kind == "invocation_request":
            self.running[message.invocation_request.invocation_id] = task

    async def answer(self, handler, message, kind):
        invocation = message.invocation_request.invocation_id if kind == "invocation_request" else None
        self.current.set(invocation)
        if invocation and message.invocation_request.trace_context.trace_parent:
            trace = message.invocation_request.trace_context
            state = trace.trace_state
            if not any(entry.strip().startswith("lazuli=") for entry in state.split(",")):  # of the function's caller
                state = f"lazuli={invocation}" + ("," + state if state else "")
            self.tracing.parents[invocation] = trace.trace_parent, state
        try:
            name, response = await handler(Request(message, self.properties))
            self.send(self.protos.StreamingMessage(request_id=message.request_id, **{name: response}))
        finally:
            self.running.pop(invocation, None)
            self.tracing.parents.pop(invocation, None)

    async def on_worker_init_request(self, request):
        os.environ["AzureWebJobsScriptRoot"] = request.request.worker_init_request.function_app_directory
        # The threads in which functions run that are not coroutines.
        importlib.import_module(self.runtime.__name__ + ".utils.threadpool").start_threadpool_executor()
        response = await self.runtime.worker_init_request(request)
        response.capabilities["HandlesWorkerTerminateMessage"] = "true"  # By dispatch, not by the runtime.
        return "worker_init_response", explained(response)

    async def on_functions_metadata_request(self, request):
        return "function_metadata_response", await self.runtime.functions_metadata_request(request)

    async def on_function_load_request(self, request):
        response = await self.runtime.function_load_request(request)
        return "function_load_response", explained(response)

    async def on_invocation_request(self, request):
        self.starting = False
        return "invocation_response", await self.runtime.invocation_request(request)

    async def on_worker_status_request(self, request):
        return "worker_status_response", self.protos.WorkerStatusResponse()


def debug():
    """Wait for a debugger if one is asked for."""
    port = os.environ.get("LAZULI_DEBUG_PORT")
    if not port:
        return
    try:
        import debugpy
    except ImportError:
        say("the debugger is missing; install it: %s -m pip install debugpy" % sys.executable)
    debugpy.listen(("127.0.0.1", int(port)))
    print("waiting for a debugger (debugpy) at 127.0.0.1:%s" % port, flush=True)
    debugpy.wait_for_client()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--workerId", dest="worker_id", required=True)
    parser.add_argument("--requestId", dest="request_id", required=True)
    parser.add_argument("--grpcMaxMessageLength", dest="max_message", type=int, default=-1)
    options, _ = parser.parse_known_args()

    if sys.version_info < (3, 10):
        say("Python %d.%d at %s is too old: Python 3.10 or newer runs functions" % (*sys.version_info[:2], sys.executable))
    script_root = os.getcwd()
    sys.path[:] = [script_root] + [p for p in sys.path if os.path.abspath(p or ".") != HERE]
    packages = os.path.join(script_root, ".python_packages", "lib", "site-packages")
    if os.path.isdir(packages):
        sys.path.append(packages)
    runtime = require(script_root, runtime_package(script_root))
    debug()
    worker = Worker(options, make_messages(os.path.join(HERE, "functionrpc.binpb")), runtime)
    handler = LogHandler(worker)
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.DEBUG if os.environ.get("PYTHON_ENABLE_DEBUG_LOGGING", "").lower() in ("1", "true") else logging.INFO)
    logging.getLogger("grpc").setLevel(logging.WARNING)
    worker.run()


if __name__ == "__main__":
    main()
