package languageworker

import (
	"bytes"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/functions"
	"github.com/lazuli-storage/lazuli/internal/functions/durablefunc"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/lazulitest"
)

// modulesVar names a folder node_modules with @azure/functions and durable-functions; .ci/functions sets it.
const modulesVar = "LAZULI_TEST_NODE_MODULES"

// nodeConfig writes an app of the files in a folder of testdata. One with modules has the published packages.
func nodeConfig(t testing.TB, connection, app string, modules bool, environ ...string) functions.Config {
	t.Helper()
	if !slices.Contains(strings.Fields(os.Getenv(languagesVar)), "node") {
		t.Skip("set " + languagesVar + ` to "node"`)
	}
	c := config(t, connection, "", map[string]string{
		"host.json": `{"version": "2.0", "extensions": {"queues": {"visibilityTimeout": "00:00:00",
  "maxPollingInterval": "00:00:00.200", "maxDequeueCount": 1000, "batchSize": 4, "newBatchThreshold": 2}}}`,
	}, append(environ, "FUNCTIONS_WORKER_RUNTIME=node")...)
	if err := os.CopyFS(c.Dir, os.DirFS(filepath.Join("testdata", app))); err != nil {
		t.Fatal(err)
	}
	if modules {
		folder := os.Getenv(modulesVar)
		if folder == "" {
			t.Skip("set " + modulesVar + " to a folder with @azure/functions and durable-functions")
		}
		if err := os.Symlink(folder, filepath.Join(c.Dir, "node_modules")); err != nil {
			t.Fatal(err)
		}
	}
	c.Workers, c.Durable = Runtime{}, durablefunc.Runtime{}
	return c
}

func TestNode(t *testing.T) {
	t.Parallel()
	r := run(t, nodeConfig(t, lazulitest.Start(t).ConnectionString(), "node", true))
	response, body := r.get(t, "/api/hello/bob?q=1", "text")
	if cookie := response.Header.Get("Set-Cookie"); response.StatusCode != 200 || body != "bob,1,text," ||
		response.Header.Get("X-B") != "b" || cookie != "c=v%20w; path=/; httponly" {
		t.Errorf("%d %v %q", response.StatusCode, response.Header, body)
	}
	if !strings.Contains(r.log.String(), `level=INFO msg="hello, log" function=hello invocation_id=`) {
		t.Error("the function's log is missing")
	}
	if response, body := r.get(t, "/api/fails", ""); response.StatusCode != 500 || body != "" {
		t.Errorf("a function that fails: %d %q", response.StatusCode, body)
	}
	if response, body := r.get(t, "/api/order", `{"number": 7, "item": "lämp"}`); response.StatusCode != 202 ||
		body != `{"accepted":7}` {
		t.Errorf("%d %q", response.StatusCode, body)
	}
	if response, body := r.get(t, "/api/orders/7", ""); response.StatusCode != 200 ||
		!strings.HasPrefix(body, `{"Item":"lämp","PartitionKey":"orders","RowKey":"7","Timestamp":"`) {
		t.Errorf("%d %q", response.StatusCode, body)
	}
	if got := take(t, r, "changes", 1); got["insert lämp"] != 1 {
		t.Errorf("changes of the table: %v", got)
	}
	if response, _ := r.get(t, "/api/orders/8", ""); response.StatusCode != 404 {
		t.Errorf("an entity that does not exist: %d", response.StatusCode)
	}
	slip := r.storage.Blobs.ServiceClient().NewContainerClient("slips").NewBlobClient("7.txt")
	check.Eventually(t, func() bool {
		got, err := slip.DownloadStream(t.Context(), nil)
		if err != nil {
			return false
		}
		defer got.Body.Close()
		text, err := io.ReadAll(got.Body)
		return err == nil && string(text) == "lämp, attempt 1"
	}, "the slip")
}

