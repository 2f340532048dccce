package parameters

import (
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/blobsvc"
	"github.com/lazuli-storage/lazuli/internal/azure/accountprops"
	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/egress"
	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
	"github.com/lazuli-storage/lazuli/internal/azure/properties"
	"github.com/lazuli-storage/lazuli/internal/nats/natsserver"
	"github.com/lazuli-storage/lazuli/internal/server/devissuer"
	"github.com/lazuli-storage/lazuli/internal/service"
	"github.com/lazuli-storage/lazuli/internal/service/blobhost"
	"github.com/lazuli-storage/lazuli/internal/service/queuehost"
	"github.com/lazuli-storage/lazuli/internal/service/tablehost"
	queuestate "github.com/lazuli-storage/lazuli/internal/state/queue"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/clock"
	"github.com/lazuli-storage/lazuli/internal/test/signer"
	"github.com/lazuli-storage/lazuli/queuesvc"
	"github.com/lazuli-storage/lazuli/tablesvc"
)

// accounts is the number of scenes that a fixture has room for; the first scoped of them have encryption scopes, which
// take a write of a file each. The last trees of them have a hierarchical namespace, and the very last one scopes too.
const (
	accounts = 4000
	scoped   = 40
	trees    = 1000
)

// fixture has the services. Each scene is prepared in an account of its own.
type fixture struct {
	// address is where a service of an account is reached, and serve answers a request there.
	address func(service, account string) string
	serve   func(t *testing.T, service string, r *http.Request) *http.Response
	now     func() time.Time
	token   string // of the owner of all data
	slow    string // the address of a file whose content does not come while the test runs
	used    atomic.Int32
	scoped  atomic.Int32
	trees   atomic.Int32
	// seen are the headers of the answers of the current operation.
	seen map[string]bool
}

// withAccounts returns a fixture without services, its accounts, and the tokens that they accept.
func withAccounts(t *testing.T, now func() time.Time) (*fixture, *auth.Accounts, *auth.OAuth) {
	t.Helper()
	f := &fixture{now: now}
	key, err := auth.ParseKey(auth.DevelopmentKey)
	check.OK(t, err)
	list := make([]auth.Account, accounts)
	var roles []auth.Assignment
	for i := range list {
		list[i] = auth.Account{Name: accountName(i), Keys: []auth.Key{key}}
		if i < scoped || i == accounts-1 {
			list[i].Overrides, err = list[i].Overrides.With("encryption-scopes", "scope1,scope2")
			check.OK(t, err)
		}
		if i >= accounts-trees {
			list[i].Overrides, err = list[i].Overrides.With("hierarchical-namespace", "true")
			check.OK(t, err)
		}
		roles = append(roles, auth.Assignment{Principal: "owner", Role: "Storage Blob Data Owner", Scope: list[i].Name},
			auth.Assignment{Principal: "owner", Role: "Storage Queue Data Contributor", Scope: list[i].Name})
	}
	all, err := auth.NewManagedAccounts(
		accountprops.Blob{Versioning: true, Immutability: true, Expiry: true, ContainerDays: 7}, list...)
	check.OK(t, err)
	assignments, err := auth.NewRoles(roles...)
	check.OK(t, err)
	issuer, err := devissuer.New(devissuer.Config{Now: now})
	check.OK(t, err)
	oauth, err := auth.NewOAuth(assignments, issuer.Trust())
	check.OK(t, err)
	f.token, err = issuer.Token("owner", auth.StorageAudience)
	check.OK(t, err)
	f.slow = stalling(t)
	return f, all, oauth
}

// sources permits copies from the file whose content does not come.
func (f *fixture) sources() egress.Policy {
	return egress.Policy{Hosts: []string{strings.TrimPrefix(strings.TrimSuffix(f.slow, "/file"), "http://")},
		Private: true}
}

// localAddress is the address of the services that a test calls without a network.
const localAddress = "http://127.0.0.1:10000"

