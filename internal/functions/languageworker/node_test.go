package languageworker

import (
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	rpc "github.com/lazuli-storage/lazuli/internal/functions/languageworker/internal/functionrpc"
	"github.com/lazuli-storage/lazuli/internal/test/testlog"
)

// languagesVar names the commands of the languages that may be tested: "python3 node". `go test ./...` is to need
// nothing but Go; .ci/functions sets it.
const languagesVar = "LAZULI_TEST_LANGUAGES"

// host is the host's side of one worker.
type host struct {
	t      *testing.T
	stream grpc.ServerStream
	logs   []*rpc.RpcLog
	stderr testlog.Buffer
	exited chan error
}

// start runs the worker for an app of files by their paths, and waits for its StartStream.
func start(t *testing.T, app map[string]string) (*host, string) {
	t.Helper()
	if !slices.Contains(strings.Fields(os.Getenv(languagesVar)), "node") {
		t.Skip("set " + languagesVar + ` to "node"`)
	}
	dir := t.TempDir()
	for name, text := range app {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	program := t.TempDir()
	if err := writeProgram("node", program); err != nil {
		t.Fatal(err)
	}
	h := &host{t: t, exited: make(chan error, 1)}
	streams := make(chan grpc.ServerStream, 1)
	ctx, cancel := context.WithCancel(context.Background())
	server := grpc.NewServer(grpc.MaxRecvMsgSize(64 << 20))
	server.RegisterService(&grpc.ServiceDesc{ServiceName: "AzureFunctionsRpcMessages.FunctionRpc",
		HandlerType: (*any)(nil),
		Streams: []grpc.StreamDesc{{StreamName: "EventStream", ClientStreams: true, ServerStreams: true,
			Handler: func(_ any, s grpc.ServerStream) error {
				streams <- s
				<-ctx.Done()
				return nil
			}}}}, struct{}{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(l) }()
	cmd := exec.Command("node", filepath.Join(program, "worker.cjs"), "--functions-uri", "http://"+l.Addr().String(),
		"--functions-worker-id", "w1",
		"--functions-request-id", "r1", "--functions-grpc-max-message-length", "2147483647")
	cmd.Stdout, cmd.Stderr = io.Discard, &h.stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { h.exited <- cmd.Wait() }()
	t.Cleanup(func() {
		cancel()
		server.Stop()
		select {
		case <-h.exited:
		case <-time.After(patience):
			t.Error("the worker outlives its host")
			_ = cmd.Process.Kill()
		}
	})
	select {
	case h.stream = <-streams:
	case err := <-h.exited:
		t.Fatalf("the worker ended: %v\n%s", err, &h.stderr)
	case <-time.After(patience):
		t.Fatalf("the worker does not connect\n%s", &h.stderr)
	}
	if m := h.receive(); m.RequestId != "r1" || m.GetStartStream().GetWorkerId() != "w1" {
		t.Fatalf("got %v", m)
	}
	return h, dir
}

const patience = 2 * time.Minute

// receive returns the next message that is no log.
func (h *host) receive() *rpc.StreamingMessage {
	h.t.Helper()
	for {
		var m rpc.StreamingMessage
		if err := h.stream.RecvMsg(&m); err != nil {
			h.t.Fatalf("%v\n%s", err, &h.stderr)
		}
		if log := m.GetRpcLog(); log != nil {
			h.logs = append(h.logs, log)
			continue
		}
		return &m
	}
}

func (h *host) ask(m *rpc.StreamingMessage) *rpc.StreamingMessage {
	h.t.Helper()
	m.RequestId = "q"
	if err := h.stream.SendMsg(m); err != nil {
		h.t.Fatal(err)
	}
	return h.receive()
}

func (h *host) init(dir string) *rpc.WorkerInitResponse {
	h.t.Helper()
	return h.ask(
		&rpc.StreamingMessage{Content: &rpc.StreamingMessage_WorkerInitRequest{WorkerInitRequest: &rpc.WorkerInitRequest{
			HostVersion: "4.0.0", FunctionAppDirectory: dir}}}).GetWorkerInitResponse()
}

func (h *host) metadata(dir string) *rpc.FunctionMetadataResponse {
	h.t.Helper()
	return h.ask(&rpc.StreamingMessage{Content: &rpc.StreamingMessage_FunctionsMetadataRequest{
		FunctionsMetadataRequest: &rpc.FunctionsMetadataRequest{FunctionAppDirectory: dir}}}).GetFunctionMetadataResponse()
}

func (h *host) load(id string, m *rpc.RpcFunctionMetadata) *rpc.FunctionLoadResponse {
	h.t.Helper()
	return h.ask(&rpc.StreamingMessage{Content: &rpc.StreamingMessage_FunctionLoadRequest{
		FunctionLoadRequest: &rpc.FunctionLoadRequest{FunctionId: id, Metadata: m}}}).GetFunctionLoadResponse()
}

func (h *host) invoke(r *rpc.InvocationRequest) *rpc.InvocationResponse {
	h.t.Helper()
	return h.ask(&rpc.StreamingMessage{Content: &rpc.StreamingMessage_InvocationRequest{InvocationRequest: r}}).
		GetInvocationResponse()
}

func text(s string) *rpc.TypedData { return &rpc.TypedData{Data: &rpc.TypedData_String_{String_: s}} }

// model is a programming model as the package @azure/functions brings one: it passes all that it gets to the function,
// and what that returns back.
const model = `
const core = require('@azure/functions-core');
core.setProgrammingModel({
	name: 'test', version: '1',
	getCapabilities: (c) => ({ ...c, Extra: 'yes' }),
	getInvocationModel: (ctx) => ({
		getArguments: async () => ({ context: { ctx }, inputs: ctx.request.inputData.map((i) => i.data) }),
		invokeFunction: async (context, inputs, callback) => callback(...inputs, context),
		getResponse: async (context, result) => result,
	}),
});
`

func TestIndexedApp(t *testing.T) {
	h, dir := start(t, map[string]string{
		"package.json": `{"main": "src/{setup.js,functions/*.js}"}`,
		"src/setup.js": model + `
core.registerHook('appStart', (c) => { c.hookData.began = c.functionAppDirectory; });
core.registerHook('preInvocation', (c) => {
	try { c.hookData = {}; } catch (err) { c.invocationContext.ctx.log('warning', 'user', err.message); }
	c.inputs.push({ string: 'pushed' });
	const inner = c.functionCallback;
	c.functionCallback = (...args) => inner(...args);
});
core.registerHook('preInvocation', () => { throw new Error('was disposed of'); }).dispose();
core.registerHook('postInvocation', (c) => { c.result?.outputData.push({ name: 'hook', data: { int: -3 } }); });
`,
		"src/functions/b.js": `
const core = require('@azure/functions-core');
core.registerFunction({ name: 'Echo', bindings: { item: { type: 'queueTrigger', direction: 'in', queueName: 'q' } },
	retryOptions: { retryStrategy: 'fixedDelay', maxRetryCount: 5, delayInterval: { seconds: 2 } } },
	async (item, pushed, context) => {
		context.ctx.log('information', 'user', 'called with ' + item.string + ' and ' + pushed.string);
		if (item.string === 'fail') { throw new TypeError('it failed'); }
		return { outputData: [
			{ name: 'json', data: { json: JSON.stringify(Object.entries(context.ctx.request.triggerMetadata).sort()) } },
			{ name: 'bytes', data: { bytes: Buffer.from([0, 255]) } },
			{ name: 'double', data: { double: 1.5 } },
			{ name: 'big', data: { int: Number.MIN_SAFE_INTEGER } },
			{ name: 'list', data: { collectionSint64: { sint64: [1, -1] } } },
			{ name: 'http', data: { http: { statusCode: '201', headers: { a: 'b' },
				cookies: [{ name: 'c', value: 'v', sameSite: 'explicitNone', maxAge: { value: 0 } }] } } },
		], returnValue: { string: 'x'.repeat(5 << 20) } };
	});
`,
		"src/functions/.hidden.js": "throw new Error('is loaded');",
		"src/other.js":             "throw new Error('is loaded');",
	})
	if r := h.init(dir); r.Result.GetStatus() != rpc.StatusResult_Success || r.Capabilities["Extra"] != "yes" ||
		r.Capabilities["RpcHttpBodyOnly"] != "true" || r.WorkerMetadata.RuntimeName != "node" {
		t.Fatalf("got %v", r)
	}
	m := h.metadata(dir)
	if len(m.FunctionMetadataResults) != 1 || m.UseDefaultMetadataIndexing {
		t.Fatalf("got %v", m)
	}
	f := m.FunctionMetadataResults[0]
	if f.Name != "Echo" || f.FunctionId != "Echo" || f.ScriptFile != "b.js" ||
		f.Directory != filepath.Join(dir, "src/functions") ||
		len(f.RawBindings) != 1 || !strings.Contains(f.RawBindings[0], `"queueName":"q"`) ||
		!strings.Contains(f.RawBindings[0], `"name":"item"`) || f.RetryOptions.MaxRetryCount != 5 ||
		f.RetryOptions.DelayInterval.Seconds != 2 ||
		f.RetryOptions.RetryStrategy != rpc.RpcRetryOptions_fixed_delay {
		t.Fatalf("got %v", f)
	}
	if r := h.load(f.FunctionId, f); r.Result.GetStatus() != rpc.StatusResult_Success || r.FunctionId != "Echo" {
		t.Fatalf("got %v", r)
	}
	call := &rpc.InvocationRequest{InvocationId: "i1", FunctionId: "Echo",
		InputData:       []*rpc.ParameterBinding{{Name: "item", RpcData: &rpc.ParameterBinding_Data{Data: text("an item")}}},
		TriggerMetadata: map[string]*rpc.TypedData{"Id": text("7"), "__proto__": text("a key")}}
	r := h.invoke(call)
	if r.Result.GetStatus() != rpc.StatusResult_Success || r.InvocationId != "i1" {
		t.Fatalf("got %v", r.Result)
	}
	if len(r.ReturnValue.GetString_()) != 5<<20 {
		t.Errorf("the return value has %d bytes", len(r.ReturnValue.GetString_()))
	}
	got := map[string]string{}
	for _, o := range r.OutputData {
		got[o.Name] = o.GetData().String()
	}
	for name, want := range map[string]*rpc.TypedData{
		"json":   {Data: &rpc.TypedData_Json{Json: `[["Id",{"string":"7"}],["__proto__",{"string":"a key"}]]`}},
		"bytes":  {Data: &rpc.TypedData_Bytes{Bytes: []byte{0, 255}}},
		"double": {Data: &rpc.TypedData_Double{Double: 1.5}},
		"big":    {Data: &rpc.TypedData_Int{Int: -(1<<53 - 1)}},
		"list": {Data: &rpc.TypedData_CollectionSint64{CollectionSint64: &rpc.CollectionSInt64{Sint64: []int64{1,
			-1}}}},
		"hook": {Data: &rpc.TypedData_Int{Int: -3}},
	} {
		if got[name] != want.String() {
			t.Errorf("%s: got %s, want %s", name, got[name], want)
		}
	}
	i := slices.IndexFunc(r.OutputData, func(o *rpc.ParameterBinding) bool { return o.Name == "http" })
	answer := r.OutputData[i].GetData().GetHttp()
	if answer.StatusCode != "201" || answer.Headers["a"] != "b" || len(answer.Cookies) != 1 ||
		answer.Cookies[0].SameSite != rpc.RpcHttpCookie_ExplicitNone || answer.Cookies[0].MaxAge == nil {
		t.Errorf("got %v", answer)
	}
	wants := []string{"called with an item and pushed", "Cannot assign to read only property 'hookData'"}
	for _, want := range wants {
		if !slices.ContainsFunc(h.logs, func(l *rpc.RpcLog) bool {
			return l.Message == want && l.InvocationId == "i1" && l.LogCategory == rpc.RpcLog_User
		}) {
			t.Errorf("no log %q", want)
		}
	}

	call.InputData[0].RpcData = &rpc.ParameterBinding_Data{Data: text("fail")}
	if r := h.invoke(call); r.Result.GetStatus() != rpc.StatusResult_Failure || r.InvocationId != "i1" ||
		r.Result.Exception.GetMessage() != "it failed" || !strings.Contains(r.Result.Exception.StackTrace, "b.js") {
		t.Errorf("got %v", r)
	}
	call.FunctionId = "Other"
	if r := h.invoke(call); r.Result.GetStatus() != rpc.StatusResult_Failure {
		t.Errorf("got %v", r)
	}
}

func TestModules(t *testing.T) {
	function := "registerFunction({ name: NAME, bindings: { t: { type: 'timerTrigger', direction: 'in' } } }, () => {});"
	h, dir := start(t, map[string]string{
		"package.json": `{"type": "module", "main": "dist"}`,
		"dist/a.js": "import { createRequire } from 'node:module';\n" +
			"const core = createRequire(import.meta.url)('@azure/functions-core');\n" +
			"await Promise.resolve();\ncore." + strings.ReplaceAll(function, "NAME", "'ByImport'"),
		"dist/deep/b.cjs": "require('@azure/functions-core')." + strings.ReplaceAll(function, "NAME", "'ByRequire'"),
	})
	h.init(dir)
	m := h.metadata(dir)
	var names []string
	for _, f := range m.FunctionMetadataResults {
		names = append(names, f.Name)
	}
	slices.Sort(names)
	if !slices.Equal(names, []string{"ByImport", "ByRequire"}) {
		t.Fatalf("got %v, %v", names, m.Result)
	}
}

// What is missing is said with the command that brings it.
func TestMissing(t *testing.T) {
	for name, c := range map[string]struct {
		app  map[string]string
		want string
	}{
		"package": {map[string]string{"package.json": `{"main": "a.js", "dependencies": {"@azure/functions": "^4.0.0"}}`,
			"a.js": "require('@azure/functions/sub');"}, "@azure/functions is not installed: run `npm install` in "},
		"package of a module": {map[string]string{
			"package.json": `{"main": "a.mjs", "dependencies": {"@azure/functions": "^4.0.0"}}`,
			"a.mjs":        "import '@azure/functions';"}, "@azure/functions is not installed: run `npm install` in "},
		"unlisted package": {map[string]string{"package.json": `{"main": "a.js"}`, "a.js": "require('left-pad');"},
			"run `npm install left-pad` in "},
		"build": {map[string]string{"package.json": `{"main": "dist/*.js", "scripts": {"build": "tsc"}}`,
			"tsconfig.json": "{}"}, "the TypeScript is not built: run `npm run build` in "},
		"file": {map[string]string{"package.json": `{"main": "index.js"}`}, `"index.js": File does not exist`},
		"syntax": {map[string]string{"package.json": `{"main": "a.js"}`, "a.js": "return ("},
			`"a.js": Unexpected end of input`},
		"twice": {map[string]string{"package.json": `{"main": "a.js"}`,
			"a.js": "const c = require('@azure/functions-core');" +
				"for (let i = 0; i < 2; i++) { c.registerFunction({ name: 'A', bindings: {} }, () => {}); }"},
			`A function with id "A" has already been registered.`},
	} {
		t.Run(name, func(t *testing.T) {
			h, dir := start(t, c.app)
			if r := h.init(dir); r.Result.GetStatus() != rpc.StatusResult_Success {
				t.Fatalf("the worker itself works, got %v", r.Result)
			}
			load := h.load("f", &rpc.RpcFunctionMetadata{Name: "f"})
			for _, r := range []*rpc.StatusResult{h.metadata(dir).Result, load.Result} {
				if r.GetStatus() != rpc.StatusResult_Failure || !strings.Contains(r.Exception.GetMessage(), c.want) {
					t.Errorf("got %v", r)
				}
			}
		})
	}
}

func TestTerminate(t *testing.T) {
	h, dir := start(t, map[string]string{"package.json": `{"main": "a.js"}`,
		"a.js": `require('@azure/functions-core').registerHook('appTerminate', () => {
			require('node:fs').writeFileSync(__dirname + '/ended', ''); });`})
	h.init(dir)
	if err := h.stream.SendMsg(&rpc.StreamingMessage{Content: &rpc.StreamingMessage_WorkerTerminate{
		WorkerTerminate: &rpc.WorkerTerminate{}}}); err != nil {
		t.Fatal(err)
	}
	if err := <-h.exited; err != nil {
		t.Error(err)
	}
	h.exited <- nil
	if _, err := os.Stat(filepath.Join(dir, "ended")); err != nil {
		t.Error(err)
	}
}