// Workflows of durable-functions give the results of the package.
func TestNodeWorkflows(t *testing.T) {
	t.Parallel()
	r := run(t, nodeConfig(t, lazulitest.Start(t).ConnectionString(), "node", true))
	for flow, c := range map[string]struct{ input, want string }{
		"flow":     {"[1, 2, 3]", "200 [3,2,4,6,true]"},
		"metadata": {`{"city": "Rome"}`, `200 ["Rome",true,"Rome","string","Rome"]`},
		"countUp":  {"1", "200 5"},
		"broken":   {"1", `500 "never`},
	} {
		response, body := r.get(t, "/api/start/"+flow, c.input)
		got := strings.TrimSpace(response.Status[:4]) + " " + body
		if flow == "broken" {
			if !strings.Contains(body, "never") || !strings.Contains(body, `"runtimeStatus":"Failed"`) {
				t.Errorf("%s: %s", flow, got)
			}
			continue
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", flow, got, c.want)
		}
	}
}

// Requests and responses are streams that an ES module passes on; what goes wrong within one is not hidden.
func TestNodeStreams(t *testing.T) {
	t.Parallel()
	r := run(t, nodeConfig(t, lazulitest.Start(t).ConnectionString(), "nodestream", true))
	large := strings.Repeat("0123456789", 1<<20)
	response, body := r.get(t, "/api/echo/a%20b?x=1", large)
	if response.StatusCode != 200 || body != large || response.Header.Get("X-Name") != "a b" ||
		response.Header.Get("X-Url") != r.url+"/api/echo/a%20b?x=1" || response.Header.Get("X-Ms-Invocation-Id") != "" {
		t.Errorf("%d %v, %d bytes", response.StatusCode, response.Header, len(body))
	}
	if response, body := r.get(t, "/api/fails", ""); response.StatusCode != 500 || body != "" {
		t.Errorf("a function that fails: %d %q", response.StatusCode, body)
	}
	if response, body := r.get(t, "/api/nothing", ""); response.StatusCode > 204 || body != "" {
		t.Errorf("a function that returns nothing: %d %q", response.StatusCode, body)
	}
	broken, err := http.Get(r.url + "/api/breaks")
	if err == nil {
		defer broken.Body.Close()
		if text, err := io.ReadAll(broken.Body); err == nil && broken.StatusCode == 200 {
			t.Errorf("a response that is not complete looks complete: %q", text)
		}
	}
	if response, body := r.get(t, "/api/echo/after", "still here"); response.StatusCode != 200 || body != "still here" {
		t.Errorf("%d %q", response.StatusCode, body)
	}
}

// Apps of model v3 need no package.
func TestNodeModel3(t *testing.T) {
	t.Parallel()
	r := run(t, nodeConfig(t, lazulitest.Start(t).ConnectionString(), "node3", false))
	for range 10 { // The order of the inputs is always the same.
		response, body := r.get(t, "/api/hello/ada?q=1", `{"a": [1]}`)
		if response.StatusCode != 201 || body != `{"who":"ada","q":"1","body":{"a":[1]}}` ||
			response.Header.Get("X-Rows") != "0" {
			t.Fatalf("%d %v %q", response.StatusCode, response.Header, body)
		}
	}
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	part, err := w.CreateFormFile("f", "a.txt")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = part.Write([]byte("content\r\nof it"))
	_ = w.Close()
	posted, err := http.Post(r.url+"/api/hello/form", w.FormDataContentType(), &form)
	if err != nil {
		t.Fatal(err)
	}
	defer posted.Body.Close()
	if text, err := io.ReadAll(posted.Body); err != nil ||
		!strings.Contains(string(text), `"body":"a.txtcontent\r\nof it"`) {
		t.Errorf("%s, %v", text, err)
	}
	if got := take(t, r, "out-queue", 2); got["ada 1"] == 0 || got["form 1"] == 0 {
		t.Errorf("got %v", got)
	}
}

func TestNodeKills(t *testing.T) {
	t.Parallel()
	r := run(t, nodeConfig(t, lazulitest.Start(t).ConnectionString(), "node", true, "FUNCTIONS_WORKER_PROCESS_COUNT=2"))
	killUnderLoad(t, r)
}

func TestNodeKeys(t *testing.T) {
	t.Parallel()
	c := nodeConfig(t, lazulitest.Start(t).ConnectionString(), "node", true)
	c.Keys = filepath.Join(c.Dir, "keys.json")
	if err := os.WriteFile(c.Keys, []byte(`{"host.master": "m", "host.systemKey.durabletask_extension": "d"}`),
		0o600); err != nil {
		t.Fatal(err)
	}
	checkKeys(t, run(t, c), "/api/start/flow", "/runtime/webhooks/durabletask/orchestrators/flow", "[1, 2, 3]")
}
