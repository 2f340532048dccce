package languageworker

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/lazuli-storage/lazuli/functions"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/lazulitest"
)

// put puts messages into a queue, which it creates.
func put(t *testing.T, r *running, queue string, messages ...string) {
	t.Helper()
	client := r.storage.Queues.NewQueueClient(queue)
	if _, err := client.Create(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	for _, m := range messages {
		if _, err := client.EnqueueMessage(t.Context(), base64.StdEncoding.EncodeToString([]byte(m)), nil); err != nil {
			t.Fatal(err)
		}
	}
}

// take returns the messages of a queue as they come, until there are n different ones: how often each came.
func take(t *testing.T, r *running, queue string, n int) map[string]int {
	t.Helper()
	got := map[string]int{}
	check.Eventually(t, func() bool {
		takeSome(t, r, queue, func(_, message string) { got[message]++ })
		return len(got) == n
	}, "%d messages in %s, got %v", n, queue, got)
	return got
}

// takeSome takes messages that a queue has, if there is the queue, with their IDs, and reports whether it had some.
func takeSome(t *testing.T, r *running, queue string, each func(id, message string)) bool {
	t.Helper()
	client, most := r.storage.Queues.NewQueueClient(queue), int32(32)
	response, err := client.DequeueMessages(t.Context(), &azqueue.DequeueMessagesOptions{NumberOfMessages: &most})
	if err != nil {
		return false
	}
	for _, m := range response.Messages {
		content, err := base64.StdEncoding.DecodeString(*m.MessageText)
		if err != nil {
			t.Fatal(err)
		}
		each(*m.MessageID, string(content))
		if _, err := client.DeleteMessage(t.Context(), *m.MessageID, *m.PopReceipt, nil); err != nil {
			t.Fatal(err)
		}
	}
	return len(response.Messages) > 0
}

// A worker that dies, and one that hangs, are replaced; their messages come again, and are poisoned if that does not
// help.
func TestWorkersThatEnd(t *testing.T) {
	t.Parallel()
	r := run(t, config(t, lazulitest.Start(t).ConnectionString(), "", nil))
	put(t, r, "die-queue", "one")
	put(t, r, "hang-queue", "two")
	got := take(t, r, "out-queue", 2)
	if got["one"] != 1 || got["two"] != 1 {
		t.Errorf("got %v", got)
	}
	put(t, r, "dies-queue", "three")
	if got := take(t, r, "dies-queue-poison", 1); got["three"] != 1 {
		t.Errorf("poisoned: %v", got)
	}
	if n := strings.Count(r.log.String(), "a word from dies"); n > 3 {
		t.Errorf("a message with a limit of 3 attempts had %d", n)
	}
}

func TestHTTP(t *testing.T) {
	t.Parallel()
	r := run(t, config(t, "", "", nil))
	response, body := r.get(t, "/api/echo/7?q=a&q=b", "\xff\x00body")
	h := response.Header
	if response.StatusCode != 201 || body != "\xff\x00body" || h.Get("X-Id") != "7" || h.Get("X-Q") != "a,b" ||
		h.Get("X-In") != "given" || h.Get("X-Path") != r.url+"/api/echo/7?q=a&q=b" {
		t.Errorf("%d %v %q", response.StatusCode, h, body)
	}
	if got := h["Set-Cookie"]; !slices.Equal(got, []string{"a=1; path=/; samesite=strict", "b=2; max-age=60; path=/"}) {
		t.Errorf("cookies %q", got)
	}
	if response, body := r.get(t, "/api/flaky", ""); response.StatusCode != 200 || body != "attempt 1" {
		t.Errorf("the third attempt: %d %q", response.StatusCode, body)
	}
	if !strings.Contains(r.log.String(), `level=WARN msg="a word from echo" function=echo invocation_id=`) {
		t.Error("the function's log is missing")
	}
}

// A worker with an HTTP server of its own gets the requests themselves.
func TestForwardedRequests(t *testing.T) {
	t.Parallel()
	r := run(t, config(t, "", "http collection", nil))
	response, body := r.get(t, "/api/echo/7", "body")
	if response.StatusCode != 200 || body != "streamed body 7" || response.Header.Get("X-Streamed") != "yes" {
		t.Errorf("%d %v %q", response.StatusCode, response.Header, body)
	}
}

// A function that fails is 500 if nothing of its response was sent, although its worker ends the response with 200, and
// a broken response otherwise.
func TestForwardedRequestsThatFail(t *testing.T) {
	t.Parallel()
	r := run(t, config(t, "", "http", nil))
	if response, body := r.get(t, "/api/throws", ""); response.StatusCode != 500 || body != "" {
		t.Errorf("nothing was sent: %d %q", response.StatusCode, body)
	}
	for _, name := range []string{"breaks", "leaves"} {
		response, err := http.Post(r.url+"/api/"+name, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if response.StatusCode != 200 || string(body) != "a part" || err == nil {
			t.Errorf("%s: a part was sent: %d %q %v", name, response.StatusCode, body, err)
		}
	}
}

// A client that disconnects cancels its invocation, and the request that was passed on to a worker.
func TestClientThatDisconnects(t *testing.T) {
	t.Parallel()
	for _, special := range []string{"", "http"} {
		r := run(t, config(t, "", special, nil))
		ctx, cancel := context.WithCancel(t.Context())
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+"/api/waits", nil)
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error)
		go func() {
			response, err := http.DefaultClient.Do(request)
			if err == nil {
				_ = response.Body.Close()
			}
			ended <- err
		}()
		check.Eventually(t, func() bool { return strings.Contains(r.log.String(), "waits for the end") }, "the call")
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("%q: %v", special, err)
		}
		check.Eventually(t, func() bool { return strings.Contains(r.log.String(), "the client has gone") },
			"the cancel")
	}
}

