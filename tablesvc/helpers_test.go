package tablesvc

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
	"github.com/lazuli-storage/lazuli/internal/azure/properties"
	"github.com/lazuli-storage/lazuli/internal/service/tablehost"
	state "github.com/lazuli-storage/lazuli/internal/state/table"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/signer"
)

// fixture is a running service with ways to talk to it.
type fixture struct {
	t    testing.TB
	svc  *Service
	path string
	base string // address of the development account
	sdk  *aztables.ServiceClient
}

var ctx = context.Background()

// start runs a service of its own for the test. When the test ends, the service's file is checked.
func start(t testing.TB, options ...func(*tablehost.Config)) *fixture {
	t.Helper()
	f := &fixture{t: t, path: filepath.Join(t.TempDir(), "tables.db")}
	f.open(options...)
	return f
}

func (f *fixture) open(options ...func(*tablehost.Config)) {
	t := f.t
	t.Helper()
	c := tablehost.Config{Path: f.path, Store: store.Options{Relaxed: true},
		Common: frontend.Common{Accounts: auth.Development(), Log: slog.New(slog.DiscardHandler)}}
	for _, o := range options {
		o(&c)
	}
	svc, err := open(c)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(svc.Handler())
	f.svc, f.base = svc, server.URL+"/"+auth.DevelopmentAccount
	cred, err := aztables.NewSharedKeyCredential(auth.DevelopmentAccount, auth.DevelopmentKey)
	if err != nil {
		t.Fatal(err)
	}
	f.sdk, err = aztables.NewServiceClientWithSharedKey(f.base, cred, &aztables.ClientOptions{
		ClientOptions: azcore.ClientOptions{Retry: policy.RetryOptions{MaxRetries: -1}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		server.Close()
		if err := svc.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		f.check()
	})
}

// check runs the checker over the closed file.
func (f *fixture) check() state.Counts {
	f.t.Helper()
	db, err := state.OpenFile(f.path, store.Options{ReadOnly: true})
	if err != nil {
		f.t.Fatal(err)
	}
	defer db.Close()
	values := state.Values{Properties: properties.Check, Policies: properties.CheckPolicies}
	n, err := state.Check(db, values, func(found state.Finding) { f.t.Errorf("checker: %v", found) })
	if err != nil {
		f.t.Error(err)
	}
	return n
}

// table makes a table and returns its client.
func (f *fixture) table(name string) *aztables.Client {
	f.t.Helper()
	if _, err := f.sdk.CreateTable(ctx, name, nil); err != nil {
		f.t.Fatal(err)
	}
	return f.sdk.NewClient(name)
}

// reply is an answer, read.
type reply struct {
	status int
	header http.Header
	body   string
}

// headers are names and values in turn.
type headers []string

// send signs a request with Shared Key Lite and returns the answer. path begins below the account. A header of the
// empty value is left out. It ends the test if there is no answer, so it is for the test's own goroutine.
func (f *fixture) send(method, path string, h headers, body string) reply {
	f.t.Helper()
	r, err := f.try(method, path, h, body)
	check.OK(f.t, err)
	return r
}

// try is send for any goroutine.
func (f *fixture) try(method, path string, h headers, body string) (reply, error) {
	req, err := http.NewRequest(method, f.base, strings.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	path, req.URL.RawQuery, _ = strings.Cut("/"+auth.DevelopmentAccount+path, "?")
	req.URL.Opaque = path
	date := time.Now().UTC().Format(http.TimeFormat)
	req.Header.Set("x-ms-date", date)
	req.Header.Set("x-ms-version", "2019-02-02")
	req.Header.Set("Accept", "application/json;odata=nometadata")
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	signer.Account{Name: auth.DevelopmentAccount, Key: devSigner, Table: true}.SharedKeyLite(req, path)
	for i := 0; i+1 < len(h); i += 2 {
		req.Header.Del(h[i])
		if h[i+1] != "" {
			req.Header.Add(h[i], h[i+1])
		}
	}
	if host := req.Header.Get("Host"); host != "" {
		req.Host = host
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, string(b)}, err
}

// code returns the error code in the body, "" if none exists.
func (r reply) code() string {
	var doc struct {
		Error struct{ Code string } `json:"odata.error"`
	}
	if json.Unmarshal([]byte(r.body), &doc) == nil && doc.Error.Code != "" {
		return doc.Error.Code
	}
	var x struct {
		XMLName xml.Name
		Code    string `xml:"code"`
	}
	if xml.Unmarshal([]byte(r.body), &x) == nil && x.XMLName.Local == "error" {
		return x.Code
	}
	return ""
}

// want fails the test unless the answer has the status and the error code, written as "404 TableNotFound" or "204".
func (r reply) want(t testing.TB, expected string) reply {
	t.Helper()
	got := fmt.Sprint(r.status)
	if code := r.code(); code != "" {
		got += " " + code
	}
	if got != expected {
		t.Errorf("got %s, want %s; body %.300s", got, expected, r.body)
	}
	return r
}

// entityJSON makes the body of an entity.
func entityJSON(partition, row string, properties ...any) []byte {
	m := map[string]any{"PartitionKey": partition, "RowKey": row}
	for i := 0; i+1 < len(properties); i += 2 {
		m[properties[i].(string)] = properties[i+1]
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(m); err != nil {
		panic(err)
	}
	return b.Bytes()
}

const devKey = auth.DevelopmentKey

var devSigner = signer.ParseKey(devKey)

// utf16Order compares as Azure orders keys.
func utf16Order(a, b string) int {
	return slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(b)))
}
