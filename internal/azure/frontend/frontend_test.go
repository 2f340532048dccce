package frontend_test

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/httpserver"
	"github.com/lazuli-storage/lazuli/internal/test/testlog"
)

type state struct{}

type call struct{ *wire.Request }

var operations = []frontend.Operation[*state, *call]{
	{Name: "Echo", Method: "GET", On: "thing", Needs: auth.Need{Public: auth.Everyone}, Do: func(_ *state, c *call) error {
		return c.Body(200, "text/plain", []byte(c.RawPath))
	}},
	{Name: "Merge", Method: "MERGE", On: "thing", Needs: auth.Need{Public: auth.Everyone},
		Do: func(_ *state, c *call) error {
			return c.Status(http.StatusNoContent)
		}},
	{Name: "Private", Method: "PUT", On: "thing", Needs: auth.Need{Any: "w"}, Do: func(_ *state, c *call) error {
		return c.Status(http.StatusCreated)
	}},
	{Name: "Crash", Method: "GET", On: "thing", Comp: "crash", Needs: auth.Need{Public: auth.Everyone},
		Do: func(*state, *call) error {
			panic("broken on purpose")
		}},
	{Name: "Wait", Method: "GET", On: "thing", Comp: "wait", Needs: auth.Need{Public: auth.Everyone},
		Do: func(_ *state, c *call) error {
			<-c.HTTP.Context().Done()
			return context.Cause(c.HTTP.Context())
		}},
	{Name: "Meta", Method: "GET", On: "thing", Comp: "metadata", Needs: auth.Need{Public: auth.Everyone},
		Do: func(_ *state, c *call) error {
			list, err := c.Metadata()
			if err != nil {
				return err
			}
			c.SetMetadata(list)
			return c.Status(http.StatusOK)
		}},
	{Name: "Later", Method: "GET", On: "thing", Comp: "later", Needs: auth.Need{Public: auth.Everyone},
		State: frontend.NotImplemented},
}

// start serves the operations above on a free port and returns the address of the development account.
func start(t *testing.T) string {
	t.Helper()
	return startWith(t, func(*frontend.Common) {})
}

// startWith is start with a configuration that set changes.
func startWith(t *testing.T, set func(*frontend.Common)) string {
	t.Helper()
	common := frontend.Common{
		Accounts: auth.Development(),
		Now:      func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) },
		Log:      slog.New(slog.DiscardHandler),
	}
	set(&common)
	f := frontend.New(frontend.Config[*state, *call]{
		Service:    wire.Blob,
		Operations: operations,
		Resolve: func(_ *state, r *wire.Request) (*call, frontend.Level, error) {
			return &call{r}, "thing", nil
		},
		Render: wire.RenderXML,
		Common: common,
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := httpserver.New(f, slog.New(slog.DiscardHandler), 0)
	go func() { _ = httpserver.Serve(server, l, httpserver.Options{}) }()
	t.Cleanup(func() { _ = server.Shutdown(context.Background()) })
	return "http://" + l.Addr().String() + "/" + auth.DevelopmentAccount
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	base := start(t)
	for _, tc := range []struct {
		name, method, path string
		header             [2]string
		status             int
		code, body         string
	}{
		{name: "path as sent", method: "GET", path: "/a%2Fb//c.d", status: 200, body: "/a%2Fb//c.d"},
		{name: "path with dots", method: "GET", path: "/a/c/../d", status: 200, body: "/a/d"},
		{name: "method of its own", method: "MERGE", path: "/a", status: 204},
		{name: "unknown method", method: "DELETE", path: "/a", status: 405, code: "UnsupportedHttpVerb"},
		{name: "unknown comp", method: "GET", path: "/a?comp=nonsense", status: 400, code: "InvalidQueryParameterValue"},
		{name: "percent sign that encodes nothing", method: "GET", path: "/a?x=%zz", status: 200, body: "/a"},
		{name: "timeout", method: "GET", path: "/a?timeout=30", status: 200, body: "/a"},
		{name: "timeout without bound", method: "GET", path: "/a?timeout=0", status: 200, body: "/a"},
		{name: "timeout in words", method: "GET", path: "/a?timeout=soon", status: 400, code: "InvalidQueryParameterValue"},
		{name: "negative timeout", method: "GET", path: "/a?timeout=-1", status: 400, code: "InvalidQueryParameterValue"},
		{name: "timeout that is over", method: "GET", path: "/a?comp=wait&timeout=1", status: 500, code: "OperationTimedOut"},
		{name: "row without handler", method: "GET", path: "/a?comp=later", status: 501, code: "NotImplemented"},
		{name: "panic", method: "GET", path: "/a?comp=crash", status: 500, code: "InternalError"},
		{name: "anonymous, old version", method: "PUT", path: "/a", status: 404, code: "ResourceNotFound"},
		{name: "anonymous, new version", method: "PUT", path: "/a", header: [2]string{"x-ms-version", "2021-12-02"},
			status: 401, code: "NoAuthenticationInformation"},
		{name: "malformed version", method: "GET", path: "/a", header: [2]string{"x-ms-version", "yesterday"},
			status: 400, code: "InvalidHeaderValue"},
		{name: "future version", method: "GET", path: "/a", header: [2]string{"x-ms-version", "2999-01-01"},
			status: 200, body: "/a"},
		{name: "unreadable authorization", method: "PUT", path: "/a", header: [2]string{"Authorization", "SharedKey"},
			status: 400, code: "InvalidAuthenticationInfo"},
		{name: "HEAD has no body", method: "HEAD", path: "/a", status: 405, code: "UnsupportedHttpVerb"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			hr, err := http.NewRequest(tc.method, base+tc.path, nil)
			if err != nil {
				if hr, err = http.NewRequest(tc.method, base, nil); err != nil {
					t.Fatal(err)
				}
			}
			hr.URL.Opaque, hr.URL.RawQuery = strings.TrimPrefix(base+tc.path, "http:"), ""
			if tc.header[0] != "" {
				hr.Header.Set(tc.header[0], tc.header[1])
			}
			resp, err := http.DefaultClient.Do(hr)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			body, _ := io.ReadAll(resp.Body)
			if resp.StatusCode != tc.status || resp.Header.Get("x-ms-error-code") != tc.code {
				t.Fatalf("got %d %q, want %d %q; body %s", resp.StatusCode, resp.Header.Get("x-ms-error-code"), tc.status, tc.code,
					body)
			}
			if tc.code == "" && string(body) != tc.body {
				t.Errorf("body %q, want %q", body, tc.body)
			}
			if tc.code != "" && tc.method != "HEAD" && !strings.Contains(string(body), "<Code>"+tc.code+"</Code>") {
				t.Errorf("body %q does not have the code %s", body, tc.code)
			}
			if resp.Header.Get("x-ms-request-id") == "" || resp.Header.Get("Date") != "Fri, 02 Jan 2026 03:04:05 GMT" {
				t.Errorf("headers every answer has are missing: %v", resp.Header)
			}
		})
	}
}

