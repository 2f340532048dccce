package durablefunc_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/lazuli-storage/lazuli/functions"
	"github.com/lazuli-storage/lazuli/internal/durable/hub"
	"github.com/lazuli-storage/lazuli/internal/durable/protocol"
	"github.com/lazuli-storage/lazuli/internal/durable/sidecar"
	"github.com/lazuli-storage/lazuli/internal/functions/durablefunc"
	"github.com/lazuli-storage/lazuli/internal/test/testlog"
	"github.com/lazuli-storage/lazuli/lazulitest"
)

// role is the environment variable that makes this test's binary a custom handler.
const role = "DURABLEFUNC_TEST_ROLE"

// mark is the environment variable that names a folder, which the handler makes before it dies for the first time.
const mark = "DURABLEFUNC_TEST_MARK"

func TestMain(m *testing.M) {
	if os.Getenv(role) == "handler" {
		runHandler()
	}
	os.Exit(m.Run())
}

// runHandler is a handler whose orchestrations fail in ways of their own, and whose function "data" returns its client
// binding.
func runHandler() {
	answer := func(w http.ResponseWriter, value any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(value)
	}
	http.HandleFunc("POST /refuses",
		func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no tea", http.StatusInternalServerError) })
	http.HandleFunc("POST /babbles",
		func(w http.ResponseWriter, _ *http.Request) { answer(w, map[string]any{"ReturnValue": "-"}) })
	http.HandleFunc("POST /silent", func(w http.ResponseWriter, _ *http.Request) { answer(w, map[string]any{}) })
	http.HandleFunc("POST /garbles", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{"ReturnValue": "////"})
	})
	http.HandleFunc("POST /dies", func(w http.ResponseWriter, _ *http.Request) {
		if err := os.Mkdir(os.Getenv(mark), 0o700); err == nil {
			os.Exit(1)
		}
		http.Error(w, "alive again", http.StatusInternalServerError)
	})
	http.HandleFunc("POST /data", func(w http.ResponseWriter, r *http.Request) {
		var call struct{ Data map[string]any }
		_ = json.NewDecoder(r.Body).Decode(&call)
		answer(w, map[string]any{"Outputs": map[string]any{"res": map[string]any{"body": call.Data["client"]}}})
	})
	panic(http.ListenAndServe("127.0.0.1:"+os.Getenv("FUNCTIONS_CUSTOMHANDLER_PORT"), nil))
}

// run runs the function app of a folder and returns its address.
func run(t *testing.T, dir string, environ ...string) string {
	t.Helper()
	return runOn(t, lazulitest.Start(t).ConnectionString(), dir, environ...)
}

func runOn(t *testing.T, connection, dir string, environ ...string) string {
	t.Helper()
	log := &testlog.Buffer{}
	host, err := functions.Load(t.Context(),
		functions.Config{Dir: dir, Environ: append(os.Environ(), environ...), ConnectionString: connection,
			Logger: slog.New(slog.NewTextHandler(log, nil)), Stdout: log, Stderr: log, Durable: durablefunc.Runtime{}})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- host.Run(ctx, l) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the host ended with %v", err)
		}
		if t.Failed() {
			t.Log(log.String())
		}
	})
	return "http://" + l.Addr().String()
}

// ask sends a request, again while the hub is not open.
func ask(t *testing.T, method, url, body string) (int, string) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; {
		r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		got, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(got.Body)
		_ = got.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if got.StatusCode != http.StatusServiceUnavailable || time.Now().After(deadline) {
			return got.StatusCode, string(text)
		}
	}
}

// The custom handler that comes with durabletask-go, unchanged, in its own folder. Only its program is built elsewhere,
// since the folder is read-only.
func TestSampleOfDurabletaskGo(t *testing.T) {
	t.Parallel()
	const sample = "github.com/microsoft/durabletask-go/samples/azurefunctions"
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.Dir}}", sample).Output()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "azurefunctions")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-s -w", "-o", program,
		sample).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	address := run(t, strings.TrimSpace(string(dir)),
		"AzureFunctionsJobHost__customHandler__description__defaultExecutablePath="+program)
	status, body := ask(t, "POST",
		address+"/runtime/webhooks/durabletask/orchestrators/HelloCities?timeout=120&pollingInterval=1", "")
	if status != http.StatusOK || body != `["Hello, Tokyo!","Hello, London!","Hello, Seattle!"]` {
		t.Errorf("got %d %s", status, body)
	}
	if status, body = ask(t, "POST", address+"/runtime/webhooks/durabletask/orchestrators/SayHello",
		""); status != http.StatusBadRequest {
		t.Errorf("starting an activity as a workflow: %d %s", status, body)
	}
	if status, body = ask(t, "POST", address+"/admin/functions/SayHello", "{}"); status != http.StatusBadRequest {
		t.Errorf("calling an activity by the admin API: %d %s", status, body)
	}
}

