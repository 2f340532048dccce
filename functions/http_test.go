package functions

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/workers"
)

const httpOnly = `{"bindings": [{"type": "httpTrigger", "name": "req", "authLevel": "function"%s}, {"type": "http", "direction": "out", "name": "res"}]}`

func TestHTTPTrigger(t *testing.T) {
	t.Parallel()
	handler,
		calls := record(`{"Outputs": {"res": {"statusCode": 201, "headers": {"X-Mine": "yes"}, "body": {"made": true}}}}`)
	r := run(t, map[string]string{"H/function.json": fmt.Sprintf(httpOnly,
		`, "route": "orders/{id:int}/{format?}", "methods": ["post", "put"]`)}, handler)
	if got := do(t, "POST", r.url+"/api/orders/7?a=1&b=x%20y&a=2&code=secret", `{"item": "lamp"}`, "Content-Type",
		"application/json", "X-One", "1"); got != `201 {"made":true}` {
		t.Error(got)
	}
	a := next(t, calls)
	if a.path != "/H" {
		t.Errorf("asked at %s", a.path)
	}
	req, _ := a.body.Data["req"].(map[string]any)
	for name, want := range map[string]string{
		"Url": r.url + "/api/orders/7?a=1&b=x%20y&a=2&code=secret", "Method": "POST", "Body": `{"item": "lamp"}`,
		"Query": "map[a:1,2 b:x y code:secret]", "Params": "map[format:<nil> id:7]",
	} {
		if got := fmt.Sprint(req[name]); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	headers, _ := req["Headers"].(map[string]any)
	for name, want := range map[string]string{"X-One": "[1]", "Content-Type": "[application/json]",
		"Content-Length": "[16]", "Host": "[" + strings.TrimPrefix(r.url, "http://") + "]"} {
		if got := fmt.Sprint(headers[name]); got != want {
			t.Errorf("header %s is %s, want %s", name, got, want)
		}
	}
	m := a.body.Metadata
	if m["item"] != `"lamp"` || m["id"] != `"7"` || m["a"] != `"1,2"` || m["code"] != nil ||
		fmt.Sprint(m["Query"]) != "map[a:1,2 b:x y code:secret]" {
		t.Errorf("Metadata is %v", m)
	}
	if _, ok := m["format"]; ok {
		t.Error("an absent parameter is in Metadata")
	}

	do(t, "PUT", r.url+"/api/orders/7/pdf", "\x00\xff", "Content-Type", "application/octet-stream")
	if req, _ := next(t, calls).body.Data["req"].(map[string]any); req["Body"] != "AP8=" ||
		fmt.Sprint(req["Params"]) != "map[format:pdf id:7]" {
		t.Errorf("bytes: %v", req)
	}
	do(t, "PUT", r.url+"/api/orders/7", "")
	if req, _ := next(t, calls).body.Data["req"].(map[string]any); req["Body"] != nil {
		t.Errorf("no body: %v", req)
	}
	for _, other := range []string{"GET /api/orders/7", "POST /api/orders/x", "POST /orders/7", "POST /api/orders",
		"POST /api/orders/7/a/b", "POST /api"} {
		method, path, _ := strings.Cut(other, " ")
		if got := do(t, method, r.url+path, ""); !strings.HasPrefix(got, "404") {
			t.Errorf("%s: %s", other, got)
		}
	}
}

func TestHTTPFailure(t *testing.T) {
	t.Parallel()
	handler := http.HandlerFunc(func(w http.ResponseWriter,
		r *http.Request) {
		http.Error(w, "secret details", http.StatusBadGateway)
	})
	r := run(t, map[string]string{"H/function.json": fmt.Sprintf(httpOnly, "")}, handler)
	if got := get(t, r.url+"/api/H"); got != "500 " {
		t.Error(got)
	}
}

// Forwarding: the handler gets the request itself, and the client gets its answer.
func TestForwarding(t *testing.T) {
	t.Parallel()
	var seen string
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		seen = fmt.Sprintf("%s %s %s %s %s|%s|%v", r.Method, r.RequestURI, r.Host, r.Header.Get("X-One"), body,
			r.Header.Get("User-Agent"), r.Header.Get("X-Azure-Functions-InvocationId") != "")
		w.Header().Set("Location", "/elsewhere")
		w.Header().Set("X-Back", "b")
		w.WriteHeader(http.StatusFound)
		_, _ = io.WriteString(w, "there")
	})
	files := map[string]string{
		"host.json":       `{"version": "2.0", "customHandler": {"enableForwardingHttpRequest": true, "description": {"defaultExecutablePath": "x"}}, "extensions": {"http": {"routePrefix": "", "customHeaders": {"X-All": "1"}}}}`,
		"H/function.json": fmt.Sprintf(httpOnly, `, "route": "a/{b}"`),
		"J/function.json": `{"bindings": [{"type": "httpTrigger", "name": "req"}, {"type": "http", "direction": "out", "name": "res"}, {"type": "queue", "direction": "out", "name": "q", "queueName": "qqq"}]}`,
	}
	r := run(t, files, handler)
	if got := do(t, "PATCH", r.url+"/a/x%2Fy?q=1&%zz", "body", "X-One", "1", "User-Agent", "me", "Host",
		"app.localhost"); got != "302 there" {
		t.Error(got)
	}
	if want := "PATCH /a/x%2Fy?q=1&%zz app.localhost 1 body|me Azure-Functions-Host/" + HostVersion +
		"|true"; seen != want {
		t.Errorf("got  %s\nwant %s", seen, want)
	}
	// A function with another output is not forwarded.
	if got := do(t, "POST", r.url+"/J", ""); got != "500 " || !strings.HasPrefix(seen, "POST /J ") ||
		!strings.Contains(seen, `"Data":{"req":{`) {
		t.Errorf("%s, %s", got, seen)
	}
}

