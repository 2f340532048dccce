package functions

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/functions/internal/keys"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/lazulitest"
)

// A page whose own name resolves to this machine (DNS rebinding) is of the origin that it asks: only the host that its
// browser sends tells. Without keys it reaches neither functions nor the host's own paths.
func TestRebinding(t *testing.T) {
	t.Parallel()
	handler, _ := record(`{"Outputs": {"res": {"body": "called"}}}`)
	files := map[string]string{"H/function.json": fmt.Sprintf(httpOnly, ""),
		"keys.json": `{"host.master": "the-master", "host.function.default": "any", "host.systemKey.default": "system"}`}
	for _, withKeys := range []bool{false, true} {
		dir := folder(t, files)
		c := Config{Dir: dir, Environ: os.Environ(), ConnectionString: lazulitest.Start(t).ConnectionString(),
			AllowHosts: []string{"tunnel.example"}}
		if withKeys {
			c.Keys = filepath.Join(dir, "keys.json")
		}
		r := runConfig(t, "", c, handler)
		for _, path := range []string{"/api/H", "/", "/admin/host/ping", "/admin/host/status", "/admin/functions",
			"/runtime/webhooks/durabletask/instances"} {
			for _, method := range []string{"GET", "POST"} {
				evil := do(t, method, r.url+path, "", "Host", "evil.example:7071", "Origin", "http://evil.example:7071",
					keys.Header, "none")
				if refused := strings.HasPrefix(evil, "403 host name"); refused == withKeys {
					t.Errorf("%s %s by a page, keys %v: %s", method, path, withKeys, evil)
				}
			}
		}
		for _, host := range []string{"tunnel.example", "TUNNEL.example:443", "127.0.0.1", "app.localhost:7071"} {
			if got := do(t, "POST", r.url+"/api/H", "", "Host", host, keys.Header, "any"); !strings.HasPrefix(got, "200") {
				t.Errorf("by the host %s, keys %v: %s", host, withKeys, got)
			}
		}
		// With keys the page at / does not tell what functions there are.
		page := get(t, r.url+"/")
		if told := strings.Contains(page, "api/H"); !strings.Contains(page, "up and running") || told == withKeys {
			t.Errorf("keys %v: %s", withKeys, page)
		}
	}
}

// A request with two lengths is refused: a proxy in front may have taken the other one.
func TestTwoLengths(t *testing.T) {
	t.Parallel()
	handler, _ := record(`{"Outputs": {"res": {"body": "called"}}}`)
	r := run(t, map[string]string{"H/function.json": fmt.Sprintf(httpOnly, "")}, handler)
	c, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
	check.OK(t, err)
	defer c.Close()
	check.OK(t, c.SetDeadline(time.Now().Add(time.Minute)))
	_, err = io.WriteString(c, "POST /api/H HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n"+
		"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /api/H HTTP/1.1\r\nHost: localhost\r\n\r\n")
	check.OK(t, err)
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	check.OK(t, err)
	if answer.StatusCode != http.StatusBadRequest || !answer.Close {
		t.Errorf("answer %s, the connection ends: %v", answer.Status, answer.Close)
	}
}
