package languageworker

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/lazuli-storage/lazuli/functions"
	rpc "github.com/lazuli-storage/lazuli/internal/functions/languageworker/internal/functionrpc"
	"github.com/lazuli-storage/lazuli/internal/test/testlog"
	"github.com/lazuli-storage/lazuli/lazulitest"
	"github.com/lazuli-storage/lazuli/workers"
)

// role is the environment variable that makes this test's binary a worker or a host, so that tests have processes to
// kill. Its value is that word, and then what is special about the worker, or the folder of the host's app.
const role = "LANGUAGEWORKER_TEST_ROLE"

func TestMain(m *testing.M) {
	switch kind, special, _ := strings.Cut(os.Getenv(role), " "); kind {
	case "worker":
		runTestWorker(strings.Fields(special))
	case "host":
		runTestHost(special)
	default:
		goleak.VerifyTestMain(m)
	}
}

const queueBinding = `{"type": "queueTrigger", "direction": "IN", "name": "item", "queueName": "%s", "connection": "AzureWebJobsStorage"}`

// testFunctions are the functions of the test worker, by name: their bindings.
var testFunctions = map[string][]string{
	"copy": {fmt.Sprintf(queueBinding, "in-queue"),
		`{"type": "queue", "direction": "OUT", "name": "$return", "queueName": "out-queue", "connection": "AzureWebJobsStorage"}`},
	"dieonce": {fmt.Sprintf(queueBinding, "die-queue"),
		`{"type": "queue", "direction": "OUT", "name": "out", "queueName": "out-queue", "connection": "AzureWebJobsStorage"}`},
	"hang": {fmt.Sprintf(queueBinding, "hang-queue"),
		`{"type": "queue", "direction": "OUT", "name": "out", "queueName": "out-queue", "connection": "AzureWebJobsStorage"}`},
	"dies": {fmt.Sprintf(queueBinding, "dies-queue")},
	"mixed": {fmt.Sprintf(queueBinding, "mixed-queue"),
		`{"type": "queue", "direction": "OUT", "name": "$return", "queueName": "mixed-out", "connection": "AzureWebJobsStorage"}`},
	"echo": {`{"type": "httpTrigger", "direction": "IN", "name": "req", "authLevel": "ANONYMOUS", "route": "echo/{id}"}`,
		`{"type": "http", "direction": "OUT", "name": "$return"}`},
	"pid": {`{"type": "httpTrigger", "direction": "IN", "name": "req", "authLevel": "ANONYMOUS"}`,
		`{"type": "http", "direction": "OUT", "name": "$return"}`},
	"client": {`{"type": "httpTrigger", "direction": "IN", "name": "req", "authLevel": "ANONYMOUS", "route": "client/{name}"}`,
		`{"type": "blob", "direction": "IN", "name": "item", "path": "blobs/{name}", "connection": "AzureWebJobsStorage", "properties": {"supportsDeferredBinding": true}}`,
		`{"type": "http", "direction": "OUT", "name": "$return"}`},
	"container": {`{"type": "httpTrigger", "direction": "IN", "name": "req", "authLevel": "ANONYMOUS", "route": "client"}`,
		`{"type": "blob", "direction": "IN", "name": "item", "path": "blobs", "connection": "AzureWebJobsStorage", "properties": {"supportsDeferredBinding": true}}`,
		`{"type": "http", "direction": "OUT", "name": "$return"}`},
	"throws": {`{"type": "httpTrigger", "direction": "IN", "name": "req", "authLevel": "ANONYMOUS"}`,
		`{"type": "http", "direction": "OUT", "name": "$return"}`},
	"breaks": {`{"type": "httpTrigger", "direction": "IN", "name": "req", "authLevel": "ANONYMOUS"}`,
		`{"type": "http", "direction": "OUT", "name": "$return"}`},
	"leaves": {`{"type": "httpTrigger", "direction": "IN", "name": "req", "authLevel": "ANONYMOUS"}`,
		`{"type": "http", "direction": "OUT", "name": "$return"}`},
	"waits": {`{"type": "httpTrigger", "direction": "IN", "name": "req", "authLevel": "ANONYMOUS"}`,
		`{"type": "http", "direction": "OUT", "name": "$return"}`},
	"again": {fmt.Sprintf(queueBinding, "again-queue"),
		`{"type": "queue", "direction": "OUT", "name": "out", "queueName": "out-queue", "connection": "AzureWebJobsStorage"}`},
	"flaky": {`{"type": "httpTrigger", "direction": "IN", "name": "req", "authLevel": "ANONYMOUS"}`,
		`{"type": "http", "direction": "OUT", "name": "$return"}`},
}

