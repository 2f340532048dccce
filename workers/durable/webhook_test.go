package durable_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	inner "github.com/lazuli-storage/lazuli/internal/durable/webhook"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/lazulitest"
	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/durable"
	"github.com/lazuli-storage/lazuli/workers/durable/entity"
	"github.com/lazuli-storage/lazuli/workers/durable/webhook"
)

// managementAPI is an app with workflows and the management API of its hub.
type managementAPI struct {
	t      *testing.T
	url    string
	client *durable.Client
	// broken makes the activity "work" fail.
	broken atomic.Bool
}

func newAPI(t *testing.T) *managementAPI {
	t.Helper()
	a := &managementAPI{t: t}
	account := lazulitest.Start(t).Account(t)
	engine := durable.NewEngine(durable.Options{Hub: "Web", Partitions: 1})
	app := workers.New(workers.Config{Storage: account.Storage, Logger: slog.New(slog.DiscardHandler), Durable: engine})
	durable.Register(app, "upper", func(ctx *durable.Context, in string) (string, error) {
		return durable.Call[string](ctx, "work", in)
	})
	durable.Register(app, "waits", func(ctx *durable.Context, _ any) (string, error) {
		return durable.WaitForEvent[string](ctx, "go", -1)
	})
	durable.Register(app, "parent", func(ctx *durable.Context, depth int) (any, error) {
		if depth == 0 {
			return durable.WaitForEvent[string](ctx, "go", -1)
		}
		return durable.CallWorkflow[any](ctx, "parent", depth-1)
	})
	workers.Activity(app, "work", func(_ context.Context, in string) (string, error) {
		if a.broken.Load() {
			return "", errors.New("out of order")
		}
		return strings.ToUpper(in), nil
	})
	app.Entity("counter", entity.Operation(new(entity.Kind[int]), "add",
		func(_ *entity.Context, s *int, n int) (any, error) { *s += n; return nil, nil }))
	account.Run(app)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var err error
	if a.client, err = engine.WaitClient(ctx); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(webhook.New(
		webhook.Options{Client: engine.WaitClient, Hub: "Web", Workflows: []string{"upper", "waits", "parent"},
			MaxBody: 1000}))
	t.Cleanup(server.Close)
	a.url = server.URL
	return a
}

// Entities are signalled, read and listed.
func TestEntities(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	for _, key := range []string{"a", "b%2Fc", "d"} {
		a.want(a.ask("POST", "entities/Counter/"+key+"?op=add", "2"), 202, "")
		a.want(a.ask("POST", "entities/counter/"+key+"?op=add", "3"), 202, "")
		check.Eventually(t, func() bool { return a.ask("GET", "entities/counter/"+key, "").body == "5" }, "%s has 5", key)
	}
	type listed struct {
		EntityID struct{ Name, Key string }
		State    *int
	}
	var page, next []listed
	first := a.ask("GET", "entities/counter?top=2&fetchState=true", "")
	a.decode(first, &page)
	if len(page) != 2 || page[1].EntityID.Key != "b/c" || page[1].State == nil || *page[1].State != 5 {
		t.Errorf("the first page is %s", first.body)
	}
	r, err := http.NewRequestWithContext(t.Context(), "GET", a.url+webhook.Path+"entities?top=2&details=true", nil)
	check.OK(t, err)
	r.Header.Set("X-Ms-Continuation-Token", first.header.Get("X-Ms-Continuation-Token"))
	second := a.send(r)
	a.decode(second, &next)
	if len(next) != 1 || next[0].EntityID.Key != "d" || next[0].State != nil || next[0].EntityID.Name != "counter" {
		t.Errorf("the second page is %s", second.body)
	}
	r.Header.Set("X-Ms-Continuation-Token", "x")
	a.want(a.send(r), 400, "continuation")
	a.want(a.ask("GET", "entities/counter?lastOperationTimeFrom=2999-01-01", ""), 200, "[]")
	a.want(a.ask("GET", "entities/nobody", ""), 200, "[]")
	a.want(a.ask("GET", "unmatched", ""), 200, "[]")
}

// The addresses in an answer have the key that the request had.
func TestLinksWithKey(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	var links inner.Links
	a.decode(a.ask("POST", "orchestrators/upper?code=a%26b", `"x"`), &links)
	if !strings.HasSuffix(links.TerminatePostURI, "&code=a%26b") || !strings.HasSuffix(links.StatusQueryGetURI,
		"&code=a%26b") {
		t.Errorf("%+v", links)
	}
}

