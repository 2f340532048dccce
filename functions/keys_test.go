package functions

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/functions/internal/keys"
	"github.com/lazuli-storage/lazuli/lazulitest"
)

// Requests need a key that fits the access level, wherever they go.
func TestKeys(t *testing.T) {
	t.Parallel()
	handler, _ := record(`{"Outputs": {"res": {"body": "called"}}}`)
	files := map[string]string{
		"Events/function.json": `{"bindings": [{"type": "eventGridTrigger", "name": "e"}]}`,
		"keys.json": `{"host.master": "the-master", "host.function.default": "any", "host.systemKey.eventgrid_extension": "grid",
  "functions.Offunction.own": "of-function", "functions.Ofsystem.own": "of-system"}`,
	}
	for _, level := range []string{"anonymous", "function", "system", "admin", "user"} {
		files["Of"+level+"/function.json"] = fmt.Sprintf(
			`{"bindings": [{"type": "httpTrigger", "name": "req", "authLevel": %q}, {"type": "http", "direction": "out", "name": "res"}]}`,
			level)
	}
	dir := folder(t, files)
	r := runConfig(t, "", Config{Dir: dir, Environ: os.Environ(), ConnectionString: lazulitest.Start(t).ConnectionString(),
		Keys: filepath.Join(dir, "keys.json")}, handler)
	for path, fitting := range map[string]string{ // the keys that may call it
		"/api/ofanonymous": " none any grid of-function of-system", "/api/offunction": "any of-function",
		"/api/ofsystem": "grid",
		"/api/ofadmin":  "-", "/api/ofuser": "-", "/admin/functions": "-", "/admin/lazuli/": "-",
		"/admin/host/ping": " none any grid of-function of-system",
	} {
		for _, key := range []string{"", "none", "any", "grid", "of-function", "of-system", "the-master"} {
			want := "401 "
			if key == "the-master" || strings.Contains(" "+fitting+" ", " "+key+" ") {
				want = "200 "
			}
			for _, way := range []string{"header", "query"} {
				var got string
				if way == "header" {
					got = do(t, "GET", r.url+path, "", keys.Header, key)
				} else {
					got = do(t, "GET", r.url+path+"?code="+key, "")
				}
				if !strings.HasPrefix(got, want) || want == "401 " && got != want {
					t.Errorf("%s with the key %q in the %s: %s", path, key, way, got)
				}
			}
		}
	}
	webhook := r.url + webhookPath(extensionEvents, "Events")
	if got := do(t, "OPTIONS", webhook+"&code=any", "", "Webhook-Request-Origin", "x"); got != "401 " {
		t.Errorf("a webhook with another key: %s", got)
	}
	if got := do(t, "OPTIONS", webhook+"&code=grid", "", "Webhook-Request-Origin", "x"); got != "200 " {
		t.Errorf("a webhook: %s", got)
	}
	if ran, err := r.RunNow(t.Context(), "Offunction", Run{}); err != nil || ran.Status != http.StatusOK {
		t.Errorf("a run from the dashboard: %v, %v", ran, err)
	}
	if lines := strings.Join(r.Describe("x"), "\n"); !strings.Contains(lines, "x/api/Offunction (key: function)") ||
		strings.Contains(lines, "Ofanonymous (") {
		t.Error(lines)
	}
}

