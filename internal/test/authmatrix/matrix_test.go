package authmatrix

import (
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/blobsvc"
	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/nats/natsserver"
	"github.com/lazuli-storage/lazuli/internal/server/devissuer"
	"github.com/lazuli-storage/lazuli/internal/service"
	"github.com/lazuli-storage/lazuli/internal/service/blobhost"
	"github.com/lazuli-storage/lazuli/internal/service/queuehost"
	"github.com/lazuli-storage/lazuli/internal/service/tablehost"
	queuestate "github.com/lazuli-storage/lazuli/internal/state/queue"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/operations"
	"github.com/lazuli-storage/lazuli/internal/test/signer"
	"github.com/lazuli-storage/lazuli/queuesvc"
	"github.com/lazuli-storage/lazuli/tablesvc"
)

const (
	account = auth.DevelopmentAccount
	other   = "otheraccount"
	version = "2026-10-06"
	// ownerOfDst is a principal whose role is for one container.
	ownerOfDst = "owner of dst"
)

// fixture has the three services without data, and an issuer of tokens.
type fixture struct {
	handlers map[wire.Service]http.Handler
	issuer   *devissuer.Issuer
	key      auth.Key // of account
	otherKey auth.Key // of the other account
}

var services = []wire.Service{wire.Blob, wire.DataLake, wire.Queue, wire.Table}

// of is the service of an endpoint, for which its tokens are signed.
func of(endpoint wire.Service) wire.Service {
	if endpoint == wire.DataLake {
		return wire.Blob
	}
	return endpoint
}

func build(t testing.TB) *fixture {
	t.Helper()
	h, _ := buildIn(t)
	return h
}

// buildIn opens the services in a folder. Each role has its own principal.
func buildIn(t testing.TB) (_ *fixture, dir string) {
	t.Helper()
	dir = t.TempDir()
	h := new(fixture)
	var err error
	h.key, err = auth.ParseKey(auth.DevelopmentKey)
	check.OK(t, err)
	_, h.otherKey, err = auth.GenerateKey()
	check.OK(t, err)
	accounts, err := auth.NewAccounts(auth.Account{Name: account, Keys: []auth.Key{h.key}},
		auth.Account{Name: other, Keys: []auth.Key{h.otherKey}})
	check.OK(t, err)
	h.issuer, err = devissuer.New(devissuer.Config{})
	check.OK(t, err)
	var list []auth.Assignment
	for _, name := range auth.RoleNames() {
		list = append(list, auth.Assignment{Principal: name, Role: name, Scope: account})
	}
	list = append(list, auth.Assignment{Principal: ownerOfDst, Role: "Storage Blob Data Owner", Scope: account + "/dst"})
	roles, err := auth.NewRoles(list...)
	check.OK(t, err)
	oauth, err := auth.NewOAuth(roles, h.issuer.Trust())
	check.OK(t, err)
	common := frontend.Common{Accounts: accounts, OAuth: oauth, Log: slog.New(slog.DiscardHandler)}

	check.OK(t, os.Mkdir(filepath.Join(dir, "extents"), 0o700))
	blobs, err := service.Open(blobsvc.New, &blobhost.Config{Common: common, Path: filepath.Join(dir, "blobs.db"),
		Extents: filepath.Join(dir, "extents"), Relaxed: true})
	check.OK(t, err)
	t.Cleanup(func() { _ = blobs.Close() })
	tabs, err := service.Open(tablesvc.New, &tablehost.Config{Common: common, Path: filepath.Join(dir, "tables.db"),
		Store: store.Options{Relaxed: true}})
	check.OK(t, err)
	t.Cleanup(func() { _ = tabs.Close() })
	nats, err := natsserver.Start(natsserver.Config{Log: common.Log})
	check.OK(t, err)
	t.Cleanup(nats.Close)
	queueStore, err := queuestate.StoreOptions(t.Context(), nats, common.Log)
	check.OK(t, err)
	queues, err := service.Open(queuesvc.New, &queuehost.Config{Common: common, Path: filepath.Join(dir, "queues.db"),
		Store: queueStore})
	check.OK(t, err)
	t.Cleanup(func() { _ = queues.Close() })
	h.handlers = map[wire.Service]http.Handler{wire.Blob: blobs.Handler(), wire.Queue: queues.Handler(),
		wire.Table: tabs.Handler(), wire.DataLake: blobs.LakeHandler()}
	return h, dir
}