// answer holds what the API answers.
type answer struct {
	status int
	header http.Header
	body   string
}

// ask sends a request with JSON, to a path below the API's, or to an address that the API gave.
func (a *managementAPI) ask(method, path, body string) answer {
	a.t.Helper()
	if !strings.HasPrefix(path, "http") {
		path = a.url + webhook.Path + path
	}
	r, err := http.NewRequestWithContext(a.t.Context(), method, path, strings.NewReader(body))
	if err != nil {
		a.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	return a.send(r)
}

func (a *managementAPI) send(r *http.Request) answer {
	a.t.Helper()
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		a.t.Fatal(err)
	}
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	if err != nil {
		a.t.Fatal(err)
	}
	return answer{got.StatusCode, got.Header, string(text)}
}

// want checks a status, and that the body has a text.
func (a *managementAPI) want(got answer, status int, part string) {
	a.t.Helper()
	if got.status != status || !strings.Contains(got.body, part) {
		a.t.Errorf("got %d %s, want %d with %q", got.status, got.body, status, part)
	}
}

// decode decodes an answer into to, a pointer.
func (a *managementAPI) decode(got answer, to any) {
	a.t.Helper()
	// A test that asks again decodes into the same variable. The decoder would keep what a former answer said in the
	// fields that this one leaves out: a child that was missing once would stay missing.
	reflect.ValueOf(to).Elem().SetZero()
	if err := json.Unmarshal([]byte(got.body), to); err != nil {
		a.t.Fatalf("%d %s: %v", got.status, got.body, err)
	}
}

func (a *managementAPI) ended(id, status string) {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), 2*time.Minute)
	defer cancel()
	if i, err := a.client.Wait(ctx, id); err != nil || i.Status != status {
		a.t.Fatalf("instance %s: %+v, %v; want %s", id, i, err, status)
	}
}

// until asks until the status of an instance is what is wanted.
func (a *managementAPI) until(id, status string) {
	a.t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for {
		i, err := a.client.Get(a.t.Context(), id)
		if err == nil && i.Status == status {
			return
		}
		if time.Now().After(deadline) {
			a.t.Fatalf("instance %s: %+v, %v; want %s", id, i, err, status)
		}
	}
}

func TestStartAndStatus(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	got := a.ask("POST", "orchestrators/upper/one", `"tea"`)
	a.want(got, 202, `"id":"one"`)
	var links map[string]string
	a.decode(got, &links)
	if got.header.Get("Location") != links["statusQueryGetUri"] || got.header.Get("Retry-After") != "10" {
		t.Errorf("headers %v; links %v", got.header, links)
	}
	names := []string{"id", "purgeHistoryDeleteUri", "restartPostUri", "resumePostUri", "sendEventPostUri",
		"statusQueryGetUri", "suspendPostUri", "terminatePostUri"}
	var have []string
	for name := range links {
		have = append(have, name)
	}
	slices.Sort(have)
	if d := cmp.Diff(names, have); d != "" {
		t.Error(d)
	}
	a.ended("one", "Completed")

	got = a.ask("GET", links["statusQueryGetUri"], "")
	a.want(got, 200,
		`"name":"upper","instanceId":"one","runtimeStatus":"Completed","input":"tea","customStatus":null,"output":"TEA","createdTime":"`)
	if strings.Contains(got.body, "historyEvents") || got.header.Get("Location") != "" {
		t.Errorf("got %v %s", got.header, got.body)
	}
	a.want(a.ask("GET", "instances/one?showInput=false", ""), 200, `"input":null`)
	var state struct{ HistoryEvents []map[string]any }
	a.decode(a.ask("GET", "instances/one?SHOWHISTORY=True&showHistoryOutput=true", ""), &state)
	var events []string
	for _, e := range state.HistoryEvents {
		result, _ := json.Marshal(e["Result"])
		name, _ := e["FunctionName"].(string)
		events = append(events, e["EventType"].(string)+" "+name+" "+string(result))
	}
	if d := cmp.Diff([]string{`ExecutionStarted upper null`, `TaskCompleted work "TEA"`, `ExecutionCompleted  "TEA"`},
		events); d != "" {
		t.Error(d)
	}
	if s := a.ask("GET", "instances/one?showHistory=true", "").body; strings.Contains(s, `"Result"`) {
		t.Errorf("results are shown though showHistoryOutput is not set: %s", s)
	}
}

