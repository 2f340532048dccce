package originguard

import (
	"net/http/httptest"
	"testing"
)

func TestRefusal(t *testing.T) {
	t.Parallel()
	allow := []string{"lazuli.test"}
	for _, tc := range []struct {
		name, host, origin, site string
		trusted                  bool
	}{
		{"address", "127.0.0.1:10003", "", "", true},
		{"IPv6 address", "[::1]:10003", "", "", true},
		{"localhost", "localhost:10003", "", "", true},
		{"name below localhost", "admin.localhost", "", "", true},
		{"allowed name", "LAZULI.test:10003", "", "", true},
		{"another name", "example.com", "", "", false},
		{"name that ends like an allowed one", "not-lazuli.test", "", "", false},
		{"same origin", "127.0.0.1:10003", "http://127.0.0.1:10003", "same-origin", true},
		{"allowed origin", "127.0.0.1:10003", "https://lazuli.test", "", true},
		{"another port of this machine", "127.0.0.1:10003", "http://127.0.0.1:8080", "", false},
		{"another origin", "127.0.0.1:10003", "https://example.com", "", false},
		{"origin of a file", "127.0.0.1:10003", "null", "", false},
		{"request of another site", "127.0.0.1:10003", "", "cross-site", false},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Host = tc.host
		if tc.origin != "" {
			r.Header.Set("Origin", tc.origin)
		}
		if tc.site != "" {
			r.Header.Set("Sec-Fetch-Site", tc.site)
		}
		if reason := Refusal(r, allow); (reason == "") != tc.trusted {
			t.Errorf("%s: reason %q, want trusted %v", tc.name, reason, tc.trusted)
		}
	}
}