// testWorker is a worker of its own, written against the protocol's description in the package's comment.
type testWorker struct {
	special []string
	stream  grpc.ClientStream
	// directory is the worker's own folder, as the host says.
	directory string
	mu        sync.Mutex
	http      map[string]chan http.ResponseWriter // requests to the worker's own server, by invocation
	cancels   map[string]bool                     // invocations that the host has cancelled
}

func (w *testWorker) is(what string) bool {
	for _, s := range w.special {
		if s == what {
			return true
		}
	}
	return false
}

func (w *testWorker) send(m *rpc.StreamingMessage) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.stream.SendMsg(m); err != nil {
		os.Exit(0)
	}
}

func runTestWorker(special []string) {
	flags := flag.NewFlagSet("worker", flag.ContinueOnError)
	host, port := flags.String("host", "", ""), flags.String("port", "", "")
	id, request := flags.String("workerId", "", ""), flags.String("requestId", "", "")
	flags.Int("grpcMaxMessageLength", 0, "")
	flags.String("functions-uri", "", "")
	flags.String("functions-worker-id", "", "")
	flags.String("functions-request-id", "", "")
	flags.Int("functions-grpc-max-message-length", 0, "")
	if err := flags.Parse(os.Args[1:]); err != nil {
		panic(err)
	}
	w := &testWorker{special: special, http: map[string]chan http.ResponseWriter{}, cancels: map[string]bool{}}
	if w.is("exits") {
		fmt.Println("cannot go on")
		os.Exit(3)
	}
	conn, err := grpc.NewClient(net.JoinHostPort(*host, *port), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		panic(err)
	}
	w.stream, err = conn.NewStream(context.Background(), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true},
		"/AzureFunctionsRpcMessages.FunctionRpc/EventStream")
	if err != nil {
		panic(err)
	}
	w.send(&rpc.StreamingMessage{RequestId: *request,
		Content: &rpc.StreamingMessage_StartStream{StartStream: &rpc.StartStream{WorkerId: *id}}})
	for {
		m := &rpc.StreamingMessage{}
		if err := w.stream.RecvMsg(m); err != nil {
			return
		}
		w.handle(m)
	}
}

var success = &rpc.StatusResult{Status: rpc.StatusResult_Success}

// refuse ends the process for a message that the worker for Java has no handler for: that one's stream breaks.
// https://github.com/Azure/azure-functions-java-worker (JavaWorkerClient.addHandlers)
func (w *testWorker) refuse(m *rpc.StreamingMessage) {
	switch m.Content.(type) {
	case *rpc.StreamingMessage_WorkerInitRequest, *rpc.StreamingMessage_FunctionLoadRequest,
		*rpc.StreamingMessage_InvocationRequest, *rpc.StreamingMessage_WorkerStatusRequest,
		*rpc.StreamingMessage_WorkerTerminate:
	default:
		fmt.Printf("no handler for %T\n", m.Content)
		os.Exit(9)
	}
}

