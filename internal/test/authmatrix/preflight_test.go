package authmatrix

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// A preflight request for the address of any operation, and for any other, is decided by the account's rules only. The
// account has none here.
func TestPreflightIsDecidedByRules(t *testing.T) {
	h := build(t)
	ask := func(svc wire.Service, host, target string) {
		t.Helper()
		r := httptest.NewRequest("OPTIONS", "http://"+host+"/", nil)
		r.RequestURI, r.RemoteAddr = target, "127.0.0.1:5555"
		r.Header.Set("Origin", "https://example.com")
		r.Header.Set("Access-Control-Request-Method", "PUT")
		w := httptest.NewRecorder()
		h.handlers[svc].ServeHTTP(w, r)
		if w.Code != 403 || !strings.Contains(w.Body.String(), "CorsPreflightFailure") {
			t.Errorf("%s OPTIONS %s: %d %s", svc, target, w.Code, w.Body)
		}
	}
	each(t, func(t *testing.T, svc wire.Service, row frontend.Row, _ rule) {
		r := request(t, svc, row, account, "")
		ask(svc, r.Host, r.RequestURI)
	})
	for _, svc := range services {
		for _, target := range []string{"", "/", "/UPPER/x", "/a//b", "/x?comp=nonsense", "/x?restype=nonsense&comp=list",
			"/line/other/x", "/Tab(x", "-secondary/box"} {
			ask(svc, "127.0.0.1:10000", "/"+account+target)
		}
	}
}