// paths has an example path for each level, with the header that some levels need.
var paths = map[string]struct{ path, header, value string }{
	"blob/service": {"/", "", ""}, "blob/container": {"/box", "", ""}, "blob/blob": {"/box/thing", "", ""},
	"dfs/service": {"/", "", ""}, "dfs/container": {"/box", "", ""}, "dfs/blob": {"/box/thing", "", ""},
	"queue/service": {"/", "", ""}, "queue/queue": {"/line", "", ""}, "queue/messages": {"/line/messages", "", ""},
	"queue/messages?peekonly=true": {"/line/messages?peekonly=true", "", ""},
	"queue/message":                {"/line/messages/00000000-0000-0000-0000-000000000000", "", ""},
	"table/service":                {"/", "", ""}, "table/preflight": {"/Tab", "", ""}, "table/batch": {"/$batch", "", ""},
	"table/tables":    {"/Tables", "", ""},
	"table/one table": {"/Tables('Tab')", "", ""}, "table/table": {"/Tab", "", ""},
	"table/partition":                             {"/Tab(PartitionKey='p')", "", ""},
	"table/entity":                                {"/Tab(PartitionKey='p',RowKey='r')", "", ""},
	"table/entity, X-HTTP-Method: PUT":            {"/Tab(PartitionKey='p',RowKey='r')", "X-Http-Method", "PUT"},
	"table/entity, X-HTTP-Method: MERGE or PATCH": {"/Tab(PartitionKey='p',RowKey='r')", "X-Http-Method", "MERGE"},
	"table/entity, X-HTTP-Method: DELETE":         {"/Tab(PartitionKey='p',RowKey='r')", "X-Http-Method", "DELETE"},
}

// request returns a request that the row serves, for an account, with further query parameters.
func request(t testing.TB, svc wire.Service, row frontend.Row, to, query string) *http.Request {
	t.Helper()
	p, ok := paths[svc.String()+"/"+string(row.On)]
	if !ok {
		t.Fatalf("%s/%s has no path in this test", svc, row.On)
	}
	path, own, _ := strings.Cut(p.path, "?")
	comp, restype, host, root := "comp", "restype", "127.0.0.1:10000", "/"+to
	if svc == wire.DataLake { // which has its own parameters, except in requests that it shares with the Blob service
		host, root = to+".dfs.localhost", ""
		if row.Comp != "list" {
			restype = "resource"
		}
		if !slices.Contains([]string{"", "list", "undelete", "expiry"}, row.Comp) {
			comp = "action"
		}
	}
	var q []string
	for _, part := range []string{own, pair(comp, row.Comp), pair(restype, row.Restype), query} {
		if part != "" {
			q = append(q, part)
		}
	}
	target := root + path
	if len(q) > 0 {
		target += "?" + strings.Join(q, "&")
	}
	r := httptest.NewRequest(row.Method, "http://"+host+target, nil)
	r.RequestURI = target
	r.RemoteAddr = "127.0.0.1:5555"
	r.Header.Set("x-ms-version", version)
	if p.header != "" {
		r.Header.Set(p.header, p.value)
	}
	for _, name := range row.Has {
		value := "http://127.0.0.1:10000/" + account + "/box/source"
		if svc == wire.DataLake { // a source with a token of its own, so that the caller's decides about the destination
			key, err := auth.ParseKey(auth.DevelopmentKey)
			check.OK(t, err)
			q, err := auth.Token{Permissions: "md", Expiry: "2100-01-01"}.Sign(account, key, wire.Blob, "box/source")
			check.OK(t, err)
			value = "/box/source?" + q
		}
		r.Header.Set(name, value)
	}
	return r
}

func pair(name, value string) string {
	if value == "" {
		return ""
	}
	return name + "=" + value
}

// errorHeader is the header as the services write it, not in net/http's canonical form.
var errorHeader = "x-ms-error-code"

var errorCode = regexp.MustCompile(`<Code>(\w+)</Code>|"code":"(\w+)"|<code>(\w+)</code>`)

// refusals are the error codes for callers without access. "" means access, whatever the result of the operation is.
var refusals = []string{"AuthenticationFailed", "AuthorizationFailure", "AuthorizationPermissionMismatch",
	"AuthorizationServiceMismatch",
	"AuthorizationResourceTypeMismatch", "NoAuthenticationInformation", "InvalidAuthenticationInfo"}

