package admin

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

func get(h http.Handler, path, host string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.Host = host
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestEndpoints(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	counter := prometheus.NewCounter(prometheus.CounterOpts{Name: "lazuli_test_total"})
	reg.MustRegister(counter)
	counter.Inc()
	var notReady error
	issuer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_,
			_ = io.WriteString(w, "issuer at "+r.URL.Path)
	})
	workers := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_,
			_ = io.WriteString(w, "workers at "+r.URL.Path)
	})
	full := NewHandler(Options{Ready: func() error { return notReady }, Metrics: reg, Pprof: true, Issuer: issuer,
		Complete: func(context.Context) error { return notReady }, Workers: workers})
	bare := NewHandler(Options{})
	for _, tc := range []struct {
		name   string
		h      http.Handler
		ready  error
		path   string
		status int
		body   string
	}{
		{"alive", full, errors.New("starting"), "/healthz", 200, "ok\n"},
		{"ready", full, nil, "/readyz", 200, "ready\n"},
		{"not ready", full, errors.New("starting"), "/readyz", 503, "not ready: starting\n"},
		{"ready without a function", bare, nil, "/readyz", 200, "ready\n"},
		{"complete", full, nil, "/readyz?copies=complete", 200, "ready\n"},
		{"not complete", full, errors.New("n1 lacks 5 B"), "/readyz?copies=complete", 503, "not ready: n1 lacks 5 B\n"},
		{"complete without a function", bare, nil, "/readyz?copies=complete", 200, "ready\n"},
		{"half complete", full, nil, "/readyz?copies=half", 400, "complete"},
		{"metrics", full, nil, "/metrics", 200, "lazuli_test_total 1"},
		{"no metrics", bare, nil, "/metrics", 404, ""},
		{"profiles", full, nil, "/debug/pprof/", 200, "goroutine"},
		{"one profile", full, nil, "/debug/pprof/goroutine?debug=1", 200, "goroutine profile"},
		{"no profiles unless asked for", bare, nil, "/debug/pprof/", 404, ""},
		{"tokens", full, nil, "/oauth/msi/token?resource=x", 200, "issuer at /msi/token"},
		{"tokens of virtual machines", full, nil, "/metadata/identity/oauth2/token?resource=x", 200,
			"issuer at /metadata/identity/oauth2/token"},
		{"workers", full, nil, "/workers", 200, "workers at /"},
		{"a worker", full, nil, "/workers/orders/pause", 200, "workers at /orders/pause"},
		{"no workers", bare, nil, "/workers", 404, ""},
		{"no tokens unless asked for", bare, nil, "/oauth/msi/token", 404, ""},
		{"unknown", full, nil, "/x", 404, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			notReady = tc.ready
			w := get(tc.h, tc.path, "127.0.0.1:10003")
			if w.Code != tc.status || !strings.Contains(w.Body.String(), tc.body) {
				t.Errorf("got %d %q, want %d with %q", w.Code, w.Body, tc.status, tc.body)
			}
		})
	}
}

func TestGuard(t *testing.T) {
	t.Parallel()
	h := NewHandler(Options{AllowHosts: []string{"lazuli"}})
	for _, tc := range []struct {
		name, host string
		headers    []string
		status     int
	}{
		{"loopback", "127.0.0.1:10003", nil, 200},
		{"IPv6", "[::1]:10003", nil, 200},
		{"IPv6 without port", "[::1]", nil, 200},
		{"localhost", "localhost:10003", nil, 200},
		{"localhost, final dot", "LOCALHOST.", nil, 200},
		{"below localhost", "admin.localhost:10003", nil, 200},
		{"other address", "10.1.2.3:10003", nil, 200},
		{"allowed name", "Lazuli:10003", nil, 200},
		{"rebound name", "evil.example:10003", nil, 403},
		{"name that begins like an address", "127.0.0.1.evil.example", nil, 403},
		{"name that ends like localhost", "evillocalhost", nil, 403},
		{"no host", "", nil, 403},
		{"own origin", "127.0.0.1:10003", []string{"Origin", "http://127.0.0.1:10003"}, 200},
		{"other origin", "127.0.0.1:10003", []string{"Origin", "https://evil.example"}, 403},
		{"origin at an address", "127.0.0.1:10003", []string{"Origin", "http://203.0.113.9"}, 403},
		{"origin of another program here", "localhost:10003", []string{"Origin", "http://localhost:3000"}, 403},
		{"origin of an allowed name", "127.0.0.1:10003", []string{"Origin", "https://lazuli:8443"}, 200},
		{"opaque origin", "127.0.0.1:10003", []string{"Origin", "null"}, 403},
		{"another site's image", "127.0.0.1:10003", []string{"Sec-Fetch-Site", "cross-site"}, 403},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if w := get(h, "/healthz", tc.host, tc.headers...); w.Code != tc.status {
				t.Errorf("got %d, want %d", w.Code, tc.status)
			}
		})
	}
}

func TestServer(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := Start(l, Options{})
	resp, err := http.Get("http://" + l.Addr().String() + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if string(body) != "ok\n" {
		t.Errorf("got %q", body)
	}
	for range 2 {
		if err := s.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	}
	if c, err := net.Dial("tcp", l.Addr().String()); err == nil {
		c.Close()
		t.Error("still listening after Stop")
	}
}