func (w *testWorker) handle(m *rpc.StreamingMessage) {
	answer := &rpc.StreamingMessage{RequestId: m.RequestId}
	if w.is("java") {
		w.refuse(m)
	}
	switch {
	case m.GetWorkerInitRequest() != nil:
		w.directory = m.GetWorkerInitRequest().GetWorkerDirectory()
		hello := &rpc.WorkerInitResponse{Result: success, Capabilities: map[string]string{"RawHttpBodyBytes": "true",
			"RpcHttpBodyOnly": "true", "HandlesInvocationCancelMessage": "true", "HandlesWorkerTerminateMessage": "true"}}
		if w.is("java") {
			hello.Capabilities = map[string]string{"TypedDataCollection": "true", "WorkerStatus": "true",
				"RpcHttpBodyOnly": "true", "RpcHttpTriggerMetadataRemoved": "true", "HandlesWorkerTerminateMessage": "true",
				"HandlesWorkerWarmupMessage": "true"}
		}
		if w.is("fails") {
			hello.Result = &rpc.StatusResult{Status: rpc.StatusResult_Failure,
				Exception: &rpc.RpcException{Message: "SyntaxError: invalid syntax", StackTrace: "line 7"}}
		}
		if w.is("http") {
			hello.Capabilities["HttpUri"] = w.listen()
		}
		if w.is("status") || w.is("mute") {
			hello.Capabilities["WorkerStatus"] = "true"
		}
		if w.is("collection") {
			hello.Capabilities["SupportsLoadResponseCollection"] = "true"
		}
		answer.Content = &rpc.StreamingMessage_WorkerInitResponse{WorkerInitResponse: hello}
	case m.GetInvocationCancel() != nil:
		w.mu.Lock()
		w.cancels[m.GetInvocationCancel().InvocationId] = true
		w.mu.Unlock()
		return
	case m.GetWorkerStatusRequest() != nil && (w.is("status") || w.is("java")):
		answer.Content = &rpc.StreamingMessage_WorkerStatusResponse{WorkerStatusResponse: &rpc.WorkerStatusResponse{}}
	case m.GetFunctionsMetadataRequest() != nil:
		found := &rpc.FunctionMetadataResponse{Result: success, UseDefaultMetadataIndexing: w.is("files")}
		for name, bindings := range testFunctions {
			f := &rpc.RpcFunctionMetadata{Name: name, FunctionId: fmt.Sprint("id of ", name, os.Getpid()),
				RawBindings: bindings}
			if name == "flaky" || name == "again" {
				f.RetryOptions = &rpc.RpcRetryOptions{MaxRetryCount: 2, RetryStrategy: rpc.RpcRetryOptions_fixed_delay}
			}
			if !w.is("files") {
				found.FunctionMetadataResults = append(found.FunctionMetadataResults, f)
			}
		}
		if w.is("foreign") {
			found.FunctionMetadataResults = append(found.FunctionMetadataResults, &rpc.RpcFunctionMetadata{Name: "bus",
				RawBindings: []string{`{"type": "serviceBusTrigger", "direction": "IN", "name": "letter", "queueName": "q"}`}})
		}
		answer.Content = &rpc.StreamingMessage_FunctionMetadataResponse{FunctionMetadataResponse: found}
	case m.GetFunctionLoadRequest() != nil:
		answer.Content = &rpc.StreamingMessage_FunctionLoadResponse{FunctionLoadResponse: w.load(m.GetFunctionLoadRequest())}
	case m.GetFunctionLoadRequestCollection() != nil:
		all := &rpc.FunctionLoadResponseCollection{}
		for _, r := range m.GetFunctionLoadRequestCollection().GetFunctionLoadRequests() {
			all.FunctionLoadResponses = append(all.FunctionLoadResponses, w.load(r))
		}
		answer.Content = &rpc.StreamingMessage_FunctionLoadResponseCollection{FunctionLoadResponseCollection: all}
	case m.GetInvocationRequest() != nil:
		go func() {
			r := m.GetInvocationRequest()
			response := w.invoke(r)
			response.InvocationId = r.InvocationId
			answer.Content = &rpc.StreamingMessage_InvocationResponse{InvocationResponse: response}
			w.send(answer)
		}()
		return
	default:
		return
	}
	w.send(answer)
}

// loaded are the names of functions by their IDs, and scripts their files and entry points. released is closed by the
// function release.
var (
	loaded, scripts sync.Map
	released        = make(chan struct{})
)

func (w *testWorker) load(r *rpc.FunctionLoadRequest) *rpc.FunctionLoadResponse {
	loaded.Store(r.FunctionId, r.GetMetadata().GetName())
	scripts.Store(r.FunctionId, r.GetMetadata().GetScriptFile()+" "+r.GetMetadata().GetEntryPoint())
	response := &rpc.FunctionLoadResponse{FunctionId: r.FunctionId, Result: success}
	if w.is("unloadable") && r.GetMetadata().GetName() == "pid" {
		response.Result = &rpc.StatusResult{Status: rpc.StatusResult_Failure,
			Exception: &rpc.RpcException{Message: "no such module"}}
	}
	return response
}

// listen starts the worker's own HTTP server: it holds requests until the invocation comes.
func (w *testWorker) listen() string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go func() {
		panic(http.Serve(l, http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			id := r.Header.Get("X-Ms-Invocation-Id")
			done := make(chan bool)
			w.request(id) <- testResponse{out, done, string(body), r.Context().Done()}
			<-done
		})))
	}()
	return "http://" + l.Addr().String()
}

// testResponse writes the response of a request to the worker's own server.
type testResponse struct {
	http.ResponseWriter
	done chan bool
	body string
	gone <-chan struct{}
}