// ask sends a request and returns the error code of the refusal, "" if there was none.
func (h *fixture) ask(t testing.TB, svc wire.Service, r *http.Request) string {
	t.Helper()
	w := httptest.NewRecorder()
	h.handlers[svc].ServeHTTP(w, r)
	code := strings.Join(w.Header()[errorHeader], "")
	if code == "" {
		if m := errorCode.FindStringSubmatch(w.Body.String()); m != nil {
			code = m[1] + m[2] + m[3]
		}
	}
	if w.Code >= 500 && w.Code != http.StatusNotImplemented {
		t.Errorf("%s %s: %d %s", r.Method, r.URL, w.Code, w.Body)
	}
	if w.Code == http.StatusNotFound && code == "ResourceNotFound" && r.Header.Get("Authorization") == "" &&
		!r.URL.Query().Has("sig") {
		return "AuthenticationFailed" // the answer to anonymous callers
	}
	if slices.Contains(refusals, code) {
		if w.Code != 401 && w.Code != 403 {
			t.Errorf("%s %s: %s with status %d", r.Method, r.URL, code, w.Code)
		}
		return code
	}
	if code == "CannotVerifyCopySource" { // access was granted; the copy source is a separate check
		return ""
	}
	if w.Code == 401 || w.Code == 403 {
		t.Errorf("%s %s: %d with the unexpected code %q", r.Method, r.URL, w.Code, code)
	}
	return ""
}

// byKey signs with Shared Key.
func byKey(r *http.Request, svc wire.Service, to string, key auth.Key) *http.Request {
	r.Header.Set("x-ms-date", time.Now().UTC().Format(http.TimeFormat))
	signer.Account{Name: to, Key: key, Table: svc == wire.Table}.SharedKey(r, r.URL.EscapedPath())
	return r
}

// find returns the rule for a row.
func find(t testing.TB, svc wire.Service, row frontend.Row) (rule, bool) {
	t.Helper()
	of := rules[svc.String()]
	if r, ok := of[row.Name+"@"+string(row.On)]; ok {
		return r, true
	}
	r, ok := of[row.Name]
	return r, ok
}

func label(svc wire.Service, row frontend.Row) string {
	return fmt.Sprintf("%s %s (%s %s?comp=%s&restype=%s)", svc, row.Name, row.Method, row.On, row.Comp, row.Restype)
}

func TestEveryOperationHasARule(t *testing.T) {
	for _, svc := range services {
		used := map[string]bool{}
		for _, row := range operations.Tables(t)[svc] {
			if _, ok := find(t, svc, row); !ok {
				t.Errorf("%s: who may call it? Add a rule, from the reference, to rules_test.go", label(svc, row))
			}
			used[row.Name], used[row.Name+"@"+string(row.On)] = true, true
		}
		for name := range rules[svc.String()] {
			if !used[name] {
				t.Errorf("%s: the rule of %s is for no operation", svc, name)
			}
		}
	}
}

const letters = "racwdlupxytfmeoi"

// allowed reports whether a SAS with these letters suffices.
func allowed(held, wanted string, all bool) bool {
	if wanted == "" {
		return false
	}
	if all {
		return strings.Trim(wanted, held) == ""
	}
	return strings.ContainsAny(held, wanted)
}

// met has the gaps that a run has found.
var met sync.Map

// expect compares an answer with the expected access.
func expect(t testing.TB, what, got string, in bool, codes ...string) {
	t.Helper()
	fields := strings.Fields(what)
	name := fields[0] + " " + fields[1]
	if gaps[name] != "" && in == (got != "") && strings.Contains(what, "bearer token") {
		met.Store(name, true)
		return
	}
	switch {
	case in && got != "":
		t.Errorf("%s: refused (%s), want let in", what, got)
	case !in && got == "":
		t.Errorf("%s: let in, want refused", what)
	case !in && len(codes) > 0 && !slices.Contains(codes, got):
		t.Errorf("%s: refused with %s, want %v", what, got, codes)
	}
}

func each(t *testing.T, do func(t *testing.T, svc wire.Service, row frontend.Row, r rule)) {
	for _, svc := range services {
		for _, row := range operations.Tables(t)[svc] {
			if r, ok := find(t, svc, row); ok {
				do(t, svc, row, r)
			}
		}
	}
}

func TestAccountKey(t *testing.T) {
	h := build(t)
	each(t, func(t *testing.T, svc wire.Service, row frontend.Row, r rule) {
		everybody := r.public == "*"
		name := label(svc, row)
		expect(t, name+" with the account's key",
			h.ask(t, svc, byKey(request(t, svc, row, account, ""), svc, account, h.key)), !r.bearerOnly ||
				everybody, "AuthenticationFailed")
		expect(t, name+" with another account's key",
			h.ask(t, svc, byKey(request(t, svc, row, account, ""), svc, account, h.otherKey)), everybody, "AuthenticationFailed")
		expect(t, name+" as another account", h.ask(t, svc, byKey(request(t, svc, row, account, ""), svc, other, h.otherKey)),
			everybody, "AuthenticationFailed")
	})
}

