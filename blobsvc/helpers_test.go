package blobsvc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"

	"github.com/lazuli-storage/lazuli/blobsvc"
	"github.com/lazuli-storage/lazuli/internal/azure/accountprops"
	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
	"github.com/lazuli-storage/lazuli/internal/httpserver"
	host "github.com/lazuli-storage/lazuli/internal/service"
	"github.com/lazuli-storage/lazuli/internal/service/blobhost"
	"github.com/lazuli-storage/lazuli/internal/storage/extent"
	"github.com/lazuli-storage/lazuli/internal/test/clock"
	"github.com/lazuli-storage/lazuli/internal/test/signer"
)

// fixture is a running service.
type fixture struct {
	t     testing.TB
	svc   *blobsvc.Service
	parts *blobhost.Parts // of svc
	base  string          // the account's URL
	dir   string
	set   func(*blobhost.Config) // nil for none
	clock *clock.Clock
}

// start runs a service on a free port. Its state is checked when the test ends.
func start(t testing.TB) *fixture {
	t.Helper()
	return startWith(t, nil)
}

// startWith is start with a configuration that set changes.
func startWith(t testing.TB, set func(*blobhost.Config)) *fixture {
	t.Helper()
	f := &fixture{t: t, dir: t.TempDir(), set: set, clock: clock.New(time.Microsecond)}
	f.open()
	return f
}

// manage gives all accounts of a configuration these settings.
func manage(c *blobhost.Config, b accountprops.Blob, accounts ...auth.Account) {
	all, err := auth.NewManagedAccounts(b, append(accounts, *auth.Development().Get(auth.DevelopmentAccount))...)
	if err != nil {
		panic(err)
	}
	c.Accounts, c.ScopeKeys = all, filepath.Dir(c.Path)+"/scopes.json"
}

// managed is startWith for settings of all accounts.
func managed(t testing.TB, b accountprops.Blob) *fixture {
	t.Helper()
	return startWith(t, func(c *blobhost.Config) { manage(c, b) })
}

func (f *fixture) open() {
	f.t.Helper()
	config := blobhost.Config{Path: f.dir + "/blobs.db", Extents: f.dir + "/extents", Relaxed: true, CleanEvery: -1,
		Common: frontend.Common{Accounts: auth.Development(), Now: f.now,
			Log: slog.New(slog.NewTextHandler(f.t.Output(), nil))}}
	if f.set != nil {
		f.set(&config)
	}
	svc, err := host.Open(blobsvc.New, &config)
	if err != nil {
		f.t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		f.t.Fatal(err)
	}
	server := httpserver.New(svc.Handler(), slog.New(slog.DiscardHandler), 0)
	go func() { _ = httpserver.Serve(server, l, httpserver.Options{}) }()
	f.svc, f.parts, f.base = svc, host.Get(svc), "http://"+l.Addr().String()+"/"+auth.DevelopmentAccount
	f.t.Cleanup(func() {
		_ = server.Shutdown(context.Background())
		if svc != f.svc {
			return
		}
		if _, err := f.parts.State.Maintenance.Audit(func(err error) { f.t.Error(err) }); err != nil {
			f.t.Error(err)
		}
		if err := svc.Close(); err != nil {
			f.t.Error(err)
		}
	})
}

// reopen closes the service and starts it again on the same state.
func (f *fixture) reopen() {
	f.t.Helper()
	svc := f.svc
	f.svc = nil
	if err := svc.Close(); err != nil {
		f.t.Fatal(err)
	}
	f.open()
}

func credential(t testing.TB) *azblob.SharedKeyCredential {
	t.Helper()
	cred, err := azblob.NewSharedKeyCredential(auth.DevelopmentAccount, auth.DevelopmentKey)
	if err != nil {
		t.Fatal(err)
	}
	return cred
}

// noRetries makes a failure show at once.
var noRetries = azcore.ClientOptions{Retry: policy.RetryOptions{MaxRetries: -1}}

func (f *fixture) service() *service.Client {
	f.t.Helper()
	o := noRetries
	o.PerCallPolicies = []policy.Policy{dated{f}}
	c, err := service.NewClientWithSharedKeyCredential(f.base, credential(f.t), &service.ClientOptions{ClientOptions: o})
	if err != nil {
		f.t.Fatal(err)
	}
	return c
}

// dated gives requests the time that the service has, however long the test has run.
type dated struct{ f *fixture }

func (d dated) Do(r *policy.Request) (*http.Response, error) {
	r.Raw().Header.Set("x-ms-date", d.f.now().UTC().Format(http.TimeFormat))
	return r.Next()
}