func TestStartRefusals(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.want(a.ask("POST", "orchestrators/nobody", ""), 400, "does not exist")
	a.want(a.ask("POST", "orchestrators/upper", `{"a`), 400, "Invalid JSON content")
	a.want(a.ask("POST", "orchestrators/upper", `"`+strings.Repeat("x", 1000)+`"`), 413, "too large")
	a.want(a.ask("POST", "orchestrators/upper/"+strings.Repeat("x", 300), `"a"`), 400, "instance ID")
	a.want(a.ask("GET", "orchestrators/upper", ""), 404, "")
	a.want(a.ask("POST", "orchestrators/upper?timeout=1&pollingInterval=2", `"a"`), 400, "timeout")
	a.want(a.ask("POST", "orchestrators/upper?timeout=x&pollingInterval=2", `"a"`), 400, "timeout")
	a.want(a.ask("POST", "orchestrators/upper?taskHub=Other", `"a"`), 501, "Other")
	a.want(a.ask("POST", "orchestrators/upper?connection=Other", `"a"`), 501, "Other")
	a.want(a.ask("GET", "entities/counter/a", ""), 404, "")
	a.want(a.ask("GET", "entities?top=0", ""), 400, "top")
	a.want(a.ask("GET", "entities?fetchState=x", ""), 400, "fetchState")
	a.want(a.ask("POST", "entities/counter/a", "1"), 400, "op")
	a.want(a.ask("POST", "entities/counter/a?op=add", "{"), 400, "JSON")
	a.want(a.ask("POST", "entities/counter/"+strings.Repeat("x", 300)+"?op=add", "1"), 400, "instance ID")
	a.want(a.ask("POST", "makeprimary", ""), 501, "leases")
	a.want(a.ask("GET", "nothing", ""), 404, "")
	a.want(a.ask("GET", "instances", ""), 200, "[]")
}

func TestStartAgain(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.want(a.ask("POST", "orchestrators/waits/w", ""), 202, "")
	a.want(a.ask("POST", "orchestrators/waits/w", ""), 409, "w")
	a.want(a.ask("POST", "orchestrators/upper/u?timeout=60&pollingInterval=1", `"tea"`), 200, `"TEA"`)
	a.want(a.ask("POST", "orchestrators/upper/u?timeout=60&pollingInterval=1", `"rice"`), 200, `"RICE"`)
	a.want(a.ask("POST", "orchestrators/waits/v?timeout=0&pollingInterval=0", ""), 202, "statusQueryGetUri")
}

func TestSteering(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.want(a.ask("POST", "orchestrators/waits/w%2F1", ""), 202, "w%2F1")
	a.until("w/1", "Running")
	got := a.ask("GET", "instances/w%2F1", "")
	a.want(got, 202, `"Running"`)
	if got.header.Get("Location") != a.url+webhook.Path+"instances/w%2F1" || got.header.Get("Retry-After") != "5" {
		t.Errorf("headers %v", got.header)
	}
	a.want(a.ask("POST", "instances/w%2F1/suspend?reason=tea", ""), 202, "")
	a.until("w/1", "Suspended")
	a.want(a.ask("POST", "instances/w%2F1/resume", ""), 202, "")
	a.until("w/1", "Running")
	a.want(a.ask("POST", "instances/w%2F1/raiseEvent/go", "{"), 400, "Invalid JSON content")
	r, _ := http.NewRequestWithContext(t.Context(), "POST", a.url+webhook.Path+"instances/w%2F1/raiseEvent/go",
		strings.NewReader(`"x"`))
	a.want(a.send(r), 400, "application/json")
	a.want(a.ask("DELETE", "instances/w%2F1", ""), 412, "terminal state")
	a.want(a.ask("POST", "instances/w%2F1/rewind", ""), 412, "Running")
	a.want(a.ask("POST", "instances/w%2F1/restart?restartWithNewInstanceId=false", ""), 409, "non-terminal")
	a.want(a.ask("POST", "instances/w%2F1/raiseEvent/go", `"done"`), 202, "")
	a.ended("w/1", "Completed")
	for _, operation := range []string{"terminate", "suspend", "resume", "raiseEvent/go"} {
		a.want(a.ask("POST", "instances/w%2F1/"+operation, `1`), 410, "")
		a.want(a.ask("POST", "instances/nobody/"+operation, `1`), 404, "")
	}
	a.want(a.ask("POST", "instances/w%2F1/dance", ""), 404, "")
	a.want(a.ask("GET", "instances/nobody", ""), 404, "")
	a.want(a.ask("DELETE", "instances/nobody", ""), 404, "")
	a.want(a.ask("POST", "instances/nobody/rewind", ""), 404, "nobody")
	a.want(a.ask("POST", "instances/nobody/restart", ""), 400, "InstanceId does not match")

	a.want(a.ask("POST", "orchestrators/waits/t", ""), 202, "")
	a.want(a.ask("POST", "instances/t/terminate?reason=enough", ""), 202, "")
	a.ended("t", "Terminated")
	a.want(a.ask("GET", "instances/t", ""), 200, `"output":"enough"`)
}

