package customhandler

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
	for path, keys := range map[string]string{ // the keys that may call it
		"/api/ofanonymous": " none any grid of-function of-system", "/api/offunction": "any of-function",
		"/api/ofsystem": "grid",
		"/api/ofadmin":  "-", "/api/ofuser": "-", "/admin/functions": "-", "/admin/lazuli/": "-",
		"/admin/host/ping": " none any grid of-function of-system",
	} {
		for _, key := range []string{"", "none", "any", "grid", "of-function", "of-system", "the-master"} {
			want := "401 "
			if key == "the-master" || strings.Contains(" "+keys+" ", " "+key+" ") {
				want = "200 "
			}
			for _, way := range []string{"header", "query"} {
				var got string
				if way == "header" {
					got = do(t, "GET", r.url+path, "", keyHeader, key)
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

func TestKeyFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "keys.json")
	made, err := openKeys(path)
	if err != nil {
		t.Fatal(err)
	}
	read, err := openKeys(path)
	if err != nil || len(read) != 5 || fmt.Sprint(read) != fmt.Sprint(made) || len(read[keyMaster]) < 40 {
		t.Errorf("%v, %v, made %v", read, err, made)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("others can read it: %v, %v", info.Mode(), err)
	}
	for text, want := range map[string]string{
		`[]`: "not an object of texts", `{}`: "has no host.master", `{"host.master": ""}`: "host.master is empty",
		`{"host.master": "a", "master": "b"}`:         `"master" is not the name of a key`,
		`{"host.master": "a", "host.function.": "b"}`: `"host.function." is not the name of a key`,
		`{"host.master": 1}`:                          "not an object of texts",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := openKeys(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// Without a key file every request is served, and the host's clients of workflows need no secret address.
func TestDurableClientAddresses(t *testing.T) {
	t.Parallel()
	h := &Host{origin: "http://localhost:1", durableSecret: "s"}
	if c := h.durableClient(false); c.Query != "" || c.Calls != "http://localhost:1"+durablePath {
		t.Errorf("%+v", c)
	}
	h.keys = accessKeys{keyMaster: "m", keyDurable: "a&b"}
	c := h.durableClient(true)
	if c.Query != "code=a%26b" || c.Calls != "http://localhost:1"+durableCalls+"s/" || !c.Messages {
		text, _ := json.Marshal(c)
		t.Errorf("%s", text)
	}
}
