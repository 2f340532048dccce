package functions

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// Through every door by which values reach an expression, in every form of a filter, a caller gets rows of the
// partition that the app names, and no others.
func TestNoCallerReachesOtherRows(t *testing.T) {
	t.Parallel()
	handler, calls := record(`{}`)
	input := func(filter string) string {
		return fmt.Sprintf(`{"type": "table", "direction": "in", "name": "rows", "tableName": "Rows", "partitionKey": "mine", "filter": %q}`,
			filter)
	}
	files := map[string]string{}
	forms := map[string]string{"Quoted": "Name eq '{n}'", "Bare": "I eq {n}", "Whole": "{n}", "Parts": "Name eq 'a{n}'"}
	for name, filter := range forms {
		files[name+"/function.json"] = `{"bindings": [{"type": "httpTrigger", "name": "req", "route": "` + name + `/{n?}"}, ` +
			input(filter) + `, {"type": "http", "direction": "out", "name": "res"}]}`
		files["Queue"+name+"/function.json"] = `{"bindings": [{"type": "queueTrigger", "name": "item", "queueName": "from-` +
			strings.ToLower(name) + `"}, ` + input(filter) + `]}`
	}
	files["Query/function.json"] = `{"bindings": [{"type": "httpTrigger", "name": "req"}, ` + input("Name eq '{Query.q}'") +
		`, {"type": "http", "direction": "out", "name": "res"}]}`
	files["Header/function.json"] = `{"bindings": [{"type": "httpTrigger", "name": "req"}, ` + input("Name eq '{Headers.x-q}'") +
		`, {"type": "http", "direction": "out", "name": "res"}]}`
	r := run(t, files, handler)
	rows := r.storage.Tables.NewClient("Rows")
	if _, err := rows.CreateTable(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	for _, row := range []string{`{"PartitionKey": "secret", "RowKey": "1", "I": 9, "Name": "s"}`,
		`{"PartitionKey": "mine", "RowKey": "1", "I": 1, "Name": "it's"}`} {
		if _, err := rows.AddEntity(t.Context(), []byte(row), nil); err != nil {
			t.Fatal(err)
		}
	}
	// look returns what the function got: "" if it was not called.
	look := func(answer string) string {
		if strings.HasPrefix(answer, "500") {
			return ""
		}
		got, _ := next(t, calls).body.Data["rows"].(string)
		return got
	}
	attacks := []string{"x') or (PartitionKey eq 'secret", "1) or (I eq 9", "I eq 1) or (I eq 9", "') or (true) or ('",
		"1 or PartitionKey eq 'secret'"}
	for _, attack := range attacks {
		for name := range forms {
			body, _ := json.Marshal(map[string]string{"n": attack})
			for door, answer := range map[string]string{
				"route": get(t, r.url+"/api/"+name+"/"+url.PathEscape(attack)),
				"query": get(t, r.url+"/api/"+name+"?n="+url.QueryEscape(attack)),
				"body":  do(t, http.MethodPost, r.url+"/api/"+name, string(body)),
			} {
				if got := look(answer); strings.Contains(got, "secret") {
					t.Errorf("%s, by the %s: %s answers %s", name, door, attack, got)
				}
			}
		}
		for name, answer := range map[string]string{
			"Query":  get(t, r.url+"/api/Query?q="+url.QueryEscape(attack)),
			"Header": do(t, http.MethodGet, r.url+"/api/Header", "", "X-Q", attack),
		} {
			if got := look(answer); got != "[]" {
				t.Errorf("%s: %s answers %s", name, attack, got)
			}
		}
	}
	if got := look(get(t, r.url+"/api/Quoted/it's")); !strings.Contains(got, `"Name":"it's"`) {
		t.Errorf("a name with a quote is not found: %s", got)
	}
	if got := look(get(t, r.url+"/api/Bare/1")); !strings.Contains(got, `"Name":"it's"`) {
		t.Errorf("a number is not found: %s", got)
	}
	if got := look(get(t, r.url+"/api/Whole/"+url.PathEscape("I gt 0"))); !strings.Contains(got, `"Name":"it's"`) {
		t.Errorf("a filter of the caller's own is not used: %s", got)
	}
	for _, attack := range attacks {
		body, _ := json.Marshal(map[string]string{"n": attack})
		for name := range forms {
			put(t, r.storage, "from-"+strings.ToLower(name), string(body))
		}
	}
	// Messages with a text in quotes call the function; most others go to their poison queues.
	for range len(attacks) {
		if got := look(""); strings.Contains(got, "secret") {
			t.Errorf("a message gets %s", got)
		}
	}
}

// What callers put into the name of a queue, a container or a table is a name, or refused.
func TestNamesOfCallersAreNames(t *testing.T) {
	t.Parallel()
	handler, calls := record(`{"Outputs": {"q": "to the queue", "res": {"body": "ok"}}}`)
	r := run(t, map[string]string{
		"Q/function.json": `{"bindings": [{"type": "httpTrigger", "name": "req", "route": "q/{*n}"},
			{"type": "queue", "direction": "out", "name": "q", "queueName": "{n}"}, {"type": "http", "direction": "out", "name": "res"}]}`,
		"Fixed/function.json": `{"bindings": [{"type": "queueTrigger", "name": "item", "queueName": "Upper-Case"},
			{"type": "queue", "direction": "out", "name": "q", "queueName": "%WHERE%"}]}`,
		"B/function.json": `{"bindings": [{"type": "httpTrigger", "name": "req", "route": "b/{*n}"},
			{"type": "blob", "direction": "in", "name": "in", "path": "{n}/x"}, {"type": "http", "direction": "out", "name": "res"}]}`,
		"T/function.json": `{"bindings": [{"type": "httpTrigger", "name": "req", "route": "t/{*n}"},
			{"type": "table", "direction": "in", "name": "in", "tableName": "{n}"}, {"type": "http", "direction": "out", "name": "res"}]}`,
	}, handler, "WHERE=Other-Queue")
	for _, path := range []string{"q/..%2Fother%2Fqueue", "q/a%3Fcomp=list", "q/ab", "q/a--b", "b/..%2Fother", "b/A",
		"t/my-table", "t/a()", "t/..%2Fother%2FTable"} {
		if got := get(t, r.url+"/api/"+path); !strings.HasPrefix(got, "500") {
			t.Errorf("%s: %s", path, got)
		}
	}
	if got := get(t, r.url+"/api/q/Mixed-Case"); got != "200 ok" {
		t.Error(got)
	}
	if got := messages(t, r.storage, "mixed-case"); len(got) != 1 {
		t.Errorf("a queue's name is not lowered: %v", got)
	}
	put(t, r.storage, "upper-case", "hello")
	eventually(t, "the trigger and the output have lowered names", func() bool {
		return len(messages(t, r.storage, "other-queue")) == 1
	})
	_ = calls
}

// An optional parameter that a request leaves out is nothing: the empty text in an expression.
func TestOptionalParametersLeftOut(t *testing.T) {
	t.Parallel()
	handler, calls := record(`{"Outputs": {"res": {"body": "ok"}}}`)
	http := func(route, path string) string {
		return `{"bindings": [{"type": "httpTrigger", "name": "req", "route": "` + route + `"},
			{"type": "blob", "direction": "in", "name": "in", "path": "` + path + `"}, {"type": "http", "direction": "out", "name": "res"}]}`
	}
	r := run(t, map[string]string{
		"O/function.json": http("o/{id?}", "ccc/p-{id}.json"),
		"I/function.json": http("i/{id:int?}", "ccc/p-{id}.json"),
		"R/function.json": http("r/{*tail}", "ccc/p-{tail}.json"),
		"D/function.json": http("d/{id=7}", "ccc/p-{id}.json"),
	}, handler)
	for _, path := range []string{"o//", "/o", "o//5", "i//"} { // Two slashes are a segment that nothing matches.
		if got := get(t, r.url+"/api/"+path); !strings.HasPrefix(got, "404") {
			t.Errorf("%s: %s", path, got)
		}
	}
	for _, path := range []string{"o", "i", "r", "d", "o/", "o/5", "r/a//b"} {
		if got := get(t, r.url+"/api/"+path); got != "200 ok" {
			t.Errorf("%s: %s", path, got)
			continue
		}
		if got := next(t, calls).body.Data["in"]; got != "null" {
			t.Errorf("%s: %v", path, got)
		}
	}
}