// open returns a fixture with the services in this process, and a clock that moves with each look at it.
func open(t *testing.T) *fixture {
	t.Helper()
	dir, ticks := t.TempDir(), clock.New(time.Microsecond)
	f, all, oauth := withAccounts(t, ticks.Now)
	common := frontend.Common{Accounts: all, OAuth: oauth, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
		Now: f.now, ClientsNow: f.now}
	can := properties.Features{Logging: true, Metrics: true, DeleteRetention: true, StaticWebsite: true}
	check.OK(t, os.Mkdir(filepath.Join(dir, "extents"), 0o700))
	blobs, err := service.Open(blobsvc.New, &blobhost.Config{Common: common, Path: filepath.Join(dir, "blobs.db"),
		Extents:   filepath.Join(dir, "extents"),
		ScopeKeys: filepath.Join(dir, "scopes.json"), Relaxed: true, CleanEvery: -1, Features: can,
		Egress: f.sources()})
	check.OK(t, err)
	t.Cleanup(func() { _ = blobs.Close() })
	can.DeleteRetention, can.StaticWebsite = false, false
	tables, err := service.Open(tablesvc.New, &tablehost.Config{Common: common, Path: filepath.Join(dir, "tables.db"),
		Store: store.Options{Relaxed: true}, Features: can})
	check.OK(t, err)
	t.Cleanup(func() { _ = tables.Close() })
	nats, err := natsserver.Start(natsserver.Config{Log: common.Log})
	check.OK(t, err)
	t.Cleanup(nats.Close)
	queueStore, err := queuestate.StoreOptions(t.Context(), nats, common.Log)
	check.OK(t, err)
	queues, err := service.Open(queuesvc.New, &queuehost.Config{Common: common, Path: filepath.Join(dir, "queues.db"),
		Store: queueStore, Features: can})
	check.OK(t, err)
	t.Cleanup(func() { _ = queues.Close() })
	handlers := map[string]http.Handler{"blob": blobs.Handler(), "queue": queues.Handler(), "table": tables.Handler(),
		"dfs": blobs.LakeHandler()}
	f.address = func(string, string) string { return localAddress }
	f.serve = func(_ *testing.T, service string, r *http.Request) *http.Response {
		w := httptest.NewRecorder()
		handlers[service].ServeHTTP(w, r)
		return w.Result()
	}
	return f
}

// stalling serves a file whose content does not come until the test ends.
func stalling(t *testing.T) string {
	done := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "1000")
		w.Header().Set("ETag", `"1"`)
		_ = http.NewResponseController(w).Flush()
		select {
		case <-done:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(done) })
	return server.URL + "/file"
}

func accountName(i int) string { return fmt.Sprintf("account%04d", i) }

// request is a request as the scenes write it.
type request struct {
	method, target string            // the target is below the account
	header         map[string]string // values by name in lower case
	body           string
	bearer         bool   // authorized by a token, not by Shared Key
	anonymous      bool   // not authorized
	inner          string // the path of the DELETE request inside, whose header is {signature}
}

// req makes a request from its line, "PUT /c/b?comp=tier", and parts: "name: value" is a header, "= text" is the body.
// In all of them {name} is what an answer before said: {etag}, {snapshot}, {version}, ...; {url} is the account's
// address.
func req(line string, parts ...string) request {
	r := request{header: map[string]string{}}
	r.method, r.target, _ = strings.Cut(line, " ")
	for _, p := range parts {
		if body, ok := strings.CutPrefix(p, "= "); ok {
			r.body = body
			continue
		}
		name, value, ok := strings.Cut(p, ": ")
		if !ok {
			panic("parameters: " + p)
		}
		r.header[strings.ToLower(name)] = value
	}
	return r
}

// with returns the request with a parameter.
func (r request) with(name, value string) request {
	kind, name, _ := strings.Cut(name, " ")
	if kind == "element" {
		return r.withElement(name, value)
	}
	if kind == "query" {
		path, query, _ := strings.Cut(r.target, "?")
		var kept []string
		for part := range strings.SplitSeq(query, "&") {
			if n, before, _ := strings.Cut(part, "="); name == "include" && n == name {
				value = before + "," + value // beside what is included already
			}
			if n, _, _ := strings.Cut(part, "="); part != "" && !strings.EqualFold(n, name) {
				kept = append(kept, part)
			}
		}
		r.target = path + "?" + strings.Join(append(kept, name+"="+value), "&")
		return r
	}
	r.header = maps.Clone(r.header)
	r.header[strings.ToLower(name)] = value
	return r
}

// without returns the request without a parameter.
func (r request) without(name string) request {
	kind, name, _ := strings.Cut(name, " ")
	if kind == "element" {
		return r.withoutElement(name)
	}
	if kind == "query" {
		path, query, _ := strings.Cut(r.target, "?")
		kept := slices.DeleteFunc(strings.Split(query, "&"),
			func(part string) bool { return strings.HasPrefix(part, name+"=") })
		r.target = path + "?" + strings.Join(kept, "&")
		return r
	}
	r.header = maps.Clone(r.header)
	delete(r.header, strings.ToLower(name))
	return r
}

