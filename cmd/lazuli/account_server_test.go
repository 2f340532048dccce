package main

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// accountToken is the token of the admin listener in the tests below.
const accountToken = "a-token-of-a-test-of-accounts"

var accountEnviron = []string{"LAZULI_ADMIN_TOKEN=" + accountToken}

// startForAccounts starts a server whose accounts can be changed, and returns the port of its admin listener.
func startForAccounts(t *testing.T, args ...string) (r *run, port string) {
	t.Helper()
	r = start(t, Main{Args: append(args, "--blob-port", "0", "--queue-port", "0", "--table-port", "0", "--dfs-port", "0",
		"--admin-port", "0"), Environ: accountEnviron})
	address := strings.TrimPrefix(r.wait(t, `Admin +(http://\S+)`)[1], "http://")
	_, port, err := net.SplitHostPort(address)
	check.OK(t, err)
	r.wait(t, "Ready")
	return r, port
}

// accountCall is a call of lazuli account.
type accountCall struct {
	args string
	code int
	want string
}

// accountCalls runs lazuli account with the arguments of each row.
func accountCalls(t *testing.T, port string, calls []accountCall) {
	t.Helper()
	for _, tc := range calls {
		args := append(append([]string{"account"}, strings.Fields(tc.args)...), "--server", "--admin-port", port)
		var out bytes.Buffer
		m := Main{Args: args, Environ: accountEnviron, Stdout: &out, Stderr: &out}
		code := m.Run(t.Context())
		if output := out.String(); code != tc.code || !strings.Contains(output, tc.want) {
			t.Errorf("lazuli account %s: exit code %d, want %d; output %q, want it to contain %q", tc.args, code, tc.code, output,
				tc.want)
		}
	}
}

func TestAccountCommandOfAServer(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	r, port := startForAccounts(t, "--location", dir, "--managed-accounts")
	accountCalls(t, port, []accountCall{
		{"ls", exitOK, "configuration"},
		{"add shop", exitOK, "added shop"},
		{"add shop", exitFailure, "the account exists"},
		{"add lake --hierarchical-namespace", exitOK, "added lake"},
		{"add No", exitUsage, "3 to 24 lower-case letters and digits"},
		{"ls", exitOK, "hierarchical-namespace=true"},
		{"ls --json", exitOK, `"source":"server"`},
		{"show shop", exitOK, "key2 "},
		{"show shop --connection-string", exitOK, "AccountName=shop;AccountKey="},
		{"show nobody1", exitFailure, "no such account"},
		{"show devstoreaccount1", exitFailure, "comes from the configuration"},
		{"rotate shop --key 2", exitOK, "replaced key 2 of shop"},
		{"rotate devstoreaccount1 --key 2", exitFailure, "comes from the configuration"},
		{"set shop blob-versioning=true", exitOK, "shop: blob-versioning=true"},
		{"set shop blob-versioning=maybe", exitUsage, "is not true or false"},
		{"set lake blob-versioning=true", exitFailure, "excludes blob-versioning"},
		{"unset shop blob-versioning", exitOK, "shop: no settings"},
		{"rm shop --yes", exitOK, "removed shop"},
		{"rm shop --yes", exitFailure, "is being removed"},
		{"rm devstoreaccount1 --delete-data --yes", exitFailure, "comes from the configuration"},
		{"add shop --file accounts", exitUsage, "exclude each other"},
	})
	admin := "http://127.0.0.1:" + port + "/admin/accounts"
	for _, tc := range []struct {
		method, path, body, token string
		want                      int
	}{
		{"GET", "?prefix=none", "", accountToken, http.StatusOK},
		{"GET", "", "", "", http.StatusUnauthorized},
		{"POST", "/lake/keys", "", "", http.StatusUnauthorized},
		{"GET", "?limit=0", "", accountToken, http.StatusBadRequest},
		{"GET", "?limit=many", "", accountToken, http.StatusBadRequest},
		{"GET", "/absent", "", accountToken, http.StatusNotFound},
		{"POST", "", `{"name":"other"`, accountToken, http.StatusBadRequest},
		{"POST", "", `{"name":"other","key":"x"}`, accountToken, http.StatusBadRequest},
		{"POST", "", `{"name":"other","keys":["?"]}`, accountToken, http.StatusBadRequest},
		{"POST", "", `{"name":"other","settings":{"blob-versioning":true}}`, accountToken, http.StatusBadRequest},
		{"POST", "", `{"name":"` + strings.Repeat("a", 20<<10) + `"}`, accountToken, http.StatusBadRequest},
		{"POST", "", `{"name":"lake"}`, accountToken, http.StatusConflict},
		{"PATCH", "/lake", `{"settings":{"cors":"*"}}`, accountToken, http.StatusBadRequest},
		{"POST", "/lake/keys/3", "", accountToken, http.StatusBadRequest},
		{"POST", "/lake/keys/one", "", accountToken, http.StatusBadRequest},
		{"DELETE", "/lake?deletedata=true", "", accountToken, http.StatusBadRequest},
		{"DELETE", "/lake?delete-data=yes", "", accountToken, http.StatusBadRequest},
		{"DELETE", "/absent", "", accountToken, http.StatusNotFound},
		{"DELETE", "/lake?delete-data=true", "", accountToken, http.StatusAccepted},
	} {
		req, err := http.NewRequestWithContext(t.Context(), tc.method, admin+tc.path, strings.NewReader(tc.body))
		check.OK(t, err)
		if tc.token != "" {
			req.Header.Set("Authorization", "Bearer "+tc.token)
		}
		resp, err := http.DefaultClient.Do(req)
		check.OK(t, err)
		answer, err := io.ReadAll(resp.Body)
		check.OK(t, err)
		resp.Body.Close()
		if resp.StatusCode != tc.want {
			t.Errorf("%s %s %.40s: %d, want %d", tc.method, tc.path, tc.body, resp.StatusCode, tc.want)
		}
		if resp.StatusCode == http.StatusOK && string(bytes.TrimSpace(answer)) != `{"accounts":[]}` {
			t.Errorf("an empty page is %s", answer)
		}
	}
	r.cancel()
	r.end(t)
}

// Without the option accounts cannot be changed, and those of the folder are not served.
func TestAccountsAreFixedByDefault(t *testing.T) {
	r, port := startForAccounts(t, "--in-memory")
	accountCalls(t, port, []accountCall{
		{"ls", exitFailure, "start lazuli with --managed-accounts"},
		{"add shop", exitFailure, "start lazuli with --managed-accounts"},
	})
	r.cancel()
	r.end(t)
}
