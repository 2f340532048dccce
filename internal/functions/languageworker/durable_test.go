package languageworker

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/functions/durablefunc"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/lazulitest"
)

// pythonWorkflows runs the app of testdata/durable.
func pythonWorkflows(t *testing.T) *running {
	t.Helper()
	c := pythonConfig(t, lazulitest.Start(t).ConnectionString(), "durable", map[string]string{
		"host.json": `{"version": "2.0", "extensions": {"durableTask": {"storageProvider": {"partitionCount": 1}}}}`})
	c.Durable = durablefunc.Runtime{}
	return run(t, c)
}

func TestPythonOrchestrations(t *testing.T) {
	t.Parallel()
	r := pythonWorkflows(t)
	for _, c := range []struct{ path, input, want string }{
		{"start/chain", `["Tokyo", "Ürümqi"]`, `["hello \"Tokyo\"","hello \"\\u00dcr\\u00fcmqi\""]`},
		{"start/fan", "", `["hello {\"n\": 0}","hello {\"n\": 1}","hello {\"n\": 2}",3,3,3,"hello \"the end\""]`},
		{"start/gives_up", "", `[true,"hello \"after\""]`},
		{"raise/waits/go", "", `[true,"{\"from\": \"a client\"}"]`},
		{"start/parent", "", `[["hello \"a\"","hello \"b\""],3]`},
	} {
		t.Run(c.path, func(t *testing.T) {
			response, body := r.get(t, "/api/"+c.path, c.input)
			var got any
			if err := json.Unmarshal([]byte(body), &got); err != nil || response.StatusCode != 200 {
				t.Fatalf("%d %s", response.StatusCode, body)
			}
			if text, err := json.Marshal(got); err != nil || string(text) != c.want {
				t.Errorf("got %s, want %s", text, c.want)
			}
		})
	}
	response, body := r.get(t, "/api/start/broken", "")
	var status struct{ RuntimeStatus, Output string }
	if err := json.Unmarshal([]byte(body), &status); err != nil || response.StatusCode != 500 ||
		status.RuntimeStatus != "Failed" {
		t.Errorf("an orchestration that fails: %d %s", response.StatusCode, body)
	}
}

// result starts a workflow and returns its result, compact.
func (r *running) result(t *testing.T, workflow, input string) string {
	t.Helper()
	response, body := r.get(t, "/api/start/"+workflow, input)
	var value any
	if err := json.Unmarshal([]byte(body), &value); err != nil || response.StatusCode != 200 {
		t.Fatalf("%s: %d %s", workflow, response.StatusCode, body)
	}
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// fetch returns the body of a GET.
func (r *running) fetch(t *testing.T, path string) string {
	t.Helper()
	got, err := http.Get(r.url + path)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(text), " ", "")
}

// checkDurable checks what apps in both languages do in the same way: entities, their clients, and the control of
// workflows.
func checkDurable(t *testing.T, r *running) {
	signal := func(key, operation, input string) {
		if response, body := r.get(t, "/api/entity/"+key+"/"+operation, input); response.StatusCode != 202 {
			t.Errorf("a signal of a client: %d %s", response.StatusCode, body)
		}
	}
	signal("one", "add", "5")
	signal("one", "add", "2")
	check.Eventually(t, func() bool { return r.fetch(t, "/api/entity/one") == "[true,7]" }, "the client reads the state")
	if text := r.fetch(t, "/runtime/webhooks/durabletask/entities/counter?fetchState=true"); !strings.Contains(text,
		`"entityId":{"name":"counter","key":"one"}`) || !strings.Contains(text, `"state":7`) {
		t.Errorf("the list of entities: %s", text)
	}
	signal("one", "reset", "")
	check.Eventually(t, func() bool { return r.fetch(t, "/api/entity/one") == "[false,null]" }, "the state is deleted")

	control := func(action, id, body, want string) {
		t.Helper()
		if response, text := r.get(t, "/api/control/"+action+"/"+id, body); response.StatusCode != 200 {
			t.Fatalf("%s: %d %s", action, response.StatusCode, text)
		}

		check.Eventually(t, func() bool {
			_, text := r.get(t, "/api/control/status/"+id, "")
			return strings.HasPrefix(strings.ReplaceAll(text, " ", ""), want)
		}, "%s of %s: want %s", action, id, want)
	}
	control("start", "fails", "once", `["Failed"`)
	control("rewind", "fails", "", `["Completed"`)
	control("start", "stays", "waits", `["Running"`)
	control("suspend", "stays", "", `["Suspended"`)
	control("raise", "stays", "", `["Suspended"`)
	control("resume", "stays", "", `["Completed"`)
	control("start", "ends", "waits", `["Running"`)
	control("terminate", "ends", "", `["Terminated"`)
}

func TestPythonEntities(t *testing.T) {
	t.Parallel()
	r := pythonWorkflows(t)
	if got := r.result(t, "counts", ""); got != `[6,"hello \"between\"",[16,36],"no operation explode",37]` {
		t.Errorf("calls of entities: %s", got)
	}
	if got := r.result(t, "fetches", `"`+r.url+`"`); got != `[200,"done","hello \"beside\"",404,"hello \"after\""]` {
		t.Errorf("HTTP calls: %s", got)
	}
	checkDurable(t, r)
}

func TestNodeEntities(t *testing.T) {
	t.Parallel()
	r := run(t, nodeConfig(t, lazulitest.Start(t).ConnectionString(), "node", true))
	if got := r.result(t, "counts", "1"); got != `[6,8,[16,36],true,37]` {
		t.Errorf("calls of entities: %s", got)
	}
	if got := r.result(t, "fetches", `"`+r.url+`"`); got != `[200,"done",42,202,404,8]` {
		t.Errorf("HTTP calls: %s", got)
	}
	// Of workflows that move amounts to and fro, each sees its own effect alone.
	var all sync.WaitGroup
	const transfers = 8
	for i := range transfers {
		from, to := "a", "b"
		if i%2 == 1 {
			from, to = to, from
		}
		all.Go(func() {
			input := fmt.Sprintf(`{"from": %q, "to": %q, "amount": %d}`, from, to, i+1)
			_, body := r.get(t, "/api/start/transfer", input)
			if want := fmt.Sprintf("[%d,true,false,6]", i+1); body != want {
				t.Errorf("a transfer: %s, want %s", body, want)
			}
		})
	}
	all.Wait()
	if a, b := r.fetch(t, "/api/entity/a"), r.fetch(t, "/api/entity/b"); a != "[true,4]" || b != "[true,-4]" {
		t.Errorf("the accounts have %s and %s", a, b)
	}
	if response, _ := r.get(t, "/api/entity/a/tell", `"told"`); response.StatusCode != 202 {
		t.Errorf("a signal: %d", response.StatusCode)
	}
	check.Eventually(t, func() bool { return r.fetch(t, "/api/entity/told") == "[true,4]" }, "an entity signals another")
	checkDurable(t, r)
}