// has reports whether the request has this value of a parameter.
func (r request) has(name, value string) bool {
	kind, name, _ := strings.Cut(name, " ")
	switch kind {
	case "element":
		return r.element(name) == value
	case "header":
		return strings.EqualFold(r.header[strings.ToLower(name)], value)
	}
	_, query, _ := strings.Cut(r.target, "?")
	return slices.Contains(strings.Split(query, "&"), name+"="+value)
}

// stage is one account with what its answers said.
type stage struct {
	f       *fixture
	service string
	account string
	known   *strings.Replacer
	facts   []string
}

// stage returns the next account; with scopes, one that has them.
func (f *fixture) stage(t *testing.T, service string, scopes bool) *stage {
	t.Helper()
	n, end := scoped+int(f.used.Add(1)), accounts-trees
	switch {
	case service == "dfs" && scopes:
		n, end = accounts-1, accounts
	case service == "dfs":
		n, end = accounts-trees+int(f.trees.Add(1)), accounts-1
	case scopes:
		n, end = int(f.scoped.Add(1)), scoped
	}
	if n >= end {
		t.Fatal("the fixture has no more accounts")
	}
	s := &stage{f: f, service: service, account: accountName(n)}
	s.learn("account", s.account)
	s.learn("url", f.address(service, s.account)+"/"+s.account)
	now := f.now().UTC()
	s.learn("slow", s.f.slow)
	s.learn("later", now.Add(48*time.Hour).Format(http.TimeFormat))
	s.learn("past", now.Add(-time.Hour).Format(http.TimeFormat))
	s.learn("future", now.Add(time.Hour).Format(http.TimeFormat))
	s.learn("pastISO", now.Add(-time.Hour).Format("2006-01-02T15:04:05Z"))
	s.learn("laterISO", now.Add(48*time.Hour).Format("2006-01-02T15:04:05Z"))
	s.learn("futureISO", now.Add(time.Hour).Format("2006-01-02T15:04:05Z"))
	return s
}

func (s *stage) learn(name, value string) {
	s.facts = append([]string{"{" + name + "}", value}, s.facts...)
	s.known = strings.NewReplacer(s.facts...)
}

// answer is an answer in a form that is the same for the same behaviour.
type answer struct {
	status int
	text   string
	header http.Header
}