// A request whose client leaves is no defect of the server: it is not logged as an error, and counts as not answered.
func TestClientThatLeavesIsNoError(t *testing.T) {
	t.Parallel()
	var log testlog.Buffer
	begun, outcomes := make(chan struct{}), make(chan frontend.Outcome, 1)
	base := startWith(t, func(c *frontend.Common) {
		c.Log = slog.New(slog.NewTextHandler(&log, nil))
		c.Now = func() time.Time {
			close(begun) // by the only request
			return time.Now()
		}
		c.Observe = func(_ *wire.Request, o frontend.Outcome) { outcomes <- o }
	})
	ctx, cancel := context.WithCancel(t.Context())
	hr, err := http.NewRequestWithContext(ctx, "GET", base+"/a?comp=wait", nil)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		<-begun
		cancel()
	}()
	if resp, err := http.DefaultClient.Do(hr); err == nil {
		resp.Body.Close()
		t.Fatalf("answer %d", resp.StatusCode)
	}
	if o := <-outcomes; o.Status != 0 {
		t.Errorf("counted with status %d", o.Status)
	}
	if text := log.String(); text != "" {
		t.Errorf("logged: %s", text)
	}
}

// A request with more headers than Azure takes is answered 400, before its signature is looked at.
func TestTooManyHeaders(t *testing.T) {
	t.Parallel()
	base := start(t)
	for _, tc := range []struct {
		name         string
		count, bytes int
		status       int
	}{
		{"many", 900, 10, 200},
		{"too many", 1100, 10, 400},
		{"large", 10, 6000, 200},
		{"too large", 10, 7000, 400},
		{"one that is too large", 1, 70_000, 400},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			hr, err := http.NewRequest("GET", base+"/a", nil)
			if err != nil {
				t.Fatal(err)
			}
			for i := range tc.count {
				hr.Header.Set("x-ms-"+strconv.Itoa(i), strings.Repeat("x", tc.bytes))
			}
			resp, err := http.DefaultClient.Do(hr)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != tc.status || tc.status == 400 && resp.Header.Get("x-ms-error-code") != "OutOfRangeInput" {
				t.Errorf("answer %d %v, want %d", resp.StatusCode, resp.Header, tc.status)
			}
		})
	}
}