func TestAccountSAS(t *testing.T) {
	h := build(t)
	sign := func(svc wire.Service, change func(*auth.Token)) string {
		token := auth.Token{Services: "bqt", ResourceTypes: "sco", Permissions: letters,
			Expiry: time.Now().Add(time.Hour).UTC().Format("2006-01-02T15:04:05Z")}
		change(&token)
		q, err := token.Sign(account, h.key, of(svc), "")
		check.OK(t, err)
		return q
	}
	each(t, func(t *testing.T, svc wire.Service, row frontend.Row, r rule) {
		everybody := r.public == "*"
		ask := func(change func(*auth.Token)) string {
			return h.ask(t, svc, request(t, svc, row, account, sign(svc, change)))
		}
		name := label(svc, row) + ", account SAS"
		expect(t, name+" with every letter", ask(func(*auth.Token) {}), r.account != "" ||
			everybody, "AuthorizationFailure", "AuthenticationFailed")
		for _, l := range letters {
			what := name + " with " + string(l)
			expect(t, what, ask(func(token *auth.Token) { token.Permissions = string(l) }),
				allowed(string(l), r.account, r.all) || everybody)
		}
		if without := strings.Map(func(c rune) rune {
			if strings.ContainsRune(r.account, c) {
				return -1
			}
			return c
		}, letters); r.account != "" && without != "" {
			expect(t, name+" with every letter but its own", ask(func(token *auth.Token) { token.Permissions = without }), false,
				"AuthorizationPermissionMismatch")
		}
		if r.account == "" {
			return
		}
		expect(t, name+" for other services",
			ask(func(token *auth.Token) { token.Services = strings.Replace("bqt", of(svc).String()[:1], "", 1) }), false,
			"AuthorizationServiceMismatch")
		expect(t, name+" for other resource types",
			ask(func(token *auth.Token) { token.ResourceTypes = strings.Replace("sco", r.on, "", 1) }), r.parts,
			"AuthorizationResourceTypeMismatch")
		expect(t, name+" for its resource type alone", ask(func(token *auth.Token) { token.ResourceTypes = r.on }), true)
		expect(t, name+", expired", ask(func(token *auth.Token) { token.Expiry = "2020-01-01" }), false,
			"AuthenticationFailed")
		expect(t, name+", early", ask(func(token *auth.Token) { token.Start = "2100-01-01" }), false, "AuthenticationFailed")
		q := sign(svc, func(token *auth.Token) { token.Permissions = "o" })
		expect(t, name+" with letters added",
			h.ask(t, svc, request(t, svc, row, account, strings.Replace(q, "sp=o", "sp="+letters, 1))), false,
			"AuthenticationFailed")
		expect(t, name+" of another account", h.ask(t, svc, request(t, svc, row, other, sign(svc, func(*auth.Token) {}))),
			false, "AuthenticationFailed")
	})
}

func TestServiceSAS(t *testing.T) {
	h := build(t)
	resources := map[wire.Service]string{wire.Blob: "box", wire.DataLake: "box", wire.Queue: "line", wire.Table: "Tab"}
	elsewhere := map[wire.Service]string{wire.Blob: "box2", wire.DataLake: "box2", wire.Queue: "line2",
		wire.Table: "Tab2"}
	sign := func(svc wire.Service, resource, permissions string) string {
		q, err := auth.Token{Permissions: permissions,
			Expiry: time.Now().Add(time.Hour).UTC().Format("2006-01-02T15:04:05Z")}.Sign(account, h.key, of(svc), resource)
		check.OK(t, err)
		return q
	}
	each(t, func(t *testing.T, svc wire.Service, row frontend.Row, r rule) {
		everybody := r.public == "*"
		wanted := r.service
		if wanted == "=" {
			wanted = r.account
		}
		ask := func(resource, permissions string) string {
			return h.ask(t, svc, request(t, svc, row, account, sign(svc, resource, permissions)))
		}
		name := label(svc, row) + ", service SAS"
		expect(t, name+" with every letter", ask(resources[svc], letters), wanted != "" || everybody)
		// A batch names no table; its parts are checked against the token's table.
		expect(t, name+" for another resource", ask(elsewhere[svc], letters), everybody ||
			row.On == "batch", "AuthenticationFailed")
		for _, l := range letters {
			expect(t, name+" with "+string(l), ask(resources[svc], string(l)), allowed(string(l), wanted, r.all) || everybody)
		}
		if of(svc) == wire.Blob {
			expect(t, name+" for the blob", ask("box/thing", letters), r.object || everybody)
			expect(t, name+" for another blob", ask("box/thing2", letters), everybody, "AuthenticationFailed")
		}
	})
}