// The older section httpWorker forwards always, to the function's name.
func TestHTTPWorker(t *testing.T) {
	t.Parallel()
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_,
			_ = io.WriteString(w, r.Method+" "+r.RequestURI)
	})
	r := run(t, map[string]string{
		"host.json":       `{"version": "2.0", "httpWorker": {"description": {"defaultExecutablePath": "x"}}}`,
		"H/function.json": fmt.Sprintf(httpOnly, `, "route": "a/{b}"`),
	}, handler)
	if got := get(t, r.url+"/api/a/x?q=1"); got != "200 GET /H?q=1" {
		t.Error(got)
	}
}

func TestCORS(t *testing.T) {
	t.Parallel()
	handler, _ := record(`{}`)
	r := run(t, map[string]string{
		"local.settings.json": `{"Host": {"CORS": "https://app.example", "CORSCredentials": true}}`,
		"H/function.json":     fmt.Sprintf(httpOnly, ""),
	}, handler)
	headers := func(method, origin string, more ...string) http.Header {
		t.Helper()
		q, err := http.NewRequestWithContext(t.Context(), method, r.url+"/api/H", nil)
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Origin", origin)
		for i := 0; i < len(more); i += 2 {
			q.Header.Set(more[i], more[i+1])
		}
		w, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		_ = w.Body.Close()
		return w.Header
	}
	if h := headers("GET", "https://app.example"); h.Get("Access-Control-Allow-Origin") != "https://app.example" ||
		h.Get("Access-Control-Allow-Credentials") != "true" {
		t.Error(h)
	}
	if h := headers("GET", "https://other.example"); h.Get("Access-Control-Allow-Origin") != "" {
		t.Error(h)
	}
	if h := headers("OPTIONS", "https://app.example", "Access-Control-Request-Method", "PUT",
		"Access-Control-Request-Headers", "x-a"); h.Get("Access-Control-Allow-Methods") != "PUT" ||
		h.Get("Access-Control-Allow-Headers") != "x-a" {
		t.Error(h)
	}
}