func TestMetadataKeepsCase(t *testing.T) {
	t.Parallel()
	base := start(t)
	c, err := net.Dial("tcp", strings.Split(strings.TrimPrefix(base, "http://"), "/")[0])
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	answers := bufio.NewReader(c) // which have no body
	for _, name := range []string{"CamelCase", "lower", "UPPER", "camelcase"} {
		// A head longer than one read: the name may be cut anywhere.
		for pad := 3950; pad < 4010; pad += 7 {
			_, err = io.WriteString(c, "GET /devstoreaccount1/x?comp=metadata HTTP/1.1\r\nHost: h\r\nX-Pad: "+
				strings.Repeat("p", pad)+"\r\nx-ms-meta-"+name+": v\r\n\r\n")
			if err != nil {
				t.Fatal(err)
			}
			head := ""
			for !strings.HasSuffix(head, "\r\n\r\n") {
				line, err := answers.ReadString('\n')
				if err != nil {
					t.Fatal(err)
				}
				head += line
			}
			if !strings.Contains(head, "\r\nx-ms-meta-"+name+": v\r\n") {
				t.Fatalf("pad %d: the answer has no x-ms-meta-%s:\n%s", pad, name, head)
			}
		}
	}
}

func TestIncompleteTableIsRefused(t *testing.T) {
	t.Parallel()
	row := func(name string, has, hasNot []string) frontend.Operation[*state, *call] {
		return frontend.Operation[*state, *call]{Name: name, Method: "PUT", On: "thing", Has: has, HasNot: hasNot,
			Needs: auth.Need{On: auth.OnObject, Any: "w"}, Do: func(*state, *call) error { return nil }}
	}
	with := func(has []string, need auth.Need, touches ...frontend.Touch) []frontend.Operation[*state, *call] {
		r := row("A", has, nil)
		r.Needs, r.Touches = need, touches
		return []frontend.Operation[*state, *call]{r}
	}
	need := auth.Need{On: auth.OnObject, Any: "r"}
	source := []string{"X-Ms-Rename-Source"}
	takes := frontend.Touch{Does: frontend.Takes, Source: source[0], Need: need}
	for _, tc := range []struct {
		name  string
		rows  []frontend.Operation[*state, *call]
		panic bool
	}{
		{"equal", []frontend.Operation[*state, *call]{row("A", nil, nil), row("B", nil, nil)}, true},
		{"one demands", []frontend.Operation[*state, *call]{row("A", []string{"X"}, nil), row("B", nil, nil)}, true},
		{"one demands, the other refuses",
			[]frontend.Operation[*state, *call]{row("A", []string{"X"}, nil), row("B", nil, []string{"X"})}, false},
		{"no permission", with(nil, auth.Need{}), true},
		{"a second path without a declaration", with(source, need), true},
		{"a second path, declared for an option alone", with(source, need, frontend.Touch{Does: frontend.Takes,
			Source: source[0], Options: []string{"X"}, Need: need}), true},
		{"a touch without a permission", with(nil, need, frontend.Touch{Does: frontend.Takes}), true},
		{"a touch without a deed", with(nil, need, frontend.Touch{Need: need}), true},
		{"touches that nothing checks", with(source, need, takes), true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			defer func() {
				if p := recover(); (p != nil) != tc.panic {
					t.Errorf("panic %v, want one: %v", p, tc.panic)
				}
			}()
			frontend.New(frontend.Config[*state, *call]{Service: wire.Blob, Operations: tc.rows, Render: wire.RenderXML,
				Resolve: func(*state, *wire.Request) (*call, frontend.Level, error) { return nil, "", nil },
				Common:  frontend.Common{Accounts: auth.Development()}})
		})
	}
}

// A client that asks before it sends its body is refused without it: net/http must not wait for what never comes.
func TestRefusedBeforeBody(t *testing.T) {
	t.Parallel()
	base := start(t)
	c, err := net.Dial("tcp", strings.Split(strings.TrimPrefix(base, "http://"), "/")[0])
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	// The limit for a slow body is a minute. An answer that waited for it is a 400, whenever it comes.
	if err := c.SetDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	_, err = io.WriteString(c, "PUT /devstoreaccount1/x HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\nExpect: "+
		"100-continue\r\n"+
		"x-ms-version: 2021-12-02\r\n\r\n")
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 64)
	n, err := io.ReadAtLeast(c, buf, 12)
	if err != nil {
		t.Fatalf("no answer: %v", err)
	}
	if got := string(buf[:n]); !strings.HasPrefix(got, "HTTP/1.1 401") {
		t.Errorf("got %q, want the refusal and no 100 Continue", got)
	}
}
