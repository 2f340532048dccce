package languageworker

import (
	"bytes"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/functions"
	"github.com/lazuli-storage/lazuli/internal/functions/durablefunc"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/lazulitest"
	"github.com/lazuli-storage/lazuli/tables"
)

// python returns the interpreter with the packages of .ci/functions that languagesVar names.
func python(t testing.TB) string {
	t.Helper()
	for _, path := range strings.Fields(os.Getenv(languagesVar)) {
		if strings.HasPrefix(filepath.Base(path), "python") {
			return path
		}
	}
	t.Skip("set " + languagesVar + " to the path of a Python with the packages of .ci/functions")
	return ""
}

// pythonConfig writes an app of the files in a folder of testdata, and more.
func pythonConfig(t testing.TB, connection, app string, files map[string]string,
	environ ...string) functions.Config {
	t.Helper()
	path := python(t)
	c := config(t, connection, "", files, environ...)
	if err := os.CopyFS(c.Dir, os.DirFS(filepath.Join("testdata", app))); err != nil {
		t.Fatal(err)
	}
	c.Workers = Runtime{Python: path}
	return c
}

func TestPython(t *testing.T) {
	t.Parallel()
	r := run(t, pythonConfig(t, lazulitest.Start(t).ConnectionString(), "python", nil))
	response, body := r.get(t, "/api/hello/bob?q=1&q=2", "text")
	if response.StatusCode != 200 || body != "hello bob 1,2 b'text' given" || response.Header.Get("X-A") != "1" ||
		len(response.Header["Set-Cookie"]) != 2 {
		t.Errorf("%d %v %q", response.StatusCode, response.Header, body)
	}
	if response, body := r.get(t, "/api/fails", ""); response.StatusCode != 500 || body != "" {
		t.Errorf("a function that fails: %d %q", response.StatusCode, body)
	}
	if response, body := r.get(t, "/api/again", ""); response.StatusCode != 200 || body != "2 of 2" {
		t.Errorf("a retry policy: %d %q", response.StatusCode, body)
	}
	if response, body := r.get(t, "/api/blue", ""); response.StatusCode != 200 || body != "blue async" {
		t.Errorf("a blueprint with a coroutine: %d %q", response.StatusCode, body)
	}
	if response, body := r.get(t, "/api/order", `{"number": 7, "item": "lämp"}`); response.StatusCode != 202 {
		t.Errorf("%d %q", response.StatusCode, body)
	}
	blobs := r.storage.Blobs.ServiceClient().NewContainerClient("slips")
	read := func(name string) string {
		got, err := blobs.NewBlobClient(name).DownloadStream(t.Context(), nil)
		if err != nil {
			return ""
		}
		defer got.Body.Close()
		content, err := io.ReadAll(got.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	check.Eventually(t, func() bool { return read("copies/7.txt") == "one lämp" }, "the blob's copy")
	if got := take(t, r, "many", 3); got["a"] != 1 || got["b"] != 1 || got[`{"c": 3}`] != 1 {
		t.Errorf("a list of messages: %v", got)
	}
	table, err := tables.New[tables.Entity](r.storage.Tables, "orders")
	if err != nil {
		t.Fatal(err)
	}
	check.Eventually(t, func() bool {
		e, err := table.Get(t.Context(), tables.Key{PartitionKey: "orders", RowKey: "7"})
		return err == nil && e.Properties["item"] == "lämp" && e.Properties["attempt"] == int64(1)
	}, "the entity")
	if got := take(t, r, "changes", 1); got["insert lämp"] != 1 {
		t.Errorf("changes of the table: %v", got)
	}
	if response, body := r.get(t, "/api/rows/7", ""); response.StatusCode != 200 || body != "one: lämp; all: 1" {
		t.Errorf("table inputs: %d %q", response.StatusCode, body)
	}
	check.Eventually(t, func() bool { return strings.Contains(r.log.String(), "tick past due is False") }, "the timer")
	for _, want := range []string{`level=WARN msg="a warning of hello"`, `msg="from a thread"`,
		"ValueError: on purpose"} {
		check.Eventually(t, func() bool { return strings.Contains(r.log.String(), want) }, "%s in the log", want)
	}
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	part, err := w.CreateFormFile("file", "a.bin")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = part.Write([]byte{0, 255, 1})
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+"/api/upload", &form)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", w.FormDataContentType())
	request.Close = true
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if content, err := io.ReadAll(answer.Body); err != nil || string(content) != "a.bin 00ff01" {
		t.Errorf("a form: %q %v", content, err)
	}
}

// With azurefunctions-extensions-http-fastapi requests and responses are streams; arguments are clients of the SDK with
// azurefunctions-extensions-bindings-blob.
func TestPythonStreamsAndClients(t *testing.T) {
	t.Parallel()
	r := run(t, pythonConfig(t, lazulitest.Start(t).ConnectionString(), "fastapi", nil))
	response, err := http.Get(r.url + "/api/stream")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	first := make([]byte, len("first "))
	if _, err := io.ReadFull(response.Body, first); err != nil || string(first) != "first " {
		t.Fatalf("the beginning of a response that goes on: %q, %v", first, err)
	}
	uploaded, body := r.get(t, "/api/upload/a?x=1", strings.Repeat("0123456789", 1<<20))
	if uploaded.StatusCode != 201 || body != `{"size":10485760,"x":"1"}` ||
		!strings.HasPrefix(uploaded.Header.Get("Set-Cookie"), "a=b;") {
		t.Errorf("%d %v %q", uploaded.StatusCode, uploaded.Header, body)
	}
	if rest, err := io.ReadAll(response.Body); err != nil || string(rest) != "last" {
		t.Errorf("the rest of it: %q, %v", rest, err)
	}
	if response, _ := r.get(t, "/api/fails", ""); response.StatusCode != 500 {
		t.Errorf("a function that fails: %d", response.StatusCode)
	}
	service := r.storage.Blobs.ServiceClient()
	for _, name := range []string{"incoming", "copies"} {
		if _, err := service.CreateContainer(t.Context(), name, nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := service.NewContainerClient("incoming").NewBlockBlobClient("a.txt").UploadBuffer(t.Context(),
		[]byte("text"), nil); err != nil {
		t.Fatal(err)
	}
	check.Eventually(t, func() bool { return r.fetch(t, "/api/list") == `["a.txt4text"]` }, "the copy of a blob")
}

// Messages are neither lost nor given up while worker processes are killed again and again.
func TestPythonKills(t *testing.T) {
	t.Parallel()
	r := run(t, pythonConfig(t, lazulitest.Start(t).ConnectionString(), "python", map[string]string{
		"host.json": `{"version": "2.0", "extensions": {"queues": {"visibilityTimeout": "00:00:00",
  "maxPollingInterval": "00:00:00.200", "maxDequeueCount": 1000, "batchSize": 4, "newBatchThreshold": 2}}}`,
	}, "FUNCTIONS_WORKER_PROCESS_COUNT=2"))
	killUnderLoad(t, r)
}

// killUnderLoad kills the processes of an app again and again while its function copies messages.
func killUnderLoad(t *testing.T, r *running) {
	t.Helper()
	messages, kills := 300, int64(8)
	if n, err := strconv.Atoi(os.Getenv(killsVar)); err == nil {
		messages, kills = 10*n, int64(n)
	}
	stop := make(chan bool)
	var killed atomic.Int64
	go func() {
		defer close(stop)
		for killed.Load() < kills {
			response, err := http.Get(r.url + "/api/pid")
			if err != nil {
				continue
			}
			content, _ := io.ReadAll(response.Body)
			response.Body.Close()
			if pid, err := strconv.Atoi(string(content)); err == nil && response.StatusCode == 200 {
				if p, err := os.FindProcess(pid); err == nil && p.Kill() == nil {
					killed.Add(1)
				}
			}
		}
	}()
	var list []string
	for i := range messages {
		list = append(list, fmt.Sprint("message ", i))
	}
	put(t, r, "in-queue", list...)
	<-stop
	got := take(t, r, "out-queue", messages)
	for _, m := range list {
		if got[m] == 0 {
			t.Errorf("%s is lost", m)
		}
	}
	t.Logf("%d messages, %d kills", len(got), killed.Load())
}

// The same app gives the same results by a custom handler, whose program has the same functions.
func TestPythonAndCustomHandler(t *testing.T) {
	t.Parallel()
	path := python(t)
	results := map[string]string{}
	for _, way := range []string{"worker", "handler"} {
		c := pythonConfig(t, lazulitest.Start(t).ConnectionString(), "same", nil)
		if way == "handler" {
			if err := os.Rename(filepath.Join(c.Dir, "handler"), filepath.Join(c.Dir, "h")); err != nil {
				t.Fatal(err)
			}
			c.Dir = filepath.Join(c.Dir, "h")
			host := strings.Replace(hostFile, "{", fmt.Sprintf(
				`{"customHandler": {"description": {"defaultExecutablePath": %q, "arguments": ["handler.py"]}}, `, path), 1)
			if err := os.WriteFile(filepath.Join(c.Dir, "host.json"), []byte(host), 0o600); err != nil {
				t.Fatal(err)
			}
		} else if err := os.RemoveAll(filepath.Join(c.Dir, "handler")); err != nil {
			t.Fatal(err)
		}
		r := run(t, c)
		response, body := r.get(t, "/api/order?x=1", `{"number": 7, "item": "lamp"}`)
		results[way] = fmt.Sprint(response.StatusCode, body, response.Header.Get("X-Item"))
		for m, n := range take(t, r, "out", 1) {
			results[way] += fmt.Sprint(" ", m, n)
		}
		for m, n := range take(t, r, "work-poison", 1) {
			results[way] += fmt.Sprint(" ", m, n)
		}
	}
	if results["worker"] != results["handler"] || !strings.HasPrefix(results["worker"], "202thanks for lamplamp") {
		t.Errorf("%q", results)
	}
}

func TestPythonIsMissing(t *testing.T) {
	t.Parallel()
	path := python(t)
	c := pythonConfig(t, "", "python", nil)
	empty := t.TempDir()
	if text, err := exec.CommandContext(t.Context(), path, "-m", "venv", "--without-pip",
		empty).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	c.Workers = Runtime{Python: filepath.Join(empty, "bin", "python")}
	var output bytes.Buffer
	c.Stderr = &output
	if _, err := functions.Load(t.Context(), c); err == nil {
		t.Fatal("the app starts without packages")
	}
	// The worker brings its own packages; without a network it names them too, and the runtime in a command of its own.
	if !regexp.MustCompile(`bin/python -m pip install (grpcio protobuf )?azure-functions( .*azure-functions-runtime)?\n`).
		MatchString(output.String()) {
		t.Errorf("got %s", &output)
	}
	c = pythonConfig(t, "", "python", nil)
	if err := os.WriteFile(filepath.Join(c.Dir, "function_app.py"), []byte("import nosuchmodule\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := functions.Load(t.Context(), c); err == nil || !strings.Contains(err.Error(), "nosuchmodule") {
		t.Errorf("got %v", err)
	}
}

// BenchmarkPython measures HTTP invocations of a function that returns at once, and the time to the first.
func BenchmarkPython(b *testing.B) {
	c := pythonConfig(b, "", "python", nil)
	began := time.Now()
	r := run(b, c)
	get := func() {
		response, err := http.Get(r.url + "/api/pid")
		if err != nil {
			b.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, response.Body)
		response.Body.Close()
	}
	get()
	cold := time.Since(began)
	for _, clients := range []int{1, 32} {
		b.Run(fmt.Sprint("clients=", clients), func(b *testing.B) {
			jobs := make(chan bool)
			done := make(chan bool)
			for range clients {
				go func() {
					for range jobs {
						get()
					}
					done <- true
				}()
			}
			b.ResetTimer()
			for range b.N {
				jobs <- true
			}
			close(jobs)
			for range clients {
				<-done
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "invocations/s")
			b.ReportMetric(cold.Seconds(), "s-to-first")
		})
	}
	http.DefaultClient.CloseIdleConnections()
}

// Apps of the v1 model have folders with a function.json.
func TestPythonModel1(t *testing.T) {
	t.Parallel()
	c := pythonConfig(t, lazulitest.Start(t).ConnectionString(), "python1", nil)
	c.Durable = durablefunc.Runtime{}
	r := run(t, c)
	response, body := r.get(t, "/api/hello/bob?q=1", "")
	if response.StatusCode != 201 || body != "hello bob" || response.Header.Get("X-A") != "1" {
		t.Errorf("%d %v %q", response.StatusCode, response.Header, body)
	}
	check.Eventually(t, func() bool {
		return strings.Contains(r.log.String(), `level=WARN msg="a warning of hello" function=hello invocation_id=`)
	}, "the function's log")
	if response, body := r.get(t, "/api/order", "a,b"); response.StatusCode != 200 || body != "taken" {
		t.Errorf("%d %q", response.StatusCode, body)
	}
	if got := take(t, r, "shipped", 2); got["a 2"] != 1 || got["b 2"] != 1 {
		t.Errorf("messages that failed once: %v", got)
	}
	if response, body := r.get(t, "/api/start", "bob"); response.StatusCode != 200 ||
		strings.ReplaceAll(body, " ", "") != `["hellobob","hello0","hello1"]` {
		t.Errorf("a workflow: %d %q", response.StatusCode, body)
	}
}

// With keys, clients of workflows work without one, and the addresses that they give have one.
func TestPythonKeys(t *testing.T) {
	t.Parallel()
	c := pythonConfig(t, lazulitest.Start(t).ConnectionString(), "python1", map[string]string{
		"keys.json": `{"host.master": "m", "host.systemKey.durabletask_extension": "d", "functions.start.one": "s"}`})
	c.Durable, c.Keys = durablefunc.Runtime{}, filepath.Join(c.Dir, "keys.json")
	checkKeys(t, run(t, c), "/api/start?code=s", "/runtime/webhooks/durabletask/orchestrators/flow", `"bob"`)
}

// checkKeys checks an app with the master key m and the key d of workflows. started is a function that starts a
// workflow and waits for it, with its key if it needs one; start is the address of the API that starts it.
func checkKeys(t *testing.T, r *running, started, start, input string) {
	t.Helper()
	if bare, _, ok := strings.Cut(started, "?"); ok {
		if response, body := r.get(t, bare, input); response.StatusCode != http.StatusUnauthorized || body != "" {
			t.Errorf("a function without its key: %d %q", response.StatusCode, body)
		}
	}
	if response, body := r.get(t, started, input); response.StatusCode != http.StatusOK {
		t.Errorf("a function that starts a workflow: %d %q", response.StatusCode, body)
	}
	if response, _ := r.get(t, start, input); response.StatusCode != http.StatusUnauthorized {
		t.Errorf("the API without a key: %d", response.StatusCode)
	}
	response, body := r.get(t, start+"?code=m", input)
	if response.StatusCode != http.StatusAccepted || !strings.Contains(body, "&code=d") {
		t.Fatalf("the API: %d %q", response.StatusCode, body)
	}
	status := response.Header.Get("Location")
	check.Eventually(t, func() bool {
		return strings.Contains(r.fetch(t, strings.TrimPrefix(status, r.url)), `"runtimeStatus":"Completed"`)
	}, "%s shows the end of the workflow", status)
}
