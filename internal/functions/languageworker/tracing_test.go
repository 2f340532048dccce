package languageworker

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rpc "github.com/lazuli-storage/lazuli/internal/functions/languageworker/internal/functionrpc"
)

// A trace as a host sends it.
const (
	testTrace  = "0af7651916cd43dd8448eb211c80319c"
	testParent = "00-" + testTrace + "-b7ad6b7169203331-00"
)

// sent collects the trace of requests, by their path.
func sent(t *testing.T) (address string, list func() []string) {
	t.Helper()
	got := make(chan string, 20)
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got <- fmt.Sprintf("%s %s %s", r.URL.Path, r.Header.Get("Traceparent"), r.Header.Get("Tracestate"))
	}))
	t.Cleanup(s.Close)
	return s.URL, func() (all []string) {
		for len(got) > 0 {
			all = append(all, <-got)
		}
		slices.Sort(all)
		return all
	}
}

// Requests of Azure's SDKs in Node.js carry the trace of the invocation that they are sent in, also after a wait and in
// modules; a trace of the app's own stays, and other requests are as they were.
func TestTraceOfNode(t *testing.T) {
	address, list := sent(t)
	t.Setenv("TRACED", address)
	h, dir := start(t, map[string]string{
		"package.json": `{"type": "module", "main": "a.mjs"}`,
		"a.mjs": `import { createRequire } from 'node:module';
			import * as http from 'node:http';
			const core = createRequire(import.meta.url)('@azure/functions-core');
			const send = (path, headers, whole) => new Promise((done, fail) => {
				const to = new URL(path, process.env.TRACED);
				const sdk = { 'x-ms-client-request-id': 'c', ...headers };
				const r = whole ? http.request(to, { headers: sdk }, done) : http.request({ hostname: to.hostname,
					port: to.port, path, headers: headers.plain ? headers : sdk }, done);
				r.on('error', fail);
				r.end();
			});
			core.setProgrammingModel({ name: 'own', version: '1', getInvocationModel: () => ({
				getArguments: () => ({ context: {}, inputs: [] }),
				invokeFunction: (context, inputs, call) => call(),
				getResponse: () => ({}),
			}) });
			core.registerFunction({ name: 'F', bindings: { t: { type: 'timerTrigger', direction: 'in' } } }, async () => {
				await send('/a', {});
				await new Promise((done) => setImmediate(done));
				await send('/b', { Traceparent: 'own', TraceState: 'a=b' }, true);
				await send('/c', { plain: '1' });
			});
			await send('/outside', {});`})
	h.init(dir)
	id := h.metadata(dir).FunctionMetadataResults[0].FunctionId
	if r := h.invoke(&rpc.InvocationRequest{InvocationId: "i1", FunctionId: id,
		TraceContext: &rpc.RpcTraceContext{TraceParent: testParent, TraceState: "lazuli=i1/m1,x=y"}}); r.Result.GetStatus() !=
		rpc.StatusResult_Success {
		t.Fatalf("got %v", r)
	}
	want := []string{"/a " + testParent + " lazuli=i1/m1,x=y", "/b own lazuli=i1/m1,a=b", "/c  ", "/outside  "}
	if got := list(); !slices.Equal(got, want) {
		t.Errorf("got\n%s, want\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	// The tracestate of the caller of an HTTP function gets the entry here.
	if r := h.invoke(&rpc.InvocationRequest{InvocationId: "i2", FunctionId: id,
		TraceContext: &rpc.RpcTraceContext{TraceParent: testParent, TraceState: "x=y"}}); r.Result.GetStatus() !=
		rpc.StatusResult_Success {
		t.Fatalf("got %v", r)
	}
	want = []string{"/a " + testParent + " lazuli=i2,x=y", "/b own lazuli=i2,a=b", "/c  "}
	if got := list(); !slices.Equal(got, want) {
		t.Errorf("got\n%s, want\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Requests of Azure's SDKs in Python carry the trace of the invocation, also from the threads of the SDK; a trace of
// the app's own stays. The SDK is one of the same form, so that the test needs no packages.
func TestTraceOfPython(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil || exec.Command(python, "-c", "import sys; sys.exit(sys.version_info < (3, 10))").Run() != nil {
		t.Skip("there is no Python 3.10")
	}
	program, dir := t.TempDir(), t.TempDir()
	if err := writeProgram("python", program); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"azure/core/pipeline/policies/_distributed_tracing.py": `class DistributedTracingPolicy:
    def on_request(self, request):
        request.http_request.headers.update(request.own)
`,
		"azure/core/tracing/common.py": "def with_current_context(func):\n    return func\n",
		"test.py": `import contextvars, sys, threading, types
sys.path.insert(0, sys.argv[1])
import worker
class Fake:
    current = contextvars.ContextVar("invocation", default=None)
    def invocation(self):
        return self.current.get()
fake = Fake()
tracing = worker.Tracing(fake)
tracing.install()
from azure.core.pipeline.policies._distributed_tracing import DistributedTracingPolicy
from azure.core.tracing.common import with_current_context
def send(own={}):
    headers = {}
    http_request = types.SimpleNamespace(headers=headers)
    DistributedTracingPolicy().on_request(types.SimpleNamespace(http_request=http_request, own=own))
    print(headers.get("traceparent"), headers.get("tracestate"))
send()
tracing.parents["i1"] = "parent", "lazuli=i1/m1,a=b"
fake.current.set("i1")
send()
send({"traceparent": "own", "tracestate": "c=d"})
for work in (send, with_current_context(send)):
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
`} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(python, filepath.Join(dir, "test.py"), program)
	cmd.Env = append(os.Environ(), "PYTHONPATH="+dir, "PYTHONDONTWRITEBYTECODE=1")
	out, err := cmd.CombinedOutput()
	want := "None None\nparent lazuli=i1/m1,a=b\nown lazuli=i1/m1,c=d\nNone None\nparent lazuli=i1/m1,a=b\n"
	if err != nil || string(out) != want {
		t.Errorf("%v: %s; want %s", err, out, want)
	}
}
