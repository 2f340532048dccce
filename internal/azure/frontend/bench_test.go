package frontend

import (
	"bufio"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/faultrule"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/httpserver"
)

// BenchmarkRequest is one small request over a connection that is kept, with and without deadlines.
func BenchmarkRequest(b *testing.B) {
	for name, progress := range map[string]Common{"paced": {}, "unpaced": {Progress: -1}} {
		b.Run(name, func(b *testing.B) {
			common := progress
			common.Accounts, common.Log = auth.Development(), slog.New(slog.DiscardHandler)
			body := make([]byte, 1024)
			f := New(Config[*bench, *benchCall]{Service: wire.Blob, Render: wire.RenderXML, Common: common,
				Resolve: func(_ *bench, r *wire.Request) (*benchCall, Level, error) { return &benchCall{r}, "x", nil },
				Operations: []Operation[*bench, *benchCall]{open("Put", "PUT", "", func(_ *bench, c *benchCall) error {
					if _, err := c.ReadBody(1 << 20); err != nil {
						return err
					}
					return c.Body(http.StatusOK, "text/plain", body)
				})}})
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			server := httpserver.New(f, common.Log, 0)
			go func() { _ = httpserver.Serve(server, l, httpserver.Options{}) }()
			defer server.Close()
			c, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close()
			request := "PUT " + path + " HTTP/1.1\r\nHost: h\r\nx-ms-version: 2021-12-02\r\nContent-Length: 1024\r\n\r\n" +
				string(body)
			in := bufio.NewReader(c)
			for b.Loop() {
				if _, err := io.WriteString(c, request); err != nil {
					b.Fatal(err)
				}
				resp, err := http.ReadResponse(in, nil)
				if err != nil || resp.StatusCode != 200 {
					b.Fatal(resp, err)
				}
				_, _ = io.Copy(io.Discard, resp.Body)
			}
		})
	}
}

// BenchmarkFaults is one small request in the process, on a server without fault rules (off), and on one that allows
// them and has none (empty).
func BenchmarkFaults(b *testing.B) {
	for _, tc := range []struct {
		name   string
		faults *faultrule.Set
	}{{"off", nil}, {"empty", faultrule.NewSet([]string{"Put"}, time.Now)}} {
		b.Run(tc.name, func(b *testing.B) {
			common := Common{Accounts: auth.Development(), Log: slog.New(slog.DiscardHandler), Faults: tc.faults, Progress: -1}
			body := make([]byte, 1024)
			f := New(Config[*bench, *benchCall]{Service: wire.Blob, Render: wire.RenderXML, Common: common,
				Resolve: func(_ *bench, r *wire.Request) (*benchCall, Level, error) { return &benchCall{r}, "x", nil },
				Operations: []Operation[*bench, *benchCall]{open("Put", "PUT", "", func(_ *bench, c *benchCall) error {
					return c.Body(http.StatusOK, "text/plain", body)
				})}})
			r := httptest.NewRequest(http.MethodPut, path, nil)
			r.Header.Set("X-Ms-Version", "2021-12-02")
			w := &blank{header: http.Header{}}
			b.ReportAllocs()
			for b.Loop() {
				clear(w.header)
				if f.ServeHTTP(w, r); w.status != http.StatusOK {
					b.Fatal(w.status)
				}
			}
		})
	}
}

// blank is a ResponseWriter that keeps the status alone.
type blank struct {
	header http.Header
	status int
}

func (w *blank) Header() http.Header         { return w.header }
func (w *blank) WriteHeader(status int)      { w.status = status }
func (w *blank) Write(b []byte) (int, error) { return len(b), nil }