// cancelled reports whether the host has cancelled an invocation.
func (w *testWorker) cancelled(id string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cancels[id]
}

func (w *testWorker) request(id string) chan http.ResponseWriter {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.http[id] == nil {
		w.http[id] = make(chan http.ResponseWriter, 1)
	}
	return w.http[id]
}

func failure(message string) *rpc.InvocationResponse {
	return &rpc.InvocationResponse{Result: &rpc.StatusResult{Status: rpc.StatusResult_Failure,
		Exception: &rpc.RpcException{Message: message, StackTrace: "at line 1"}}}
}

// invoke does what the function's name says.
func (w *testWorker) invoke(r *rpc.InvocationRequest) *rpc.InvocationResponse {
	name, _ := loaded.Load(r.FunctionId)
	inputs := map[string]*rpc.TypedData{}
	for _, p := range r.InputData {
		inputs[p.Name] = p.GetData()
	}
	item := inputs["item"].GetString_()
	first := r.TriggerMetadata["DequeueCount"].GetJson() == "1"
	response := &rpc.InvocationResponse{Result: success}
	out := &rpc.ParameterBinding{Name: "out", RpcData: &rpc.ParameterBinding_Data{Data: text(item)}}
	w.send(&rpc.StreamingMessage{Content: &rpc.StreamingMessage_RpcLog{RpcLog: &rpc.RpcLog{
		InvocationId: r.InvocationId, Level: rpc.RpcLog_Warning, Message: fmt.Sprint("a word from ", name)}}})
	w.send(&rpc.StreamingMessage{Content: &rpc.StreamingMessage_RpcLog{RpcLog: &rpc.RpcLog{
		InvocationId: r.InvocationId, Level: rpc.RpcLog_Debug, Message: fmt.Sprint("a detail of ", name)}}})
	switch name {
	case "copy":
		response.ReturnValue = text(item)
	case "dies":
		os.Exit(7)
	case "mixed":
		return mixed(item, r.TriggerMetadata["DequeueCount"].GetJson())
	case "dieonce":
		if first {
			os.Exit(7)
		}
		response.OutputData = append(response.OutputData, out)
	case "hang":
		if first {
			select {}
		}
		response.OutputData = append(response.OutputData, out)
	case "client", "container":
		m := inputs["item"].GetModelBindingData()
		response.ReturnValue = text(m.GetVersion() + " " + m.GetSource() + " " + string(m.GetContent()))
	case "throws", "breaks", "leaves":
		request := (<-w.request(r.InvocationId)).(testResponse)
		if name != "throws" {
			_, _ = io.WriteString(request, "a part")
			_ = http.NewResponseController(request.ResponseWriter).Flush() // Without a length.
		}
		if name != "leaves" { // As Node.js leaves a response open whose stream has failed.
			close(request.done)
		}
		return failure("thrown")
	case "waits":
		say := func(text string) {
			w.send(&rpc.StreamingMessage{Content: &rpc.StreamingMessage_RpcLog{RpcLog: &rpc.RpcLog{
				InvocationId: r.InvocationId, Level: rpc.RpcLog_Warning, Message: text}}})
		}
		if w.is("http") {
			request := (<-w.request(r.InvocationId)).(testResponse)
			say("waits for the end")
			<-request.gone
			close(request.done)
		} else {
			say("waits for the end")
		}
		for !w.cancelled(r.InvocationId) {
			runtime.Gosched()
		}
		say("the client has gone")
	case "again":
		if r.GetRetryContext().GetRetryCount() < 2 {
			return failure("not yet")
		}
		out.GetData().Data = &rpc.TypedData_String_{
			String_: fmt.Sprint(item, " ", r.TriggerMetadata["DequeueCount"].GetJson())}
		response.OutputData = append(response.OutputData, out)
	case "facts":
		script, _ := scripts.Load(r.FunctionId)
		h := inputs["req"].GetHttp()
		response.ReturnValue = text(fmt.Sprintf("%T %t %d %s\n%s\n%s", h.GetBody().GetData(), h.GetRawBody() != nil,
			len(h.GetNullableHeaders())+len(h.GetNullableQuery())+len(h.GetNullableParams()),
			h.GetHeaders()["x-in"]+h.GetQuery()["q"]+h.GetParams()["id"], w.directory, script))
	case "late":
		w.send(&rpc.StreamingMessage{Content: &rpc.StreamingMessage_RpcLog{RpcLog: &rpc.RpcLog{
			InvocationId: r.InvocationId, Level: rpc.RpcLog_Warning, Message: "waits for the release"}}})
		<-released
	case "release":
		close(released)
	case "pid":
		response.ReturnValue = text(fmt.Sprint(os.Getpid()))
	case "flaky":
		if r.GetRetryContext().GetRetryCount() < 2 {
			return failure(fmt.Sprint("attempt ", r.GetRetryContext().GetRetryCount()))
		}
		response.ReturnValue = text(r.GetRetryContext().GetException().GetMessage())
	case "echo":
		if w.is("http") {
			request := (<-w.request(r.InvocationId)).(testResponse)
			request.Header().Set("X-Streamed", "yes")
			_, _ = io.WriteString(request, "streamed "+request.body+" "+inputs["req"].GetHttp().GetParams()["id"])
			close(request.done)
			return response
		}
		h := inputs["req"].GetHttp()
		response.ReturnValue = &rpc.TypedData{Data: &rpc.TypedData_Http{Http: &rpc.RpcHttp{StatusCode: "201",
			Headers: map[string]string{"X-Path": h.GetUrl(), "X-Id": h.GetParams()["id"], "X-Q": h.GetQuery()["q"],
				"X-In": h.GetHeaders()["x-in"]},
			Cookies: []*rpc.RpcHttpCookie{
				{Name: "a", Value: "1", SameSite: rpc.RpcHttpCookie_Strict},
				{Name: "b", Value: "2", MaxAge: &rpc.NullableDouble{Double: &rpc.NullableDouble_Value{Value: 60}}}},
			Body: h.GetBody()}}}
	default:
		return failure(fmt.Sprint("no such function: ", name))
	}
	return response
}