func TestRewindAndRestart(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.broken.Store(true)
	a.want(a.ask("POST", "orchestrators/upper/f", `"tea"`), 202, "")
	a.ended("f", "Failed")
	a.want(a.ask("GET", "instances/f", ""), 200, "out of order")
	a.want(a.ask("GET", "instances/f?returnInternalServerErrorOnFailure=true", ""), 500, "out of order")
	a.broken.Store(false)
	a.want(a.ask("POST", "instances/f/rewind?reason=repaired", ""), 202, "")
	a.ended("f", "Completed")
	a.want(a.ask("GET", "instances/f", ""), 200, `"output":"TEA"`)

	a.want(a.ask("POST", "instances/f/restart?restartWithNewInstanceId=false&timeout=60&pollingInterval=1", ""), 200,
		`"TEA"`)
	got := a.ask("POST", "instances/f/restart", "")
	var links struct{ ID string }
	a.decode(got, &links)
	if got.status != 202 || links.ID == "" || links.ID == "f" {
		t.Errorf("got %d %s", got.status, got.body)
	}
	a.ended(links.ID, "Completed")
}

func TestQueryAndPurge(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	for _, id := range []string{"a1", "a2", "b1"} {
		a.want(a.ask("POST", "orchestrators/upper/"+id, `"x"`), 202, "")
		a.ended(id, "Completed")
	}
	a.want(a.ask("POST", "orchestrators/waits/a3", ""), 202, "")
	a.until("a3", "Running")
	hour := func(d time.Duration) string { return url.QueryEscape(time.Now().Add(d).UTC().Format(time.RFC3339)) }
	for query, want := range map[string][]string{
		"":                      {"a1", "a2", "a3", "b1"},
		"instanceIdPrefix=a":    {"a1", "a2", "a3"},
		"runtimeStatus=Running": {"a3"},
		"runtimeStatus=running,Failed&runtimeStatus=Completed&top=2":                           {"a1", "a2", "a3", "b1"},
		"createdTimeFrom=" + hour(time.Hour):                                                   nil,
		"createdTimeTo=" + hour(-time.Hour):                                                    nil,
		"createdTimeFrom=" + hour(-time.Hour) + "&createdTimeTo=" + hour(time.Hour) + "&top=1": {"a1", "a2", "a3", "b1"},
	} {
		if d := cmp.Diff(want, a.query(query)); d != "" {
			t.Errorf("%s: %s", query, d)
		}
	}
	for _, bad := range []string{"top=0", "top=x", "runtimeStatus=Happy", "createdTimeFrom=soon", "showInput=perhaps"} {
		a.want(a.ask("GET", "instances?"+bad, ""), 400, "")
	}

	a.want(a.ask("DELETE", "instances/b1", ""), 200, `{"instancesDeleted":1}`)
	a.want(a.ask("DELETE", "instances", ""), 400, "createdTimeFrom")
	a.want(a.ask("DELETE", "instances?createdTimeFrom=2020-01-01&runtimeStatus=Complete", ""), 400, "Complete")
	a.want(a.ask("DELETE", "instances?createdTimeFrom="+hour(time.Hour), ""), 404, "")
	a.want(a.ask("DELETE", "instances?createdTimeFrom=2020-01-01", ""), 200, `{"instancesDeleted":2}`)
	if d := cmp.Diff([]string{"a3"}, a.query("")); d != "" {
		t.Errorf("after the purge: %s", d)
	}
}