// short maps the letters in rules to roles.
var short = map[string]string{"Reader": "R", "Contributor": "C", "Owner": "O", "Delegator": "D", "Processor": "P",
	"Sender": "S"}

func TestBearer(t *testing.T) {
	h := build(t)
	tokens := map[string]string{}
	for _, name := range append(auth.RoleNames(), "nobody") {
		var err error
		tokens[name], err = h.issuer.Token(name, auth.StorageAudience)
		check.OK(t, err)
	}
	each(t, func(t *testing.T, svc wire.Service, row frontend.Row, r rule) {
		for name, token := range tokens {
			ask := func(to string) string {
				hr := request(t, svc, row, to, "")
				hr.Header.Set("Authorization", "Bearer "+token)
				return h.ask(t, svc, hr)
			}
			in := r.public == "*"
			if fields := strings.Fields(name); len(fields) > 1 && strings.EqualFold(fields[1], of(svc).String()) {
				in = in || strings.Contains(r.roles, short[fields[len(fields)-1]])
			}
			if name == "Storage Account Contributor" {
				in = in || strings.Contains(r.roles, "M")
			}
			expect(t, label(svc, row)+", bearer token of "+name, ask(account), in, "AuthorizationPermissionMismatch")
			expect(t, label(svc, row)+", bearer token of "+name+" in another account", ask(other), r.public == "*",
				"AuthorizationPermissionMismatch")
		}
	})
}

func TestAnonymous(t *testing.T) {
	h := build(t)
	for _, level := range []string{"absent", "private", "blob", "container"} {
		if level != "absent" {
			r := request(t, wire.Blob, frontend.Row{Method: "PUT", On: "container", Restype: "container"}, account, "")
			if level == "private" {
				w := httptest.NewRecorder()
				h.handlers[wire.Blob].ServeHTTP(w, byKey(r, wire.Blob, account, h.key))
				if w.Code != 201 {
					t.Fatalf("create the container: %d %s", w.Code, w.Body)
				}
			} else {
				r = request(t, wire.Blob, frontend.Row{Method: "PUT", On: "container", Restype: "container", Comp: "acl"}, account,
					"")
				r.Header.Set("x-ms-blob-public-access", level)
				w := httptest.NewRecorder()
				h.handlers[wire.Blob].ServeHTTP(w, byKey(r, wire.Blob, account, h.key))
				if w.Code != 200 {
					t.Fatalf("open the container: %d %s", w.Code, w.Body)
				}
			}
		}
		each(t, func(t *testing.T, svc wire.Service, row frontend.Row, r rule) {
			in := r.public == "*" || level == "container" && r.public != "" || level == "blob" && r.public == "blob"
			what := label(svc, row) + ", anonymous, container " + level
			expect(t, what, h.ask(t, svc, request(t, svc, row, account, "")), in, "NoAuthenticationInformation")
			old := request(t, svc, row, account, "")
			old.Header.Set("x-ms-version", "2019-07-07")
			expect(t, what+", old version", h.ask(t, svc, old), in, "AuthenticationFailed")
			bad := request(t, svc, row, account, "")
			bad.Header.Set("Authorization", "Basic dXNlcjpwYXNz")
			expect(t, what+", with a scheme that is not known", h.ask2(t, svc, bad), r.public == "*",
				"InvalidAuthenticationInfo")
		})
	}
}

// TestMain fails if a gap of the list no longer exists.
func TestMain(m *testing.M) {
	code := m.Run()
	if flag.Lookup("test.run").Value.String() == "" {
		for name := range gaps {
			if _, ok := met.Load(name); !ok && code == 0 {
				fmt.Fprintf(os.Stderr, "%s keeps its rule now: remove it from gaps in rules_test.go\n", name)
				code = 1
			}
		}
	}
	os.Exit(code)
}

// ask2 is like ask for refusals with status 400.
func (h *fixture) ask2(t testing.TB, svc wire.Service, r *http.Request) string {
	t.Helper()
	w := httptest.NewRecorder()
	h.handlers[svc].ServeHTTP(w, r)
	if strings.Contains(w.Body.String(), "InvalidAuthenticationInfo") ||
		slices.Contains(w.Header()[errorHeader], "InvalidAuthenticationInfo") {
		return "InvalidAuthenticationInfo"
	}
	return ""
}