// A web page that the developer visits cannot post to the functions, unless the app allows its origin.
func TestOtherSitesCannotPost(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		cors, method, origin, site string
		status                     string
	}{
		{"", "POST", "", "", "200"},
		{"", "POST", "https://evil.example", "cross-site", "403"},
		{"", "POST", "https://evil.example", "", "403"},
		{"", "POST", "null", "", "403"},
		{"", "PUT", "", "cross-site", "403"},
		{"", "GET", "https://evil.example", "cross-site", "200"}, // a link, whose answer the page does not see
		{"https://app.example", "POST", "https://app.example", "cross-site", "200"},
		{"https://app.example", "POST", "https://evil.example", "cross-site", "403"},
		{"*", "POST", "https://evil.example", "cross-site", "200"},
	} {
		handler, _ := record(`{}`)
		files := map[string]string{"H/function.json": fmt.Sprintf(httpOnly, "")}
		if tc.cors != "" {
			files["local.settings.json"] = `{"Host": {"CORS": "` + tc.cors + `"}}`
		}
		r := run(t, files, handler)
		headers := []string{"Content-Type", "text/plain"}
		if tc.origin != "" {
			headers = append(headers, "Origin", tc.origin)
		}
		if tc.site != "" {
			headers = append(headers, "Sec-Fetch-Site", tc.site)
		}
		if got := do(t, tc.method, r.url+"/api/H", "{}", headers...); !strings.HasPrefix(got, tc.status) {
			t.Errorf("%+v: %s", tc, got)
		}
	}
}

// extensions.http bounds what runs at once, and what waits for it.
func TestHTTPLimits(t *testing.T) {
	t.Parallel()
	begun, release := make(chan bool, 10), make(chan bool)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begun <- true
		<-release
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, "{}")
	})
	r := run(t, map[string]string{
		"host.json":       `{"version": "2.0", "customHandler": {"description": {"defaultExecutablePath": "x"}}, "extensions": {"http": {"maxConcurrentRequests": 1, "maxOutstandingRequests": 2}}}`,
		"H/function.json": fmt.Sprintf(httpOnly, ""),
	}, handler)
	results := make(chan string, 10)
	ask := func() { results <- tryGet(r.url + "/api/H")[:3] }
	go ask()
	<-begun
	go ask()
	refused := 0
	eventually(t, "a third is refused", func() bool {
		// The second may not have arrived yet; then this one takes its place and waits.
		go ask()
		if got := <-results; got == "429" {
			refused++
		}
		return refused > 0
	})
	close(release)
	for range 2 {
		if got := <-results; got != "200" {
			t.Error(got)
		}
	}
}

