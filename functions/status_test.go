package functions

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"
	"weak"

	"github.com/lazuli-storage/lazuli/internal/recent"
	"github.com/lazuli-storage/lazuli/internal/test/check"
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
		"Tick/function.json": tickFunction, "Off/function.json": tickFunction},
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			text, _ := io.ReadAll(r.Body)
			if strings.Contains(string(text), "wrong") { // a word that no hexadecimal ID contains
				http.Error(w, "no good", http.StatusInternalServerError)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"Logs": ["a line of %s"], "Outputs": {"res": {"body": "hello"}}}`, r.URL.Path)
		}), "AzureWebJobs.Off.Disabled=true")
	put(t, r.storage, "in-queue", "wrong")
	var q FunctionStatus
	find := func(name string) FunctionStatus {
		f, err := r.FunctionStatus(name)
		check.OK(t, err)
		return f
	}
	logs := func(name string, i InvocationStatus) []LogRecord {
		kept, err := r.Invocation(name, i.ID)
		check.OK(t, err)
		return kept.Logs
	}
	eventually(t, "the message fails", func() bool { q = find("Q"); return q.Failed > 0 })
	i := q.Invocations[len(q.Invocations)-1] // the first one
	if q.Source != "in-queue" || q.Trigger != "queueTrigger" || !strings.Contains(i.Error, "500") ||
		i.Running || i.ID == "" || !strings.Contains(i.Reason, "in-queue") {
		t.Errorf("%+v", q)
	}
	if l := logs("q", i); len(l) != 2 || l[1].Level != "ERROR" ||
		!strings.Contains(l[1].Message, "Executed 'Functions.Q' (Failed") {
		t.Errorf("%+v", l)
	}
	if ran, err := r.RunNow(t.Context(), "hello", Run{Input: "{}"}); err != nil || ran.Status != 200 ||
		ran.Body != "hello" {
		t.Errorf("running an HTTP trigger: %+v, %v", ran, err)
	}
	if f := find("Hello"); f.URL != r.url[:4]+"://localhost:"+r.url[len("http://127.0.0.1:"):]+"/api/Hello" ||
		f.Source != "POST /api/Hello" || f.Succeeded != 1 || len(f.Invocations) != 1 ||
		logs("Hello", f.Invocations[0])[1].Message != "a line of /Hello" {
		t.Errorf("%+v", f)
	}
	for range recent.Kept + 3 {
		_, err := r.RunNow(t.Context(), "Tick", Run{})
		check.OK(t, err)
	}
	if f := find("Tick"); f.Succeeded != recent.Kept+3 || len(f.Invocations) != recent.Kept || f.Running != 0 ||
		sum(f.LastHour.Succeeded) != recent.Kept+3 || sum(f.LastHour.Failed) != 0 {
		t.Errorf("%d succeeded, %d kept, %d run, by the minute %v", f.Succeeded, len(f.Invocations), f.Running, f.LastHour)
	}
	if f := find("Off"); !f.Disabled || f.Example != nil {
		t.Errorf("%+v", f)
	}
	if _, err := r.RunNow(t.Context(), "Off", Run{}); !errors.Is(err, ErrNoFunction) {
		t.Errorf("a function that is disabled: %v", err)
	}
	if _, err := r.RunNow(t.Context(), "Q", Run{Input: "wrong"}); err == nil {
		t.Error("a failed invocation gives no error")
	}
	// The message comes five times; a failure among the successes below would be one of those that are kept with them.
	const failed = 6
	eventually(t, "the message has failed for good", func() bool { return find("Q").Failed == failed })
	for range recent.Kept + 3 {
		_, err := r.RunNow(t.Context(), "Q", Run{Input: "good"})
		check.OK(t, err)
	}
	if f := find("Q"); len(f.Invocations) != recent.Kept+failed || f.Invocations[recent.Kept-1].Error != "" ||
		f.Invocations[recent.Kept].Error == "" || len(f.Invocations[recent.Kept].Logs) != 0 {
		t.Errorf("after %d failures and successes: %+v", failed, f.Invocations)
	}
	if _, err := r.Invocation("Q", "none"); !errors.Is(err, ErrNoInvocation) {
		t.Errorf("an invocation that is not kept: %v", err)
	}
}

func sum(list []int64) (n int64) {
	for _, v := range list {
		n += v
	}
	return n
}

// What is kept of an invocation is bounded, and does not hold what it was called with.
func TestPastIsBounded(t *testing.T) {
	t.Parallel()
	p := &past{functions: map[string]*functionPast{}}
	call := func() weak.Pointer[invocation] {
		inv := &invocation{function: &function{name: "F"}, trigger: make([]byte, 1<<20), kept: &invocationPast{}}
		p.begin("F", inv.kept, InvocationStatus{})
		for range 2 * keptLogs {
			inv.kept.add(slog.NewRecord(time.Now(), slog.LevelInfo, strings.Repeat("é", 4<<10), 0))
		}
		p.end("F", inv.kept, errors.New(strings.Repeat("x", 1<<20)))
		return weak.Make(inv)
	}
	w := call()
	runtime.GC()
	if w.Value() != nil {
		t.Error("what is kept holds the invocation")
	}
	kept, size := p.functions["F"].calls.All()[0], 0
	for _, l := range kept.Logs {
		size += len(l.Message)
	}
	if size > keptLogAll+keptLogText || kept.Dropped != 2*keptLogs-len(kept.Logs) || len(kept.Error) > keptLogText+3 {
		t.Errorf("%d bytes of logs, %d records dropped, an error of %d bytes", size, kept.Dropped, len(kept.Error))
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
	status, text = ask("GET", "hello", "", "")
	var f FunctionStatus
	if err := json.Unmarshal([]byte(text), &f); err != nil || status != 200 || len(f.Invocations) != 1 ||
		strings.Contains(text, `"logs"`) {
		t.Fatalf("%d %s", status, text)
	}
	status, text = ask("GET", "Hello/invocations/"+f.Invocations[0].ID, "", "")
	if status != 200 || !strings.Contains(text, `"logs":[{`) {
		t.Errorf("%d %s", status, text)
	}
	for _, path := range []string{"none", "none/invocations/x", "Hello/invocations/x"} {
		if status, text := ask("GET", path, "", ""); status != 404 || !strings.Contains(text, `"error":`) {
			t.Errorf("%s: %d %s", path, status, text)
		}
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
	eventually(t, "the call ends", func() bool { return r.Status(t.Context()).Functions[0].Succeeded == 1 })
}