// folder writes a function app whose handler is this test's binary.
func folder(t *testing.T, durableTask string, functions map[string]string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	host, err := json.Marshal(map[string]any{"version": "2.0",
		"customHandler": map[string]any{"description": map[string]any{"defaultExecutablePath": self}},
		"extensions":    map[string]any{"durableTask": json.RawMessage(durableTask)}})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("host.json", string(host))
	for name, bindings := range functions {
		write(name+"/function.json", `{"bindings": [`+bindings+`]}`)
	}
	return dir
}

const orchestration = `{"type": "orchestrationTrigger", "direction": "in", "name": "context"}`

func TestBadAnswersFailTheInstance(t *testing.T) {
	t.Parallel()
	functions := map[string]string{}
	reasons := map[string]string{"refuses": "no tea", "babbles": "ReturnValue", "silent": "ReturnValue",
		"garbles": "OrchestratorResponse"}
	for name := range reasons {
		functions[name] = orchestration
	}
	account := lazulitest.Start(t).Account(t)
	address := runOn(t, account.ConnectionString(),
		folder(t, `{"hubName": "Bad", "storageProvider": {"partitionCount": 2}}`, functions), role+"=handler")
	for name, reason := range reasons {
		status, body := ask(t, "POST",
			address+"/runtime/webhooks/durabletask/orchestrators/"+name+"?timeout=120&pollingInterval=1", "")
		if status != http.StatusOK || !strings.Contains(body, `"Failed"`) || !strings.Contains(body, reason) {
			t.Errorf("%s: got %d %s; want a failure with %q", name, status, body, reason)
		}
	}
	// The hub has the name and the partitions of host.json.
	page, err := account.Storage.Queues.NewListQueuesPager(
		&azqueue.ListQueuesOptions{Prefix: to.Ptr("bad-control-")}).NextPage(t.Context())
	if err != nil || len(page.Queues) != 2 {
		t.Errorf("%d control queues, %v; want 2", len(page.Queues), err)
	}
}

// A step that was not answered is run again, by the next process of the handler.
func TestHandlerDies(t *testing.T) {
	t.Parallel()
	dir := folder(t,
		`{"hubName": "Dying", "storageProvider": {"partitionCount": 1, "controlQueueVisibilityTimeout": "00:00:01"}}`,
		map[string]string{"dies": orchestration})
	address := run(t, dir, role+"=handler", mark+"="+filepath.Join(t.TempDir(), "died"))
	status, body := ask(t, "POST",
		address+"/runtime/webhooks/durabletask/orchestrators/dies?timeout=120&pollingInterval=1", "")
	if status != http.StatusOK || !strings.Contains(body, "alive again") {
		t.Errorf("got %d %s", status, body)
	}
}

func TestClientBinding(t *testing.T) {
	t.Parallel()
	address := run(t, folder(t, `{"hubName": "%HUB%"}`, map[string]string{
		"refuses": orchestration,
		"data": `{"type": "httpTrigger", "direction": "in", "name": "req"}, {"type": "http", "direction": "out", "name": "res"},
			{"type": "durableClient", "direction": "in", "name": "client"}`}), role+"=handler", "HUB=Named")
	_, body := ask(t, "GET", address+"/api/data", "")
	var text string
	var data struct {
		TaskHubName, ConnectionName, BaseURL string
		CreationURLs, ManagementURLs         map[string]string
	}
	// Text in Data is JSON, and this text holds JSON itself.
	if err := json.Unmarshal([]byte(body), &text); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	if err := json.Unmarshal([]byte(text), &data); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if data.TaskHubName != "Named" || data.ConnectionName != "Storage" ||
		!strings.HasPrefix(data.CreationURLs["createNewInstancePostUri"], data.BaseURL+"/orchestrators/{functionName}") {
		t.Errorf("got %s", text)
	}
	status, body := ask(t, "POST", data.BaseURL+"/orchestrators/refuses/one", "")
	if status != http.StatusAccepted {
		t.Fatalf("%d %s", status, body)
	}
	status, body = ask(t, "GET", strings.ReplaceAll(data.ManagementURLs["statusQueryGetUri"], "INSTANCEID", "one"), "")
	if status >= 300 || !strings.Contains(body, `"instanceId":"one"`) {
		t.Errorf("%d %s", status, body)
	}
}