var (
	inBody = regexp.MustCompile(`<(PopReceipt|MessageId|CopyId|SignedOid)>([^<]*)<`)
	// deletedVersion finds the version of a deleted container.
	deletedVersion = regexp.MustCompile(`<Version>([0-9A-F]{16})<`)
	// moves are the parts of an answer that differ from account to account.
	moves = []struct {
		from *regexp.Regexp
		to   string
	}{
		{regexp.MustCompile(`account\d{4}`), "account"},
		{regexp.MustCompile(`RequestId:[0-9a-f-]+|Time:\S+`), "R"},
		{regexp.MustCompile(`0x[0-9A-F]{15}`), "ETAG"},
		{regexp.MustCompile(`20[0-2]\d-\d\d-\d\dT\d\d(:|%3[Aa])\d\d(:|%3[Aa])\d\d\.\d+Z`), "TICKS"},
		{regexp.MustCompile(`<Version>[0-9A-F]{16}<`), "<Version>V<"},
		{regexp.MustCompile(`\b1\d{17}\b`), "FILETIME"}, // deletions and times of paths, to the year 2087
		{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}`), "ID"},
		{regexp.MustCompile(`<(MessageId|PopReceipt|SignedOid|SignedTid)>[^<]*<`), "<$1>X<"},
		{regexp.MustCompile(`<Value>[A-Za-z0-9+/]{43}=<`), "<Value>KEY<"},
		{regexp.MustCompile(`(?m)^(Date|(?i:x-ms-request-id)|X-Ms-Popreceipt): .*$`), "$1"},
		{regexp.MustCompile(`--batchresponse_\S+|boundary=\S+`), "BOUNDARY"},
	}
)

// send sends a request and learns what its answer says.
func (s *stage) send(t *testing.T, r request) answer {
	t.Helper()
	if r.inner != "" {
		s.learn("signature", s.signature(r.inner))
	}
	target := "/" + s.account + s.known.Replace(r.target)
	hr := httptest.NewRequest(r.method, s.f.address(s.service, s.account)+strings.ReplaceAll(target, " ", "%20"),
		strings.NewReader(s.known.Replace(r.body)))
	hr.RequestURI = target
	hr.RemoteAddr = "127.0.0.1:5555"
	hr.TLS = nil
	if r.bearer {
		hr.TLS = &tls.ConnectionState{}
	}
	hr.Header.Set("x-ms-version", "2026-10-06")
	hr.Header.Set("x-ms-date", s.f.now().UTC().Format(http.TimeFormat))
	for name, value := range r.header {
		hr.Header.Set(name, s.known.Replace(value))
	}
	switch {
	case r.anonymous:
	case r.bearer:
		hr.Header.Set("Authorization", "Bearer "+s.f.token)
	default:
		signer.Account{Name: s.account, Key: key, Table: s.service == "table"}.SharedKey(hr, hr.URL.EscapedPath())
	}
	result := s.f.serve(t, s.service, hr)
	body, err := io.ReadAll(result.Body)
	check.OK(t, err)
	check.OK(t, result.Body.Close())
	header := http.Header{}
	for name, v := range result.Header {
		header[http.CanonicalHeaderKey(name)] = v
	}
	s.learnFrom(header, string(body))
	return answer{result.StatusCode, render(result.StatusCode, header, string(body)), header}
}

// signature returns the header of a DELETE request inside a batch.
func (s *stage) signature(path string) string {
	hr := httptest.NewRequest(http.MethodDelete, "http://127.0.0.1:10000/"+s.account+path, nil)
	hr.Header.Set("x-ms-date", s.f.now().UTC().Format(http.TimeFormat))
	signer.Account{Name: s.account, Key: key}.SharedKey(hr, hr.URL.EscapedPath())
	return "x-ms-date: " + hr.Header.Get("x-ms-date") + "\r\nAuthorization: " + hr.Header.Get("Authorization")
}

var key = signer.ParseKey(auth.DevelopmentKey)

func (s *stage) learnFrom(h http.Header, body string) {
	for name, header := range map[string]string{"etag": "Etag", "snapshot": "X-Ms-Snapshot", "version": "X-Ms-Version-Id",
		"copy": "X-Ms-Copy-Id", "deletion": "X-Ms-Deletion-Id"} {
		if v := h.Get(header); v != "" {
			s.learn(name, v)
		}
	}
	for _, m := range inBody.FindAllStringSubmatch(body, -1) {
		s.learn(strings.ToLower(m[1]), strings.NewReplacer("+", "%2B", "/", "%2F", "=", "%3D").Replace(m[2]))
	}
	if m := deletedVersion.FindStringSubmatch(body); m != nil {
		s.learn("deleted", m[1])
	}
}

func render(status int, h http.Header, body string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d\n", status)
	for _, name := range slices.Sorted(maps.Keys(h)) {
		if name == "Content-Length" && body != "" { // the body is compared
			continue
		}
		fmt.Fprintf(&b, "%s: %s\n", name, strings.Join(h[name], ", "))
	}
	if h.Get("Content-Type") == "avro/binary" && len(body) > 16 {
		body = strings.ReplaceAll(body, body[len(body)-16:], "MARKER") // the random bytes behind each block
	}
	text := b.String() + "\n" + body
	for _, m := range moves {
		text = m.from.ReplaceAllString(text, m.to)
	}
	return text
}

// observe prepares a scene, sends its request, or one like it, and returns what can be observed. scopes asks for an
// account with encryption scopes.
func (f *fixture) observe(t *testing.T, sc scene, r request, scopes bool) answer {
	t.Helper()
	s := f.stage(t, sc.service, scopes)
	for _, r := range sc.prepare {
		if a := s.send(t, r); a.status >= 400 {
			t.Fatalf("preparing %s %s: %s", r.method, r.target, a.text)
		}
	}
	got := s.send(t, r)
	if got.status < 400 {
		for name := range got.header {
			f.seen[name] = true
		}
	}
	if got.status >= 400 { // refused: what it changed does not matter here
		return got
	}
	for _, r := range sc.after {
		got.text += "\n\n" + r.method + " " + r.target + "\n" + s.send(t, r).text
	}
	return got
}