// query returns the IDs of all pages.
func (a *managementAPI) query(query string) []string {
	a.t.Helper()
	var ids []string
	next := ""
	for {
		r, err := http.NewRequestWithContext(a.t.Context(), "GET", a.url+webhook.Path+"instances?"+query, nil)
		if err != nil {
			a.t.Fatal(err)
		}
		if next != "" {
			r.Header.Set("x-ms-continuation-token", next)
		}
		got := a.send(r)
		var page []struct{ InstanceID string }
		a.decode(got, &page)
		for _, i := range page {
			ids = append(ids, i.InstanceID)
		}
		if next = got.header.Get("x-ms-continuation-token"); next == "" {
			return ids
		}
	}
}

// The newest instances come first, page by page, and of those that a filter chooses.
func TestNewestFirst(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	for _, id := range []string{"c", "a", "b"} {
		before := time.Now().UTC()
		a.want(a.ask("POST", "orchestrators/upper/"+id, `"x"`), 202, "")
		a.ended(id, "Completed")
		check.Eventually(t, func() bool { return time.Now().UTC().Truncate(time.Millisecond).After(before) },
			"the time goes on")
	}
	var page []struct{ InstanceID string }
	const newest = "instances?details=true&order=newest&top=2"
	first := a.ask("GET", newest, "")
	if a.decode(first, &page); len(page) != 2 || page[0].InstanceID != "b" || page[1].InstanceID != "a" {
		t.Errorf("the first page is %s", first.body)
	}
	r, err := http.NewRequestWithContext(t.Context(), "GET", a.url+webhook.Path+newest, nil)
	check.OK(t, err)
	r.Header.Set("X-Ms-Continuation-Token", first.header.Get("X-Ms-Continuation-Token"))
	second := a.send(r)
	if a.decode(second, &page); len(page) != 1 || page[0].InstanceID != "c" ||
		second.header.Get("X-Ms-Continuation-Token") != "" || second.header.Get("X-Lazuli-Incomplete") != "" {
		t.Errorf("the second page is %s, %v", second.body, second.header)
	}
	r.Header.Set("X-Ms-Continuation-Token", "-1")
	a.want(a.send(r), 400, "continuation")
	a.want(a.ask("GET", newest+"&workflow=waits", ""), 200, "[]")
}

// A tree has the parents of an instance and all that these started; a child that was purged is in it as missing.
func TestTree(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.want(a.ask("POST", "orchestrators/parent/top", "2"), 202, "")
	type branch struct {
		Name, InstanceID, ParentInstanceID, RuntimeStatus string
		Missing                                           bool
	}
	var tree struct {
		Instances []branch
		More      bool
	}
	check.Eventually(t, func() bool {
		a.decode(a.ask("GET", "tree/top", ""), &tree)
		return len(tree.Instances) == 3 && !tree.Instances[2].Missing && tree.Instances[2].RuntimeStatus == "Running"
	}, "the tree grows")
	list := tree.Instances
	if list[0].InstanceID != "top" || list[1].ParentInstanceID != "top" ||
		list[2].ParentInstanceID != list[1].InstanceID ||
		tree.More {
		t.Errorf("%+v", tree)
	}
	// The tree of one that is inside is the same.
	a.decode(a.ask("GET", "tree/"+url.PathEscape(list[2].InstanceID), ""), &tree)
	if len(tree.Instances) != 3 || tree.Instances[0].InstanceID != "top" {
		t.Errorf("%+v", tree)
	}
	a.want(a.ask("POST", "instances/"+url.PathEscape(list[2].InstanceID)+"/raiseEvent/go", `"x"`), 202, "")
	a.ended("top", "Completed")
	// The message to the parent is sent before the status of the child is written.
	a.ended(list[1].InstanceID, "Completed")
	a.want(a.ask("DELETE", "instances/"+url.PathEscape(list[1].InstanceID), ""), 200, "")
	a.decode(a.ask("GET", "tree/top", ""), &tree)
	if len(tree.Instances) != 2 || !tree.Instances[1].Missing {
		t.Errorf("%+v", tree)
	}
	a.want(a.ask("GET", "tree/none", ""), 404, "")
}
