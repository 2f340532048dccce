package customhandler

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

const (
	helloFunction = `{"bindings": [{"type": "httpTrigger", "direction": "in", "name": "req", "methods": ["post"]},
		{"type": "http", "direction": "out", "name": "res"}]}`
	tickFunction = `{"bindings": [{"type": "timerTrigger", "direction": "in", "name": "t", "schedule": "0 0 0 1 1 *"}]}`
)

// The state of the functions has counts, the last invocations and their logs; running one by hand adds to it.
func TestStatus(t *testing.T) {
	t.Parallel()
	r := run(t, map[string]string{"Q/function.json": queueFunction, "Hello/function.json": helloFunction,
		"Tick/function.json": tickFunction, "Off/function.json": `{"disabled": true, ` + tickFunction[1:]},
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			text, _ := io.ReadAll(r.Body)
			if strings.Contains(string(text), "bad") {
				http.Error(w, "no good", http.StatusInternalServerError)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"Logs": ["a line of %s"], "Outputs": {"res": {"body": "hello"}}}`, r.URL.Path)
		}))
	put(t, r.storage, "in-queue", "bad")
	var q FunctionStatus
	find := func(name string) FunctionStatus {
		for _, f := range r.Status().Functions {
			if f.Name == name {
				return f
			}
		}
		t.Fatal("no function", name)
		return q
	}
	eventually(t, "the message fails", func() bool { q = find("Q"); return q.Failed > 0 })
	i := q.Invocations[len(q.Invocations)-1] // the first one
	if q.Source != "in-queue" || q.Trigger != "queueTrigger" || !strings.Contains(i.Error, "500") ||
		i.Running || i.ID == "" || !strings.Contains(i.Reason, "in-queue") || len(i.Logs) != 2 ||
		i.Logs[1].Level != "ERROR" || !strings.Contains(i.Logs[1].Message, "Executed 'Functions.Q' (Failed") {
		t.Errorf("%+v", q)
	}
	if ran, err := r.RunNow(t.Context(), "hello", Run{Input: "{}"}); err != nil || ran.Status != 200 ||
		ran.Body != "hello" {
		t.Errorf("running an HTTP trigger: %+v, %v", ran, err)
	}
	if f := find("Hello"); f.URL != r.url[:4]+"://localhost:"+r.url[len("http://127.0.0.1:"):]+"/api/Hello" ||
		f.Source != "POST /api/Hello" || f.Succeeded != 1 || len(f.Invocations) != 1 ||
		f.Invocations[0].Logs[1].Message != "a line of /Hello" {
		t.Errorf("%+v", f)
	}
	for range keptInvocations + 3 {
		if _, err := r.RunNow(t.Context(), "Tick", Run{}); err != nil {
			t.Fatal(err)
		}
	}
	if f := find("Tick"); f.Succeeded != keptInvocations+3 || len(f.Invocations) != keptInvocations || f.Running != 0 {
		t.Errorf("%d succeeded, %d kept, %d run", f.Succeeded, len(f.Invocations), f.Running)
	}
	if f := find("Off"); !f.Disabled || f.Example != nil {
		t.Errorf("%+v", f)
	}
	if _, err := r.RunNow(t.Context(), "Off", Run{}); !errors.Is(err, ErrNoFunction) {
		t.Errorf("a function that is disabled: %v", err)
	}
	if _, err := r.RunNow(t.Context(), "Q", Run{Input: "bad"}); err == nil {
		t.Error("a failed invocation gives no error")
	}
}

// The same over HTTP.
func TestStatusHandler(t *testing.T) {
	t.Parallel()
	handler, _ := record(`{"Outputs": {"res": {"statusCode": 201}}}`)
	r := run(t, map[string]string{"Hello/function.json": helloFunction}, handler)
	ask := func(method, path, body, origin string) (int, string) {
		request, err := http.NewRequestWithContext(t.Context(), method, r.url+"/admin/lazuli/"+path,
			bytes.NewReader([]byte(body)))
		if err != nil {
			t.Fatal(err)
		}
		if origin != "" {
			request.Header.Set("Origin", origin)
		}
		got, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer got.Body.Close()
		text, err := io.ReadAll(got.Body)
		if err != nil {
			t.Fatal(err)
		}
		return got.StatusCode, string(text)
	}
	if status, text := ask("POST", "Hello/run", `{"input": "a"}`, ""); status != 200 || !strings.Contains(text, `201`) {
		t.Errorf("%d %s", status, text)
	}
	status, text := ask("GET", "", "", "")
	var s Status
	if err := json.Unmarshal([]byte(text), &s); err != nil || status != 200 || s.Language != "custom" ||
		len(s.Functions) != 1 || s.Functions[0].Succeeded != 1 || *s.Functions[0].Example == "" {
		t.Errorf("%d %s", status, text)
	}
	for _, c := range []struct {
		path, body, origin string
		want               int
	}{
		{"None/run", "{}", "", 404}, {"Hello/run", "-", "", 400}, {"Hello/run", "{}", "http://elsewhere.example", 403},
		{"Hello/run", `{"method": "GET"}`, "", 200}, {"Hello/run", `{"method": " "}`, "", 400},
	} {
		if status, text := ask("POST", c.path, c.body, c.origin); status != c.want {
			t.Errorf("%+v: %d %s", c, status, text)
		}
	}
}

// A function with a warmup trigger is called once, when the host has started.
func TestWarmup(t *testing.T) {
	t.Parallel()
	handler, calls := record(`{}`)
	r := run(t, map[string]string{"Warm/function.json": `{"bindings": [{"type": "warmupTrigger", "direction": "in",
		"name": "context"}]}`}, handler)
	if a := next(t, calls); a.path != "/Warm" {
		t.Errorf("asked at %s", a.path)
	}
	eventually(t, "the call ends", func() bool { return r.Status().Functions[0].Succeeded == 1 })
}
