package admin

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lazuli-storage/lazuli/internal/azure/faultrule"
	"github.com/lazuli-storage/lazuli/internal/server/events"
)

// guarded is an admin listener with everything, which needs a token.
func guarded() http.Handler {
	text := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "hidden") })
	return NewHandler(Options{Token: "0123456789abcdef", Pprof: true, Metrics: prometheus.NewRegistry(), Issuer: text,
		Workers: text, Search: text, UI: text,
		State: func() State { return nil }, Faults: func() *faultrule.Set { return nil },
		Events: func() *events.Manager { return nil }})
}

func TestTokenIsNeeded(t *testing.T) {
	t.Parallel()
	h := guarded()
	for path, open := range map[string]bool{
		"/healthz": true, "/readyz": true, "/metrics": true, "/oauth/msi/token": true,
		"/metadata/identity/oauth2/token": true, "/tenant/v2.0/x": true, "/tenant/oauth2/token": true,
		"/admin/events/a/b/validate?code=x": true,
		"/":                                 false, "/ui/": false, "/ui/requests": false, "/ui/static/app.js": false,
		"/workers": false, "/workers/x": false, "/search": false, "/search/verify": false,
		"/debug/pprof/": false, "/debug/pprof/heap": false, "/admin/faults": false, "/admin/events": false,
		"/admin/snapshots": false, "/admin/cluster": false, "/admin/clock": false,
		"/search/v2.0/x": false, "/ui/v2.0/": false, "//search": false, "/admin/x/../faults": false, "/unknown": false,
		"/UI/": false,
	} {
		if w := get(h, path, "127.0.0.1:10003"); (w.Code != http.StatusUnauthorized) != open || !open &&
			strings.Contains(w.Body.String(), "hidden") {
			t.Errorf("%s without a token: %d %s", path, w.Code, w.Body)
		}
		if w := get(h, path, "127.0.0.1:10003", "Authorization",
			"Bearer 0123456789abcdeX"); (w.Code != http.StatusUnauthorized) != open {
			t.Errorf("%s with a wrong token: %d", path, w.Code)
		}
		if w := get(h, path, "127.0.0.1:10003", "Authorization",
			"Bearer 0123456789abcdef"); w.Code == http.StatusUnauthorized {
			t.Errorf("%s with the token: %d", path, w.Code)
		}
	}
}

func TestLogin(t *testing.T) {
	t.Parallel()
	h := guarded()
	if w := get(h, "/ui/login?token=wrong", "127.0.0.1:10003"); w.Code != http.StatusForbidden ||
		len(w.Result().Cookies()) > 0 {
		t.Errorf("a wrong token: %d", w.Code)
	}
	w := get(h, "/ui/login?token=0123456789abcdef", "127.0.0.1:10003")
	cookies := w.Result().Cookies()
	if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/ui/" || len(cookies) != 1 {
		t.Fatalf("login: %d, %v", w.Code, cookies)
	}
	if c := cookies[0]; !c.HttpOnly || c.SameSite != http.SameSiteStrictMode {
		t.Errorf("cookie %v", c)
	}
	ask := func(path, host string) int {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Host = host
		r.AddCookie(cookies[0])
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code
	}
	// the cookie is for pages
	for path, want := range map[string]int{"/ui/": 200, "/ui/requests": 200, "/": 302, "/admin/faults": 401,
		"/search": 401} {
		if got := ask(path, "127.0.0.1:10003"); got != want {
			t.Errorf("%s with the cookie: %d, want %d", path, got, want)
		}
	}
	if got := ask("/ui/", "127.0.0.1:10013"); got != http.StatusUnauthorized {
		t.Errorf("the cookie of another server: %d", got)
	}
}
