package devissuer

import (
	"bufio"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

func newIssuer(t *testing.T, c Config) *Issuer {
	t.Helper()
	i, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func post(h http.Handler, path string, form url.Values) *httptest.ResponseRecorder {
	r := httptest.NewRequest("POST", path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func get(h http.Handler, path string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("GET", path, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func field(t *testing.T, w *httptest.ResponseRecorder, name string) string {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &m); err != nil {
		t.Fatalf("%s: %v", w.Body, err)
	}
	s, _ := m[name].(string)
	return s
}

// accepts reports what the storage services make of a token.
func accepts(t *testing.T, trust auth.Issuer, token string) error {
	t.Helper()
	o, err := auth.NewOAuth(auth.DevelopmentRoles(), trust)
	if err != nil {
		t.Fatal(err)
	}
	a := auth.Authenticator{Accounts: auth.Development(), OAuth: o}
	hr, err := http.ReadRequest(bufio.NewReader(
		strings.NewReader("GET /devstoreaccount1/c/b HTTP/1.1\r\nHost: h\r\nx-ms-version: 2021-12-02\r\nAuthorization: " +
			"Bearer " + token + "\r\n\r\n")))
	if err != nil {
		t.Fatal(err)
	}
	hr.RemoteAddr = "127.0.0.1:1"
	r, err := wire.Parse(wire.Blob, hr, httptest.NewRecorder(), time.Now(), wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	id, err := a.Authenticate(r)
	if err != nil {
		return err
	}
	return id.Check(wire.Blob, auth.Need{On: auth.OnObject, Any: "w"})
}

func TestTokenRequests(t *testing.T) {
	open := newIssuer(t, Config{})
	closed := newIssuer(t, Config{Clients: map[string]string{"app": "secret"}})
	form := func(pairs ...string) url.Values {
		f := url.Values{"grant_type": {"client_credentials"}, "client_id": {"app"}, "client_secret": {"secret"},
			"scope": {auth.StorageAudience + "/.default"}}
		for i := 0; i < len(pairs); i += 2 {
			f.Set(pairs[i], pairs[i+1])
		}
		return f
	}
	for _, tc := range []struct {
		name   string
		i      *Issuer
		path   string
		form   url.Values
		status int
		code   string
	}{
		{"version 2 path", open, "/" + DefaultTenant + "/oauth2/v2.0/token", form(), 200, ""},
		{"version 1 path with resource", open, "/any/oauth2/token", form("scope", "", "resource", auth.StorageAudience+"/"),
			200, ""},
		{"short path", open, "/token", form(), 200, ""},
		{"one account's scope", open, "/token", form("scope", "https://myaccount.queue.core.windows.net/.default"), 200, ""},
		{"any secret where no client is configured", open, "/token", form("client_secret", "x"), 200, ""},
		{"a configured client", closed, "/token", form(), 200, ""},
		{"a wrong secret", closed, "/token", form("client_secret", "Secret"), 401, "invalid_client"},
		{"an unknown client with an empty secret", closed, "/token", form("client_id", "other", "client_secret", ""), 401,
			"invalid_client"},
		{"no client", open, "/token", form("client_id", ""), 401, "invalid_client"},
		{"another grant", open, "/token", form("grant_type", "password"), 400, "unsupported_grant_type"},
		{"a scope beside those of a sign-in", open, "/token",
			form("scope", auth.StorageAudience+"/.default openid offline_access profile"), 200, ""},
		{"two resources", open, "/token",
			form("scope", auth.StorageAudience+"/.default https://myaccount.queue.core.windows.net/.default"), 400,
			"invalid_scope"},
		{"another resource", open, "/token", form("scope", "https://graph.microsoft.com/.default"), 400, "invalid_scope"},
		{"no scope", open, "/token", form("scope", ""), 400, "invalid_scope"},
		{"a large body", open, "/token", form("x", strings.Repeat("x", 70<<10)), 400, "invalid_request"},
		{"elsewhere", open, "/authorize", form(), 404, "invalid_request"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := post(tc.i, tc.path, tc.form)
			if w.Code != tc.status || field(t, w, "error") != tc.code {
				t.Fatalf("got %d %s", w.Code, w.Body)
			}
			if strings.Contains(w.Body.String(), "secret\"") {
				t.Error("the answer repeats the secret")
			}
			if tc.status == 200 && tc.form.Get("scope") == auth.StorageAudience+"/.default" {
				if err := accepts(t, tc.i.Trust(), field(t, w, "access_token")); err != nil {
					t.Errorf("the token is refused: %v", err)
				}
			}
		})
	}
	if w := get(open, "/token?client_id=app"); w.Code != 405 {
		t.Errorf("GET /token: %d", w.Code)
	}
}

func TestManagedIdentity(t *testing.T) {
	i := newIssuer(t, Config{})
	for path, header := range map[string]string{"/msi/token?api-version=2019-08-01": "X-IDENTITY-HEADER",
		"/metadata/identity/oauth2/token?api-version=2018-02-01": "Metadata"} {
		path += "&resource=" + url.QueryEscape(auth.StorageAudience)
		if w := get(i, path); w.Code != 400 {
			t.Errorf("%s without %s: %d", path, header, w.Code)
		}
		w := get(i, path, header, "true")
		if w.Code != 200 || field(t, w, "client_id") != DefaultClient || field(t, w, "expires_on") == "" {
			t.Fatalf("%s: %d %s", path, w.Code, w.Body)
		}
		if err := accepts(t, i.Trust(), field(t, w, "access_token")); err != nil {
			t.Error(err)
		}
		if w := get(i, path+"&client_id=me", header, "true"); field(t, w, "client_id") != "me" {
			t.Errorf("client_id: %s", w.Body)
		}
	}
	if w := get(newIssuer(t, Config{Clients: map[string]string{"app": "s"}}), "/msi/token?resource="+auth.StorageAudience,
		"X-IDENTITY-HEADER", "x"); w.Code != 400 {
		t.Errorf("an identity that is not configured: %d %s", w.Code, w.Body)
	}
}

// Another process finds the keys through discovery, as it would find Entra's.
func TestDiscovery(t *testing.T) {
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	defer server.Close()
	i := newIssuer(t, Config{URL: server.URL + "/oauth"})
	fetches := 0
	mux.Handle("/oauth/", http.StripPrefix("/oauth",
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fetches++; i.ServeHTTP(w, r) })))
	keys, err := auth.NewRemoteKeys(i.Trust().ID, "")
	if err != nil {
		t.Fatal(err)
	}
	token, err := i.Token("app", auth.StorageAudience)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := accepts(t, auth.Issuer{ID: i.Trust().ID, Keys: keys}, token); err != nil {
			t.Fatal(err)
		}
	}
	if fetches != 2 { // configuration and keys, once
		t.Errorf("%d requests to the issuer, want 2", fetches)
	}
	other, err := newIssuer(t, Config{URL: server.URL + "/oauth"}).Token("app", auth.StorageAudience)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := accepts(t, auth.Issuer{ID: i.Trust().ID, Keys: keys}, other); !errors.Is(err, auth.ErrInvalidBearerToken) {
			t.Fatalf("a token of another key: %v", err)
		}
	}
	if fetches > 4 {
		t.Errorf("%d requests to the issuer: unknown keys are asked for again and again", fetches)
	}

	// Without a configured address the document is made for the caller's.
	w := httptest.NewRecorder()
	r := httptest.NewRequest("GET", "http://localhost:10003/oauth/t/v2.0/.well-known/openid-configuration", nil)
	http.StripPrefix("/oauth", newIssuer(t, Config{})).ServeHTTP(w, r)
	for name, want := range map[string]string{"token_endpoint": "http://localhost:10003/oauth/" + DefaultTenant +
		"/oauth2/v2.0/token",
		// whose host libraries compare with the one that they asked
		"issuer": "http://localhost:10003/oauth/" + DefaultTenant + "/v2.0"} {
		if got := field(t, w, name); got != want {
			t.Errorf("%s %q, want %q", name, got, want)
		}
	}
}

func TestKeyFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "issuer.pem")
	first := newIssuer(t, Config{KeyFile: path})
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("mode %v, %v", info.Mode(), err)
	}
	token, err := first.Token("app", auth.StorageAudience)
	if err != nil {
		t.Fatal(err)
	}
	if err := accepts(t, newIssuer(t, Config{KeyFile: path}).Trust(), token); err != nil {
		t.Errorf("after a restart: %v", err)
	}
	// A flipped bit is noticed, or is where it has no effect.
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for at := range text {
		text[at] ^= 1 << (at % 8)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		text[at] ^= 1 << (at % 8)
		if damaged, err := New(Config{KeyFile: path}); err == nil && damaged.kid != first.kid {
			t.Errorf("bit %d of byte %d makes another key", at%8, at)
		}
	}
	if err := os.WriteFile(path, []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := New(Config{KeyFile: path}); err == nil {
		t.Error("garbage is taken for a key")
	}
}
