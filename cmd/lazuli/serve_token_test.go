package main

import (
	"net/http"
	"net/http/cookiejar"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
)

// Beside an account with a secret key, no user of this machine reads data through the admin listener without the token
// that is printed.
func TestAdminTokenOfSecretAccounts(t *testing.T) {
	args := []string{"serve", "--in-memory", "--blob-port", "0", "--queue-port", "0", "--table-port", "0", "--admin-port",
		"0", "--admin-state", "--faults"}
	r := start(t, Main{Args: args, Environ: []string{"LAZULI_ACCOUNTS=shop:" + auth.DevelopmentKey}})
	admin := r.wait(t, `Admin\s+(http://\S+)`)[1]
	login := r.wait(t, `Login\s+(http://\S+)`)[1]
	for path, want := range map[string]int{"/healthz": 200, "/metrics": 200, "/ui/": 401,
		"/ui/accounts/shop/containers": 401, "/admin/faults": 401, "/admin/snapshots": 401} {
		status, body, err := fetch(t.Context(), admin+path)
		if err != nil || status != want || want == 401 && !strings.Contains(body, "token") {
			t.Errorf("%s: %d %v, want %d: %s", path, status, err, want, body)
		}
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar}
	resp, err := browser.Get(login)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK || resp.Request.URL.String() != admin+"/ui/" {
		t.Errorf("login leads to %v, %d", resp.Request.URL, resp.StatusCode)
	}
	// Commands take the token from the environment.
	_, port, _ := strings.Cut(strings.TrimPrefix(admin, "http://"), ":")
	_, token, _ := strings.Cut(login, "token=")
	for env, want := range map[string]int{"LAZULI_ADMIN_TOKEN=" + token: 0, "LAZULI_SILENT=true": 1} {
		c := start(t, Main{Args: []string{"fault", "ls", "--admin-port", port}, Environ: []string{env}})
		if code := c.end(t); code != want {
			text, _ := c.stderr.text()
			t.Errorf("lazuli fault list with %.20s ends with %d, want %d: %s", env, code, want, text)
		} else if text, _ := c.stderr.text(); want == 1 && !strings.Contains(text, "LAZULI_ADMIN_TOKEN") {
			t.Errorf("the error is %q", text)
		}
	}
}