// container makes a container with a name of its own.
func (f *fixture) container() *container.Client {
	f.t.Helper()
	c := f.service().NewContainerClient(f.containerName())
	if _, err := c.Create(ctx, nil); err != nil {
		f.t.Fatal(err)
	}
	return c
}

// publicContainer makes a container whose blobs any client may read, as the sources of writes from a URL must be.
func (f *fixture) publicContainer() *container.Client {
	f.t.Helper()
	c := f.service().NewContainerClient(f.containerName())
	if _, err := c.Create(ctx, &container.CreateOptions{Access: to.Ptr(container.PublicAccessTypeBlob)}); err != nil {
		f.t.Fatal(err)
	}
	return c
}

func (f *fixture) containerName() string {
	return fmt.Sprintf("c%016x", rand.Uint64())
}

var ctx = context.Background()

// wantCode fails unless err is an answer with the status and error code.
func wantCode(t tester, err error, status int, code string) {
	t.Helper()
	var re *azcore.ResponseError
	if !errors.As(err, &re) {
		t.Fatalf("error %v, want %d %s", err, status, code)
	}
	if re.StatusCode != status || re.ErrorCode != code {
		t.Fatalf("answer %d %s, want %d %s", re.StatusCode, re.ErrorCode, status, code)
	}
}

// tester is a test, or one of rapid, which prints what led to a failure that is reported to it.
type tester interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

func must[T any](v T, err error) func(tester) T {
	return func(t tester) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func body(s string) io.ReadSeekCloser { return nopCloser{strings.NewReader(s)} }

type nopCloser struct{ *strings.Reader }

func (nopCloser) Close() error { return nil }

// reply is an answer read whole.
type reply struct {
	status int
	header http.Header
	body   string
}

func (r reply) code() string { return r.header.Get("x-ms-error-code") }

// want fails unless the answer has the status and error code.
func (r reply) want(t tester, status int, code string) reply {
	t.Helper()
	if r.status != status || r.code() != code {
		t.Fatalf("answer %d %q, want %d %q\n%s", r.status, r.code(), status, code, r.body)
	}
	return r
}

// do sends a request with Shared Key, for what no SDK would send. path is below the account and sent as it is; headers
// are name, value pairs; x-ms-version is 2021-12-02 unless given.
func (f *fixture) do(method, path, content string, headers ...string) reply {
	f.t.Helper()
	hr := f.request(method, path, content, headers...)
	return f.send(hr)
}

func (f *fixture) send(hr *http.Request) reply {
	f.t.Helper()
	resp, err := http.DefaultTransport.RoundTrip(hr)
	if err != nil {
		f.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		f.t.Fatal(err)
	}
	return reply{resp.StatusCode, resp.Header, string(b)}
}

// anonymous sends a request without a credential.
func (f *fixture) anonymous(method, path string, headers ...string) reply {
	f.t.Helper()
	hr := f.request(method, path, "", headers...)
	hr.Header.Del("Authorization")
	return f.send(hr)
}

func (f *fixture) request(method, path, content string, headers ...string) *http.Request {
	f.t.Helper()
	u, err := url.Parse(f.base)
	if err != nil {
		f.t.Fatal(err)
	}
	raw, query, _ := strings.Cut(path, "?")
	u.Opaque = "//" + u.Host + u.Path + raw
	uriPath := u.Path + raw
	u.RawQuery = query
	hr := &http.Request{Method: method, URL: u, Host: u.Host, Header: http.Header{}, ContentLength: int64(len(content))}
	hr.Body = io.NopCloser(strings.NewReader(content))
	if content == "" {
		hr.Body = http.NoBody
	}
	hr.Header.Set("x-ms-date", f.now().UTC().Format(http.TimeFormat))
	hr.Header.Set("x-ms-version", "2021-12-02")
	for i := 0; i+1 < len(headers); i += 2 {
		hr.Header.Set(headers[i], headers[i+1])
	}
	developer.SharedKey(hr, uriPath)
	return hr
}

// developer signs for the development account.
var developer = signer.Account{Name: auth.DevelopmentAccount, Key: signer.ParseKey(auth.DevelopmentKey)}

// now returns the time of the service.
func (f *fixture) now() time.Time { return f.clock.Now() }

// advance moves the clock of the service.
func (f *fixture) advance(d time.Duration) { f.clock.Advance(d) }

// unbounded are options for a compaction that nothing runs beside.
var unbounded = extent.CompactOptions{BytesPerSecond: -1}
