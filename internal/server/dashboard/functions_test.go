package dashboard_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/server/dashboard"
)

// Functions of a running app are listed, run, and shown with what they logged. Only the apps of the options are called.
func TestFunctions(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 10)
	mux := http.NewServeMux()
	answer := func(pattern, body string) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if text, _ := io.ReadAll(r.Body); r.Method != http.MethodGet {
				asked <- r.URL.Path + " " + string(text)
			}
			_, _ = io.WriteString(w, body)
		})
	}
	const (
		hello = `{"name": "hello", "trigger": "httpTrigger", "source": "POST /api/hello", "url": "http://app/api/hello",
			"example": "{\"name\": \"<Ada>\"}", "succeeded": 4, "failed": 1,
			"lastHour": {"succeeded": [4, 0], "failed": [0, 1]}`
		work = `{"name": "work", "trigger": "queueTrigger", "source": "jobs", "example": "{}"}`
		step = `{"name": "step", "trigger": "activityTrigger"}`
		i1   = `{"id": "i1", "reason": "by hand", "began": "2026-01-01T00:00:00Z", "milliseconds": 12,
			"error": "no <tea>"`
	)
	answer("GET /admin/lazuli/{$}", `{"language": "python", "functions": [`+hello+`}, `+work+`, `+step+`]}`)
	answer("GET /admin/lazuli/hello", hello+`, "invocations": [`+i1+`}]}`)
	answer("GET /admin/lazuli/hello/invocations/i1", i1+`, "logs": [{"time": "2026-01-01T00:00:00Z", "level": "ERROR",
		"message": "brew"}]}`)
	answer("GET /admin/lazuli/work", work)
	answer("GET /admin/lazuli/step", step)
	mux.HandleFunc("GET /admin/lazuli/hello/invocations/{id}", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"error": "the invocation is not kept any more: i2"}`)
	})
	answer("POST /admin/lazuli/work/run", `{}`)
	answer("POST /admin/lazuli/hello/run", `{"status": 200, "body": "hi <Ada>"}`)
	app := httptest.NewServer(mux)
	t.Cleanup(app.Close)
	address := strings.TrimPrefix(app.URL, "http://")
	s := open(t, func(o *dashboard.Options) { o.FunctionHosts = []string{address, "127.0.0.1:1"} })

	s.shows("/ui/functions", "hello", "python", "queueTrigger", "/api/hello", "No function app answers at 127.0.0.1:1")
	page := "/ui/functions/" + url.PathEscape(address)
	s.shows(page+"/hello", "{&#34;name&#34;: &#34;&lt;Ada&gt;&#34;}", "4 succeeded, 1 failed", "no &lt;tea&gt;",
		"Calls of the last hour", "at most 4 in a minute")
	s.shows(page+"/hello/i1", "brew", "by hand", "12.0 ms")
	if status, body, _ := s.do(http.MethodGet, page+"/hello/i2", nil, nil); status != http.StatusNotFound ||
		!strings.Contains(body, "not kept any more") {
		t.Errorf("an invocation that is gone: %d %s", status, body)
	}
	s.shows(page+"/work", "Run now", "There were none since the start",
		`href="/ui/accounts/devstoreaccount1/queues/jobs"`)
	s.shows(page+"/step", "It cannot be run by hand")

	if to := s.post(page+"/work", "action", "run", "input", "x"); !strings.HasSuffix(to, "/work?done=invoked") {
		t.Errorf("after a run: %s", to)
	}
	if got := <-asked; got != `/admin/lazuli/work/run {"input":"x","method":"","path":""}` {
		t.Error(got)
	}
	status, body, _ := s.send(page+"/hello", s.token(), "action", "run", "method", "PUT", "path", "/api/hello", "input",
		"in")
	if status != http.StatusOK || !strings.Contains(body, "hi &lt;Ada&gt;") || !strings.Contains(body, "200 OK") {
		t.Errorf("%d: %s", status, body)
	}
	if got := <-asked; got != `/admin/lazuli/hello/run {"input":"in","method":"PUT","path":"/api/hello"}` {
		t.Error(got)
	}
	for _, path := range []string{"", "@evil.example/", ".evil.example/", "?x"} {
		if status, body, _ := s.send(page+"/hello", s.token(), "action", "run", "method", "POST", "path",
			path); status != http.StatusBadRequest {
			t.Errorf("the path %q: %d: %s", path, status, body)
		}
	}
	if status, _, _ := s.send(page+"/step", s.token(), "action", "run"); status != http.StatusBadRequest {
		t.Errorf("a step of a workflow: %d", status)
	}
	if status, _, _ := s.do(http.MethodGet, "/ui/functions/evil.example:80/hello", nil,
		nil); status != http.StatusNotFound {
		t.Errorf("a foreign app: %d", status)
	}
	if status, _, _ := s.send(page+"/work", "wrong", "action", "run"); status != http.StatusForbidden {
		t.Errorf("without the token: %d", status)
	}
}