// A retry policy of a queue trigger is followed, with a warning: its attempts are within one delivery.
func TestRetryOfAQueueTrigger(t *testing.T) {
	t.Parallel()
	r := run(t, config(t, "", "", nil))
	put(t, r, "again-queue", "one")
	if got := take(t, r, "out-queue", 1); got["one 1"] != 1 {
		t.Errorf("got %v", got)
	}
	if text := strings.Join(r.Warnings(), "\n"); !strings.Contains(text, "the function again is tried again at once") {
		t.Errorf("warnings: %q", text)
	}
}

func TestFunctionThatCannotBeLoaded(t *testing.T) {
	t.Parallel()
	r := run(t, config(t, "", "unloadable", nil))
	if response, _ := r.get(t, "/api/pid", ""); response.StatusCode != 500 {
		t.Errorf("status %d", response.StatusCode)
	}
	if response, _ := r.get(t, "/api/echo/1", ""); response.StatusCode != 201 {
		t.Errorf("another function: status %d", response.StatusCode)
	}
	if !strings.Contains(r.log.String(), "the worker cannot load the function pid: no such module") {
		t.Error("the log does not say why")
	}
}

// A worker that finds no functions itself leaves that to the host.
func TestFunctionFiles(t *testing.T) {
	t.Parallel()
	bindings := "[" + strings.Join(testFunctions["pid"], ",") + "]"
	r := run(t, config(t, "", "files", map[string]string{
		"pid/function.json": `{"scriptFile": "main.py", "entryPoint": "main", "bindings": ` + bindings + `}`,
		"pid/main.py":       "",
	}))
	if response, body := r.get(t, "/api/pid", ""); response.StatusCode != 200 || body == "" {
		t.Errorf("%d %q", response.StatusCode, body)
	}
}

// What a worker without indexing, cancels, nullable maps and raw bodies gets, as that for Java is: no message that it
// has no handler for, text bodies as text and others as bytes, the full path of the script, and its own folder.
func TestWorkerLikeThatForJava(t *testing.T) {
	t.Parallel()
	function := func(route string) string {
		return `{"scriptFile": "../app.jar", "entryPoint": "pack.Class.method", "bindings": [
  {"type": "httpTrigger", "direction": "in", "name": "req", "authLevel": "ANONYMOUS", "route": "` + route + `"},
  {"type": "http", "direction": "out", "name": "$return"}]}`
	}
	r := run(t, config(t, "", "java", map[string]string{"app.jar": "", "facts/function.json": function("facts/{id}"),
		"late/function.json": function("late"), "release/function.json": function("release")}))
	for kind, want := range map[string]string{
		"text/plain": "*functionrpc.TypedData_String_", "application/json": "*functionrpc.TypedData_String_",
		"application/x-www-form-urlencoded": "*functionrpc.TypedData_String_",
		"application/octet-stream":          "*functionrpc.TypedData_Bytes",
		"multipart/form-data; boundary=b":   "*functionrpc.TypedData_Bytes",
	} {
		a, err := r.request(t.Context(), &caseRequest{Method: http.MethodPost, Path: "/api/facts/7?q=b", Text: `{"a": 1}`,
			Headers: map[string]string{"Content-Type": kind, "X-In": "a"}})
		if err != nil {
			t.Fatal(err)
		}
		want += " false 0 ab7\n/the/worker\n" + filepath.Join(r.dir, "app.jar") + " pack.Class.method"
		if string(a.body) != want {
			t.Errorf("%s: got\n%s\nwant\n%s", kind, a.body, want)
		}
	}

	// A client that disconnects cancels nothing.
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := r.request(ctx, &caseRequest{Method: http.MethodPost, Path: "/api/late"})
		ended <- err
	}()
	check.Eventually(t, func() bool { return strings.Contains(r.log.String(), "waits for the release") }, "the call")
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if list := r.Host.Status(t.Context()).Workers; len(list) != 1 || list[0].Milliseconds == nil {
		t.Errorf("the state of the workers: %+v", list)
	}
	if status, body := r.get(t, "/api/release", ""); status.StatusCode >= 300 {
		t.Errorf("the release: %d %s", status.StatusCode, body)
	}
	check.Eventually(t, func() bool { return strings.Contains(r.log.String(), "Executed 'Functions.late' (Succeeded") },
		"the end of the call")
	log := r.log.String()
	if strings.Count(log, "the worker is ready") != 1 || strings.Contains(log, "no handler for") {
		t.Error("the worker got a message that it has no handler for")
	}
}