// An invocation whose client is gone ends like any other.
func TestCallerGoesAway(t *testing.T) {
	t.Parallel()
	begun, release := make(chan bool), make(chan bool)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begun <- true
		<-release
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"Outputs": {"q": "done"}}`)
	})
	r := run(t,
		map[string]string{"H/function.json": `{"bindings": [{"type": "httpTrigger", "name": "req"}, {"type": "http", "direction": "out", "name": "res"},
		{"type": "queue", "direction": "out", "name": "q", "queueName": "done-queue"}]}`}, handler)
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		q, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+"/api/H", nil)
		if err == nil {
			var got *http.Response
			if got, err = http.DefaultClient.Do(q); err == nil {
				got.Body.Close()
			}
		}
		failed <- err
	}()
	<-begun
	cancel()
	if err := <-failed; err == nil {
		t.Error("the request did not fail")
	}
	close(release)
	eventually(t, "the output is written", func() bool { return len(messages(t, r.storage, "done-queue")) == 1 })
}

// functionTimeout breaks an invocation off.
func TestFunctionTimeout(t *testing.T) {
	t.Parallel()
	cancelled := make(chan bool, 10)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // Only then does the server look for the end of the connection.
		<-r.Context().Done()
		cancelled <- true
	})
	r := run(t, map[string]string{"host.json": hostJSON("x", `, "functionTimeout": "00:00:01"`),
		"H/function.json": fmt.Sprintf(httpOnly, "")}, handler)
	eventually(t, "the handler learns of it", func() bool {
		if got := get(t, r.url+"/api/H"); got != "500 " {
			t.Error(got)
		}
		select {
		case <-cancelled:
			return true
		case <-time.After(patience / 10): // On a slow machine the time may be over before the request is there.
			return false
		}
	})
	if !strings.Contains(r.log.String(), workers.ErrTimeout.Error()) {
		t.Error("the log does not say why")
	}
}

func TestAdmin(t *testing.T) {
	t.Parallel()
	handler, calls := record(`{}`)
	r := run(t, map[string]string{
		"Q/function.json": queueFunction,
		"T/function.json": `{"bindings": [{"type": "timerTrigger", "name": "timer", "schedule": "0 0 0 1 1 *"}]}`,
		"B/function.json": `{"bindings": [{"type": "blobTrigger", "name": "blob", "path": "incoming/{name}.txt", "dataType": "binary"}]}`,
		"H/function.json": fmt.Sprintf(httpOnly, ""),
	}, handler)
	if got := do(t, "POST", r.url+"/admin/functions/q", `{"input": "{\"a\": 1}"}`); got != "202 " {
		t.Error(got)
	}
	if a := next(t, calls); a.path != "/Q" || a.body.Data["item"] != `"{\"a\": 1}"` || a.body.Metadata["a"] != `"1"` {
		t.Errorf("%+v", a)
	}
	if got := do(t, "POST", r.url+"/admin/functions/T", `{}`); got != "202 " {
		t.Error(got)
	}
	if a := next(t, calls); a.path != "/T" || a.body.Data["timer"].(map[string]any)["IsPastDue"] != false {
		t.Errorf("%+v", a)
	}
	if _, err := r.storage.Blobs.CreateContainer(t.Context(), "other", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := r.storage.Blobs.UploadBuffer(t.Context(), "other", "x.txt", []byte("hello"), nil); err != nil {
		t.Fatal(err)
	}
	if got := do(t, "POST", r.url+"/admin/functions/B", `{"input": "other/x.txt"}`); got != "202 " {
		t.Error(got)
	}
	if a := next(t, calls); a.path != "/B" || a.body.Data["blob"] != "aGVsbG8=" || a.body.Metadata["name"] != `"x"` {
		t.Errorf("%+v", a)
	}
	for _, c := range []struct{ method, path, body, want string }{
		{"POST", "/admin/functions/H", `{}`, "400 an HTTP trigger is called at its own address: " + r.url + "/api/H"},
		{"POST", "/admin/functions/Q", `x`, `400 want a body like {"input": "text"}`},
		{"POST", "/admin/functions/Q", `null`, `400 want a body like {"input": "text"}`},
		{"POST", "/admin/functions/none", `{}`, "404 "},
		{"GET", "/admin/functions/none", "", "404 "},
		{"GET", "/admin/functions/Q/status", "", "200 {}"},
		{"GET", "/admin/host/ping", "", "200 "},
		{"POST", "/admin/host/synctriggers", "", "404 "},
	} {
		if got := do(t, c.method, r.url+c.path, c.body); got != c.want {
			t.Errorf("%s %s: %s, want %s", c.method, c.path, got, c.want)
		}
	}
	var status map[string]any
	if got, ok := strings.CutPrefix(get(t, r.url+"/admin/host/status"), "200 "); !ok ||
		json.Unmarshal([]byte(got), &status) != nil || status["state"] != "Running" {
		t.Error(got)
	}
	var list []map[string]any
	if got, ok := strings.CutPrefix(get(t, r.url+"/admin/functions"), "200 "); !ok ||
		json.Unmarshal([]byte(got), &list) != nil || len(list) != 4 || list[1]["invoke_url_template"] != r.url+"/api/H" {
		t.Error(got)
	}
	if got := get(t, r.url+"/"); !strings.Contains(got, "up and running") ||
		!strings.Contains(got, "Q: queueTrigger in-queue") {
		t.Error(got)
	}
	// A page of another site must not call functions behind the user's back.
	if got := do(t, "POST", r.url+"/admin/functions/T", `{}`, "Origin", "https://evil.example"); !strings.HasPrefix(got,
		"403") {
		t.Error(got)
	}
}