// running is a host in this process, whose workers are processes.
type running struct {
	*functions.Host
	url     string
	storage *workers.Storage
	log     *testlog.Buffer
	dir     string // of the app
}

// hostFile is a host.json by which messages come back at once.
const hostFile = `{"version": "2.0", "functionTimeout": "00:00:03",
  "extensions": {"queues": {"visibilityTimeout": "00:00:00", "maxPollingInterval": "00:00:00.200", "maxDequeueCount": 3}}}`

// config writes an app and returns the configuration that runs it in the test worker.
func config(t testing.TB, connection, special string, files map[string]string, environ ...string) functions.Config {
	t.Helper()
	dir := t.TempDir()
	all := map[string]string{"host.json": hostFile}
	for name, content := range files {
		all[name] = content
	}
	for name, content := range all {
		if folder, _, ok := strings.Cut(name, "/"); ok {
			if err := os.MkdirAll(dir+"/"+folder, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(dir+"/"+name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return functions.Config{Dir: dir, ConnectionString: connection,
		Environ: append(os.Environ(), append(environ, "FUNCTIONS_WORKER_RUNTIME=python")...),
		Workers: Runtime{command: testCommand(self, special)}}
}

// testCommand starts the test worker.
func testCommand(self, special string) func(functions.WorkerSettings, string) (*command, error) {
	return func(functions.WorkerSettings, string) (*command, error) {
		c := &command{path: self, indexes: true, environ: []string{role + "=worker " + special}}
		if special == "java" {
			c.indexes, c.folder = false, "/the/worker"
		}
		return c, nil
	}
}

// run runs an app. Without a connection string it has a server of its own: at the usual ports another one may listen.
func run(t testing.TB, c functions.Config) *running {
	t.Helper()
	if c.ConnectionString == "" {
		c.ConnectionString = lazulitest.Start(t).ConnectionString()
	}
	log := &testlog.Buffer{}
	c.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug - 4}))
	c.Stdout, c.Stderr = log, log
	h, err := functions.Load(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- h.Run(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		select {
		case <-ended:
		case <-time.After(patience):
			t.Error("the host does not stop")
		}
		if t.Failed() {
			t.Log(log.String())
		}
	})
	r := &running{Host: h, url: "http://" + l.Addr().String(), log: log, dir: c.Dir}
	if r.storage, err = workers.OpenStorage(c.ConnectionString); err != nil {
		t.Fatal(err)
	}
	return r
}

// get asks the host, and returns the response with its body.
func (r *running) get(t testing.TB, path, body string) (*http.Response, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X-In", "given")
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatal(err)
	}
	return response, string(content)
}