func TestRefusedSettings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ durableTask, binding, want string }{
		{`{"hubName": "a-b"}`, orchestration, "hub name"},
		{`{"hubName": "%NONE%"}`, orchestration, "NONE"},
		{`{"maxConcurrentActivityFunctions": 0}`, orchestration, "maxConcurrentActivityFunctions"},
		{`{"maxConcurrentEntityFunctions": 0}`, orchestration, "maxConcurrentEntityFunctions"},
		{`{"storageProvider": {"type": "mssql"}}`, orchestration, "type"},
		{`{"storageProvider": {"partitionCount": 17}}`, orchestration, "partitionCount"},
		{`{"storageProvider": {"connectionName": "Elsewhere"}}`, orchestration, "Elsewhere"},
		{`{"storageProvider": {"controlQueueVisibilityTimeout": "00:01:00", "workItemQueueVisibilityTimeout": "00:02:00"}}`,
			orchestration, "workItemQueueVisibilityTimeout"},
		{`{}`, `{"type": "entityTrigger", "direction": "in", "name": "context"}, {"type": "durableClient", "direction": "in", "name": "c"}`,
			"entityTrigger"},
		{`{"httpSettings": {"defaultAsyncRequestSleepTimeMilliseconds": 0}}`, orchestration, "defaultAsync"},
		{`{}`, orchestration + `, {"type": "queue", "direction": "out", "name": "q", "queueName": "qqq"}`,
			"orchestrationTrigger"},
		{`{}`,
			`{"type": "timerTrigger", "direction": "in", "name": "t", "schedule": "0 0 0 * * *"}, {"type": "durableClient", "direction": "in", "name": "c"}`, "durableClient"},
		{`{}`, orchestration + `, {"type": "durableClient", "direction": "in", "name": "c", "taskHub": "Other"}`, "taskHub"},
	} {
		_, err := functions.Load(t.Context(),
			functions.Config{Dir: folder(t, c.durableTask, map[string]string{"f": c.binding}),
				Durable: durablefunc.Runtime{}})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s, %s: got %v, want an error with %q", c.durableTask, c.binding, err, c.want)
		}
	}
	settings :=
		`{"hubName": "Fine", "maxConcurrentActivityFunctions": 3, "maxConcurrentOrchestratorFunctions": 4, "overridableExistingInstanceStates": "AnyState",
		"extendedSessionsEnabled": true, "tracing": {}, "storageProvider": {"useTablePartitionManagement": true, "type": "AzureStorage", "partitionCount": 2, "connectionName": "AzureWebJobsStorage",
		"controlQueueBufferThreshold": 64, "maxQueuePollingInterval": "00:00:05", "controlQueueVisibilityTimeout": "00:01:00"}}`
	if _, err := functions.Load(t.Context(),
		functions.Config{Dir: folder(t, settings, map[string]string{"f": orchestration}),
			Durable: durablefunc.Runtime{}}); err != nil {
		t.Errorf("good settings: %v", err)
	}
	if _, err := functions.Load(t.Context(),
		functions.Config{Dir: folder(t, settings, map[string]string{"f": orchestration})}); err == nil {
		t.Error("an orchestration is accepted without a runtime")
	}
	host, err := functions.Load(t.Context(), functions.Config{Dir: folder(t, `{}`, map[string]string{"f": orchestration +
		`], "retry": {"strategy": "fixedDelay", "maxRetryCount": 1, "delayInterval": "00:00:01"}, "x": [`}),
		Durable: durablefunc.Runtime{}})
	if err != nil || !strings.Contains(strings.Join(host.Warnings(), "\n"), "retry has no effect on the function f") {
		t.Errorf("a retry policy of an orchestration: %v", err)
	}
}

// An app for a Durable Task Scheduler on this machine takes part in the hub that Lazuli's scheduler serves.
func TestScheduler(t *testing.T) {
	t.Parallel()
	const scheduler = `{"hubName": "%TASKHUB_NAME%", "storageProvider": {"type": "azureManaged",
		"connectionStringName": "DTS"}, "tracing": {"distributedTracingEnabled": true}}`
	account := lazulitest.Start(t).Account(t)
	address := runOn(t, account.ConnectionString(), folder(t, scheduler, map[string]string{"refuses": orchestration}),
		role+"=handler", "TASKHUB_NAME=my-hub", "DTS=Endpoint=http://localhost:8080;Authentication=None")
	server, err := sidecar.New(sidecar.Options{Durable: hub.Options{Storage: account.Storage}})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := server.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	connection, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	ctx := metadata.AppendToOutgoingContext(t.Context(), "taskhub", "my-hub")
	status, body := ask(t, "POST",
		address+"/runtime/webhooks/durabletask/orchestrators/refuses/one?timeout=60&pollingInterval=1", "")
	if status != http.StatusOK || !strings.Contains(body, "no tea") {
		t.Errorf("%d %s", status, body)
	}
	var got protocol.GetInstanceResponse
	if err := connection.Invoke(ctx, "/TaskHubSidecarService/GetInstance", &protocol.GetInstanceRequest{InstanceId: "one"},
		&got); err != nil || !got.GetExists() {
		t.Errorf("a client of the scheduler does not find the app's instance: %v, %v", &got, err)
	}
	for value, want := range map[string]string{
		"Endpoint=https://name.westus.durabletask.io;TaskHub=x;Authentication=ManagedIdentity": "is not on this machine",
		"nonsense": "want Endpoint=", "": "is set neither",
	} {
		_, err := functions.Load(t.Context(), functions.Config{Dir: folder(t, scheduler,
			map[string]string{"f": orchestration}), Durable: durablefunc.Runtime{},
			Environ: []string{"TASKHUB_NAME=x", "DTS=" + value}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want an error with %q", value, err, want)
		}
	}
}