// A function that the worker finds and this host cannot run does not stop the others: the start names it.
func TestAFunctionThatThisHostCannotRun(t *testing.T) {
	t.Parallel()
	r := run(t, config(t, "", "foreign", nil))
	if response, _ := r.get(t, "/api/echo/1", ""); response.StatusCode != 201 {
		t.Errorf("another function: status %d", response.StatusCode)
	}
	const want = `bus: cannot run: function bus: bindings[0].type: "serviceBusTrigger" is not supported`
	if lines := strings.Join(r.Describe("localhost:1"), "\n"); !strings.Contains(lines, want) {
		t.Errorf("the start says\n%s\nwant %s", lines, want)
	}
}

func TestAppsThatCannotStart(t *testing.T) {
	t.Parallel()
	for special, want := range map[string]string{
		"fails": "the worker cannot start: SyntaxError: invalid syntax\nline 7", "exits": "exit status 3",
	} {
		_, err := functions.Load(t.Context(), config(t, "", special, nil))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", special, err, want)
		}
	}
	c := config(t, "", "", nil, "FUNCTIONS_WORKER_PROCESS_COUNT=many")
	if _, err := functions.Load(t.Context(), c); err == nil ||
		!strings.Contains(err.Error(), "FUNCTIONS_WORKER_PROCESS_COUNT") {
		t.Errorf("got %v", err)
	}
	c = config(t, "", "", nil)
	c.Functions = []string{"copy", "pid"}
	h, err := functions.Load(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	lines := strings.Join(h.Describe("localhost:1"), "\n")
	for name := range maps.Keys(testFunctions) {
		if chosen := !strings.Contains(lines, name+": disabled"); chosen != slices.Contains(c.Functions, name) {
			t.Errorf("%s: chosen is %v in\n%s", name, chosen, lines)
		}
	}
}

// The processes are asked for their state, and one that does not answer has none.
func TestLogLevels(t *testing.T) {
	t.Parallel()
	storage := lazulitest.Start(t).ConnectionString()
	for levels, want := range map[string][3]bool{ // the host's records, a warning and a detail of the function
		`{}`:                                     {true, true, false},
		`{"Function": "Debug", "Host": "Error"}`: {false, true, true},
		`{"default": "Warning"}`:                 {false, true, false},
		`{"default": "None", "Function.pid": "Trace", "Host": "Trace"}`: {true, true, true},
		`{"Function.pid": "Error", "Function": "Trace"}`:                {true, false, false},
	} {
		r := run(t, config(t, storage, "", map[string]string{"host.json": `{"version": "2.0", "logging": {"logLevel": ` +
			levels + `}}`}))
		check.Eventually(t, func() bool { return strings.Contains(r.log.String(), "the worker is ready") }, "a worker")
		if response, body := r.get(t, "/api/pid", ""); response.StatusCode != 200 {
			t.Fatal(response.StatusCode, body)
		}
		for i, line := range []string{"msg=listening", `level=WARN msg="a word from pid"`,
			`level=DEBUG msg="a detail of pid"`} {
			if want[i] { // the triggers begin to listen beside the HTTP endpoint
				check.Eventually(t, func() bool { return strings.Contains(r.log.String(), line) }, "%s: %s", levels, line)
			} else if strings.Contains(r.log.String(), line) {
				t.Errorf("%s: there is %s", levels, line)
			}
		}
	}
}

func TestProcesses(t *testing.T) {
	t.Parallel()
	for _, special := range []string{"status", "mute"} {
		r := run(t, config(t, "", special, nil, "FUNCTIONS_WORKER_PROCESS_COUNT=2"))
		check.Eventually(t, func() bool { return strings.Count(r.log.String(), "the worker is ready") == 2 },
			"two workers")
		workers := r.Status(t.Context()).Workers
		if len(workers) != 2 || workers[0].PID == workers[1].PID {
			t.Errorf("%s: %v", special, workers)
		}
		for _, w := range workers {
			if (w.Milliseconds != nil) != (special == "status") || w.PID == 0 || w.Running != 0 {
				t.Errorf("%s: %+v", special, w)
			}
		}
	}
}

// A binding of which the worker makes a client of the SDK names the blob.
func TestClientOfTheSDK(t *testing.T) {
	t.Parallel()
	r := run(t, config(t, "", "", nil))
	const want = `1.0 AzureStorageBlobs {"Connection":"AzureWebJobsStorage","ContainerName":"blobs","BlobName":"a.txt"}`
	if response, body := r.get(t, "/api/client/a.txt", ""); response.StatusCode != 200 || body != want {
		t.Errorf("%d %s", response.StatusCode, body)
	}
	if _, body := r.get(t, "/api/client", ""); body != strings.Replace(want, "a.txt", "", 1) {
		t.Errorf("a client of a container: %s", body)
	}
}