// The key API reads and changes the keys that requests need, and their file.
func TestKeyAPI(t *testing.T) {
	t.Parallel()
	handler, _ := record(`{"Outputs": {"res": {"body": "called"}}}`)
	dir := folder(t, map[string]string{
		"Order/function.json": `{"bindings": [{"type": "httpTrigger", "name": "req"}, {"type": "http", "direction": "out", "name": "res"}]}`,
		"keys.json":           `{"host.master": "m", "host.function.Default": "any", "host.systemKey.x": "sys"}`,
	})
	file, connection := filepath.Join(dir, "keys.json"), lazulitest.Start(t).ConnectionString()
	r := runConfig(t, "", Config{Dir: dir, Environ: os.Environ(), Keys: file, ConnectionString: connection}, handler)
	for _, c := range []struct{ method, path, body, want string }{
		{"GET", "/admin/host/keys", "", `200 {"keys":[{"name":"Default","value":"any"}],LINKS}`},
		{"GET", "/admin/host/functionkeys/default", "", `200 {LINKS,"name":"default","value":"any"}`},
		{"GET", "/admin/host/systemkeys", "", `200 {"keys":[{"name":"x","value":"sys"}],LINKS}`},
		{"GET", "/admin/host/systemkeys/_master", "", `200 {LINKS,"name":"_master","value":"m"}`},
		{"GET", "/admin/host/keys/_master", "", "404 "},
		{"GET", "/admin/host/nokeys", "", "404 "},
		{"GET", "/admin/functions/none/keys", "", "404 "},
		{"PUT", "/admin/functions/order/keys/own", `{"name": "own", "value": "mine"}`,
			`201 {LINKS,"name":"own","value":"mine"}`},
		{"PUT", "/admin/functions/order/keys/OWN", `{"value": "other"}`, `200 {LINKS,"name":"OWN","value":"other"}`},
		{"GET", "/admin/functions/Order/keys", "", `200 {"keys":[{"name":"own","value":"other"}],LINKS}`},
		{"PUT", "/admin/functions/order/keys/own", `{}`, "400 Invalid key value"},
		{"PUT", "/admin/functions/order/keys/own", strings.Repeat(" ", 8<<10) + `{}`, "400 Invalid key value"},
		{"PUT", "/admin/functions/order/keys/a%20b", `{"value": "x"}`, "400 Invalid key name."},
		{"DELETE", "/admin/host/keys/default", "", "204 "},
		{"DELETE", "/admin/host/keys/default", "", "404 "},
		{"DELETE", "/admin/host/systemkeys/_master", "", "400 Cannot delete System Key."},
		{"PUT", "/admin/host/systemkeys/_master", `{"value": "m"}`, `200 {LINKS,"name":"_master","value":"m"}`},
	} {
		got := do(t, c.method, r.url+c.path, c.body, keys.Header, "m")
		if strings.HasPrefix(got, "20") && got != "204 " {
			status, text, _ := strings.Cut(got, " ")
			var members map[string]json.RawMessage
			if err := json.Unmarshal([]byte(text), &members); err != nil {
				t.Fatalf("%s %s: %s", c.method, c.path, got)
			}
			sorted, err := json.Marshal(members)
			if err != nil {
				t.Fatal(err)
			}
			got = status + " " + strings.Replace(string(sorted), `"links":[{"rel":"self","href":"`+r.url+c.path+`"}]`, "LINKS",
				1)
		}
		if got != c.want {
			t.Errorf("%s %s: %s, want %s", c.method, c.path, got, c.want)
		}
	}
	if got := do(t, "GET", r.url+"/api/order?code=any", ""); got != "401 " {
		t.Errorf("a key that was deleted: %s", got)
	}
	if got := do(t, "GET", r.url+"/api/order?code=other", ""); got != "200 called" {
		t.Errorf("a key that was made: %s", got)
	}
	made := do(t, "POST", r.url+"/admin/host/systemkeys/_master", "", keys.Header, "m")
	if got := do(t, "GET", r.url+"/admin/host/systemkeys", "", keys.Header, "m"); got != "401 " {
		t.Errorf("the old master key: %s", got)
	}
	var read map[string]string
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &read)
	}
	if err != nil || read[keys.Master] == "m" || !strings.Contains(made, read[keys.Master]) ||
		read["functions.Order.own"] != "other" || len(read) != 3 {
		t.Errorf("the file has %v, %v; the answer was %s", read, err, made)
	}
	open := runConfig(t, "", Config{Dir: dir, Environ: os.Environ(), ConnectionString: connection}, handler)
	if got := do(t, "GET", open.url+"/admin/host/keys", ""); !strings.HasPrefix(got, "501 ") {
		t.Errorf("without keys: %s", got)
	}
}
