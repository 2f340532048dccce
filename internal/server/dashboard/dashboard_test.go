package dashboard_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/server"
	"github.com/lazuli-storage/lazuli/internal/server/dashboard"
	"github.com/lazuli-storage/lazuli/internal/server/dashboard/requestlog"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

const base = "/ui/accounts/devstoreaccount1/"

// site is a dashboard over a running stack.
type site struct {
	t     *testing.T
	h     http.Handler
	stack *server.Server
}

func open(t *testing.T, change ...func(*dashboard.Options)) *site {
	t.Helper()
	requests := requestlog.New(time.Now)
	s, err := server.Start(server.Config{InMemory: true, Log: slog.New(slog.DiscardHandler), Faults: true, Events: true,
		Observe: requests.Observe})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Stop(context.Background()) })
	o := dashboard.Options{Backend: func() dashboard.Backend { return s }, Accounts: auth.Development(),
		Requests: requests, State: true, InMemory: true,
		Log: slog.New(slog.DiscardHandler)}
	for _, c := range change {
		c(&o)
	}
	return &site{t, dashboard.New(o), s}
}

func (s *site) do(method, path string, body io.Reader, header http.Header) (int, string, http.Header) {
	s.t.Helper()
	r := httptest.NewRequest(method, path, body)
	for name, values := range header {
		r.Header[name] = values
	}
	w := httptest.NewRecorder()
	s.h.ServeHTTP(w, r)
	return w.Code, w.Body.String(), w.Header()
}

var (
	tag  = regexp.MustCompile(`<(/?)([a-z][a-z0-9]*)(?:"[^"]*"|[^">])*?(/?)>`)
	void = map[string]bool{"br": true, "img": true, "input": true, "link": true, "meta": true}
)

// wellNested fails the test if the elements of a page are not closed in order, which browsers repair silently.
func (s *site) wellNested(path, body string) {
	s.t.Helper()
	var open []string
	for _, m := range tag.FindAllStringSubmatch(body, -1) {
		switch end, name := m[1] != "", m[2]; {
		case void[name] || m[3] != "":
		case !end:
			open = append(open, name)
		case len(open) == 0 || open[len(open)-1] != name:
			s.t.Errorf("%s closes %s in %v", path, name, open)
			return
		default:
			open = open[:len(open)-1]
		}
	}
	if len(open) > 0 {
		s.t.Errorf("%s does not close %v", path, open)
	}
}

// get returns a page, which must be there and be well nested.
func (s *site) get(path string) string {
	s.t.Helper()
	status, body, _ := s.do(http.MethodGet, path, nil, nil)
	if status != http.StatusOK {
		s.t.Fatalf("GET %s: %d\n%s", path, status, body)
	}
	s.wellNested(path, body)
	return body
}

func (s *site) token() string {
	s.t.Helper()
	return regexp.MustCompile(`name="csrf" content="([0-9a-f]+)"`).FindStringSubmatch(s.get("/ui/"))[1]
}

// post sends a form of names and values with the token, and returns the address that the answer leads to.
func (s *site) post(path string, pairs ...string) string {
	s.t.Helper()
	status, body, h := s.send(path, s.token(), pairs...)
	if status != http.StatusSeeOther {
		s.t.Fatalf("POST %s %q: %d\n%s", path, pairs, status, body)
	}
	return h.Get("Location")
}

func (s *site) send(path, token string, pairs ...string) (int, string, http.Header) {
	s.t.Helper()
	form := url.Values{"csrf": {token}}
	for i := 0; i+1 < len(pairs); i += 2 {
		form.Add(pairs[i], pairs[i+1])
	}
	return s.do(http.MethodPost, path, strings.NewReader(form.Encode()),
		http.Header{"Content-Type": {"application/x-www-form-urlencoded"}})
}

// shows fails the test unless the page has all texts.
func (s *site) shows(path string, texts ...string) {
	s.t.Helper()
	body := s.get(path)
	for _, text := range texts {
		if !strings.Contains(body, text) {
			_, body, _ = strings.Cut(body, "<main")
			s.t.Errorf("%s does not show %q:\n%s", path, text, body)
		}
	}
}

func (s *site) hides(path string, texts ...string) {
	s.t.Helper()
	body := s.get(path)
	for _, text := range texts {
		if strings.Contains(body, text) {
			s.t.Errorf("%s shows %q", path, text)
		}
	}
}

func TestContainersAndBlobs(t *testing.T) {
	t.Parallel()
	s := open(t)
	box := base + "containers/photos"
	if at := s.post(base+"containers", "action", "create", "name", "photos"); at != box+"?done=created" {
		t.Errorf("the creation leads to %s", at)
	}
	s.shows(base+"containers", `href="`+box+`"`)
	upload := func(name, content string) {
		t.Helper()
		status, body, _ := s.do(http.MethodPost, box+"/upload?name="+url.QueryEscape(name), strings.NewReader(content),
			http.Header{"X-Csrf-Token": {s.token()}})
		if status != http.StatusCreated {
			t.Fatalf("upload of %s: %d %s", name, status, body)
		}
	}
	upload("a/b/data.csv", "name,age\n<i>Jane</i>,41\n")
	upload("a//odd ../name?", "x")
	upload("plain.txt", "<script>alert(1)</script>")
	s.shows(box, "a/", "plain.txt")
	s.hides(box, "data.csv")
	s.shows(box+"?prefix=a%2Fb%2F", "data.csv")
	page := base + "blob/photos?name=a%2Fb%2Fdata.csv"
	s.shows(page, "<th>name</th>", "&lt;i&gt;Jane&lt;/i&gt;", "text/csv")
	s.hides(page, "<i>Jane")
	s.shows(base+"blob/photos?name=plain.txt", "&lt;script&gt;alert(1)")
	s.shows(base+"blob/photos?name="+url.QueryEscape("a//odd ../name?"), "a//odd ../name?")

	s.post(page, "action", "metadata", "metadata", "color: blue\n\nsize: 3")
	s.post(page, "action", "tags", "tags", "kind: data")
	s.post(page, "action", "tier", "tier", "Cool")
	s.post(page, "action", "type", "type", "text/plain")
	s.shows(page, "color: blue\nsize: 3", "kind: data", "Cool", "text/plain")
	s.post(page, "action", "snapshot")
	s.shows(page, "Versions and snapshots", "snapshot 20")
	if status, body, _ := s.send(page, s.token(), "action", "delete"); status != http.StatusConflict ||
		!strings.Contains(body, "SnapshotsPresent") {
		t.Errorf("the deletion of a blob with a snapshot: %d %s", status, body)
	}
	if at := s.post(page, "action", "delete", "snapshots", "1"); at != box+"?done=deleted&prefix=a%2Fb%2F" {
		t.Errorf("the deletion leads to %s", at)
	}
	if status, body, _ := s.do(http.MethodGet, page, nil, nil); status != http.StatusNotFound ||
		!strings.Contains(body, "BlobNotFound") {
		t.Errorf("the page of the deleted blob: %d %s", status, body)
	}
	s.post(box, "action", "access", "access", "blob")
	s.post(box, "action", "metadata", "metadata", "team: shop")
	s.shows(box, `value="blob" selected`, "team: shop")
	s.post(box, "action", "delete")
	s.hides(base+"containers", ">photos<")
}

// Content is sent as a file, or as an image of a type that cannot contain scripts.
func TestContentIsInert(t *testing.T) {
	t.Parallel()
	s := open(t)
	client, err := azblob.NewClientFromConnectionString(s.stack.ConnectionString(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.CreateContainer(t.Context(), "box", nil); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ kind, query, want string }{
		{"text/html", "&inline=1", "application/octet-stream"},
		{"image/svg+xml", "&inline=1", "application/octet-stream"},
		{"image/png", "", "application/octet-stream"},
		{"image/png", "&inline=1", "image/png"},
	} {
		_, err := client.UploadBuffer(t.Context(), "box", "page", []byte("<script>"),
			&azblob.UploadBufferOptions{HTTPHeaders: blobType(tc.kind)})
		if err != nil {
			t.Fatal(err)
		}
		status, body, h := s.do(http.MethodGet, base+"content/box?name=page"+tc.query, nil, nil)
		if status != http.StatusOK || body != "<script>" || h.Get("Content-Type") != tc.want {
			t.Errorf("%s%s: %d %q as %s, want %s", tc.kind, tc.query, status, body, h.Get("Content-Type"), tc.want)
		}
		if h.Get("Content-Security-Policy") != "sandbox; default-src 'none'" || h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s%s: headers %v", tc.kind, tc.query, h)
		}
		if attachment := strings.HasPrefix(h.Get("Content-Disposition"),
			"attachment"); attachment == (tc.want == "image/png") {
			t.Errorf("%s%s: Content-Disposition %q", tc.kind, tc.query, h.Get("Content-Disposition"))
		}
	}
}

func TestQueues(t *testing.T) {
	t.Parallel()
	s := open(t)
	poison, work := base+"queues/orders-poison", base+"queues/orders"
	s.post(base+"queues", "action", "create", "name", "orders-poison")
	for _, m := range []string{"one <b>", "two", "three"} {
		s.post(poison, "action", "put", "body", m, "encoding", "base64")
	}
	s.post(poison, "action", "put", "body", "later", "encoding", "plain", "delay", "3600")
	s.shows(poison, "4 messages: 3 visible, 1 hidden.", "one &lt;b&gt;", "later", "hidden, visible in 59 min")
	s.shows(base+"queues", "orders-poison", "poison",
		`class="number">4</td><td data-label="Visible" class="number">3</td><td data-label="Hidden" class="number">1</td>`)
	s.post(poison, "action", "requeue", "match", "^one")
	s.shows(work, "1 message", "one &lt;b&gt;")
	s.hides(poison, "one &lt;b&gt;")
	// A queue that exists with metadata: creating it again would be refused.
	s.post(work, "action", "metadata", "metadata", "team: shop")
	s.post(poison, "action", "requeue", "match", "^two")
	s.shows(work, "2 messages")
	s.post(poison, "action", "purge", "match", "three")
	s.shows(poison, "1 message: 0 visible, 1 hidden.")
	s.post(poison, "action", "metadata", "metadata", "team: shop")
	s.shows(poison, "team: shop")
	for _, tc := range [][]string{{"action", "purge", "match", "("}, {"action", "put", "body", "x", "delay", "-1"},
		{"action", "fly"}} {
		if status, body, _ := s.send(poison, s.token(), tc...); status != http.StatusBadRequest {
			t.Errorf("%q: %d %s", tc, status, body)
		}
	}
	s.post(poison, "action", "delete")
	s.hides(base+"queues", "orders-poison")
}

func TestTables(t *testing.T) {
	t.Parallel()
	s := open(t)
	table := base + "tables/people"
	s.post(base+"tables", "action", "create", "name", "people")
	entity := table + "/entity"
	s.post(entity, "action", "insert", "pk", "smith", "rk", "", "name", "Name", "type", "String", "value", "<Jane>",
		"name", "Age", "type", "Int32", "value", "41",
		"name", "Big", "type", "Int64", "value", "12345678901", "name", "Rate", "type", "Double", "value", "NaN", "name",
		"Ok", "type", "Boolean", "value", "true",
		"name", "At", "type", "DateTime", "value", "2026-01-02T03:04:05Z", "name", "Id", "type", "Guid", "value",
		"c9da6455-213d-42c9-9a79-3e9149a57833", "name", "Raw", "type", "Binary", "value", "AQID",
		"name", "", "type", "String", "value", "")
	s.shows(table, "&lt;Jane&gt;", "41 <small>Int32", "12345678901 <small>Int64", "NaN <small>Double",
		"true <small>Boolean", "2026-01-02T03:04:05Z <small>DateTime", "<small>Guid", "AQID <small>Binary")
	one := entity + "?pk=smith&rk="
	etagOf := func(page string) string {
		etag := regexp.MustCompile(`name="etag" value="([^"]+)"`).FindStringSubmatch(s.get(page))
		if etag == nil {
			t.Fatal("the form has no ETag")
		}
		return strings.ReplaceAll(strings.ReplaceAll(etag[1], "&#34;", `"`), "&#39;", "'")
	}
	tag := etagOf(one)
	s.post(entity, "action", "replace", "pk", "smith", "rk", "", "etag", tag, "name", "Name", "type", "String", "value",
		"Jim")
	s.shows(table, ">Jim<")
	s.hides(table, "Jane", "Int64")
	if status, body, _ := s.send(entity, s.token(), "action", "replace", "pk", "smith", "rk", "", "etag",
		tag); status != http.StatusPreconditionFailed || !strings.Contains(body, "changed meanwhile") {
		t.Errorf("a replacement of what has changed: %d %s", status, body)
	}
	for _, tc := range []struct{ kind, value string }{{"Int32", "9999999999"}, {"Boolean", "perhaps"},
		{"DateTime", "soon"}, {"Color", "red"}} {
		if status, body, _ := s.send(entity, s.token(), "action", "insert", "pk", "x", "rk", "y", "name", "P", "type",
			tc.kind, "value", tc.value); status != http.StatusBadRequest {
			t.Errorf("%s %q: %d %s", tc.kind, tc.value, status, body)
		}
	}
	s.shows(table+"?filter="+url.QueryEscape("Name eq 'Jim'"), ">Jim<")
	s.shows(table+"?filter=nonsense+eq", "InvalidInput")
	if body := s.get(table + "/plan?filter=" +
		url.QueryEscape("PartitionKey eq 'smith' and RowKey eq ''")); !strings.Contains(body, `"plan":"PointQuery"`) {
		t.Errorf("the plan is %s", body)
	}
	s.shows(table+"/partitions", "1 partition with 1 entity", "smith")
	s.post(entity, "action", "insert", "pk", "", "rk", "", "name", "Name", "type", "String", "value", "Nobody")
	s.post(entity, "action", "replace", "pk", "", "rk", "", "etag", etagOf(entity+"?pk=&rk="), "name", "Name", "type",
		"String", "value", "Somebody")
	s.shows(table, ">Somebody<")
	s.post(entity, "action", "delete", "pk", "", "rk", "", "etag", etagOf(entity+"?pk=&rk="))
	s.hides(table, ">Somebody<")
	s.post(table, "action", "delete")
	s.hides(base+"tables", ">people<")
}

// Pages of a long list lead through all of it.
func TestPaging(t *testing.T) {
	t.Parallel()
	s := open(t)
	tables, err := aztables.NewServiceClientFromConnectionString(s.stack.ConnectionString(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tables.CreateTable(t.Context(), "many", nil); err != nil {
		t.Fatal(err)
	}
	for i := range 250 {
		if _, err := tables.NewClient("many").AddEntity(t.Context(),
			fmt.Appendf(nil, `{"PartitionKey":"p","RowKey":"%03d"}`, i), nil); err != nil {
			t.Fatal(err)
		}
	}
	next := regexp.MustCompile(`href="([^"]+)">Next page`)
	path, seen, pages := "", 0, 0
	for {
		body := s.get(base + "tables/many" + path)
		pages++
		seen += strings.Count(body, "<tr><td>")
		m := next.FindStringSubmatch(body)
		if m == nil {
			break
		}
		path = strings.ReplaceAll(m[1], "&amp;", "&")
	}
	if seen != 250 || pages != 3 {
		t.Errorf("%d entities on %d pages, want 250 on 3", seen, pages)
	}
}

// Changes need the token of the dashboard's own pages.
func TestChangesNeedTheToken(t *testing.T) {
	t.Parallel()
	s := open(t)
	for _, token := range []string{"", "0", strings.Repeat("0", 32)} {
		if status, body, _ := s.send(base+"queues", token, "action", "create", "name",
			"orders"); status != http.StatusForbidden {
			t.Errorf("token %q: %d %s", token, status, body)
		}
	}
	s.hides(base+"queues", "orders")
}

// Without the script, the server asks before it destroys something.
func TestDestructionIsConfirmed(t *testing.T) {
	t.Parallel()
	s := open(t)
	s.post(base+"queues", "action", "create", "name", "orders")
	page := base + "queues/orders"
	status, body, _ := s.send(page, s.token(), "action", "delete", "ask", "Delete the queue orders?")
	if status != http.StatusOK || !strings.Contains(body, "Delete the queue orders?") ||
		!strings.Contains(body, `name="action" value="delete"`) {
		t.Errorf("the question: %d %s", status, body)
	}
	s.shows(base+"queues", "orders")
	s.post(page, "action", "delete", "ask", "Delete the queue orders?", "confirmed", "yes")
	s.hides(base+"queues", ">orders<")
}

func TestReadOnly(t *testing.T) {
	t.Parallel()
	s := open(t, func(o *dashboard.Options) { o.ReadOnly = true })
	if status, body, _ := s.send(base+"queues", s.token(), "action", "create", "name",
		"orders"); status != http.StatusForbidden || !strings.Contains(body, "read-only") {
		t.Errorf("%d %s", status, body)
	}
	if status, _, _ := s.do(http.MethodPost, base+"containers/box/upload?name=x", strings.NewReader("x"),
		http.Header{"X-Csrf-Token": {s.token()}}); status != http.StatusForbidden {
		t.Errorf("an upload: %d", status)
	}
	for _, page := range []string{base + "queues", base + "containers", base + "tables", "/ui/control"} {
		s.hides(page, "<form method=\"post\"")
	}
}

// Every page forbids inline scripts and styles, and none has any.
func TestContentSecurityPolicy(t *testing.T) {
	t.Parallel()
	s := open(t)
	s.post(base+"containers", "action", "create", "name", "photos")
	s.post(base+"queues", "action", "create", "name", "orders")
	s.post(base+"tables", "action", "create", "name", "people")
	inline := regexp.MustCompile(`(?i)<style|\sstyle=|\son[a-z]+=|javascript:|<script(?: type="module")?>`)
	for _, page := range []string{"/ui/", base[:len(base)-1], base + "containers", base + "containers/photos",
		base + "queues", base + "queues/orders", base + "tables", base + "tables/people",
		base + "tables/people/entity", base + "tables/people/partitions", base + "sas?service=queue&resource=orders",
		"/ui/workers", "/ui/requests", "/ui/control"} {
		status, body, h := s.do(http.MethodGet, page, nil, nil)
		if status != http.StatusOK {
			t.Errorf("%s: %d", page, status)
		}
		if policy := h.Get("Content-Security-Policy"); !strings.HasPrefix(policy,
			"default-src 'none'; script-src 'self'; style-src 'self';") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s: Content-Security-Policy %q", page, policy)
		}
		if found := inline.FindString(body); found != "" {
			t.Errorf("%s has %q", page, found)
		}
	}
}

func TestRequestsAreKept(t *testing.T) {
	t.Parallel()
	s := open(t)
	queues, err := azqueue.NewServiceClientFromConnectionString(s.stack.ConnectionString(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := queues.CreateQueue(t.Context(), "orders",
		&azqueue.CreateOptions{Metadata: map[string]*string{"a": to.Ptr("it's")}}); err != nil {
		t.Fatal(err)
	}
	if _, err := queues.CreateQueue(t.Context(), "x", nil); err == nil {
		t.Fatal("a queue with a name that is too short")
	}
	wrong, err := azqueue.NewServiceClientFromConnectionString(
		strings.Replace(s.stack.ConnectionString(), "AccountKey=Eby8", "AccountKey=Fby8", 1), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := wrong.NewListQueuesPager(nil).NextPage(t.Context()); err == nil {
		t.Fatal("a wrong signature was accepted")
	}
	s.shows("/ui/requests", "CreateQueue", ">/orders<", "OutOfRangeInput", "AuthenticationFailed")
	s.hides("/ui/requests?failed=1", ">201<")
	s.hides("/ui/requests?text=orders", "OutOfRangeInput")
	id := regexp.MustCompile(`href="/ui/requests/([0-9a-f-]+)"`)
	refused := id.FindStringSubmatch(s.get("/ui/requests?text=AuthenticationFailed"))
	if refused == nil {
		t.Fatal("the refused request has no page")
	}
	s.shows("/ui/requests/"+refused[1], "AuthenticationErrorDetail", "string to sign",
		"SharedKey devstoreaccount1"[:9]+" (not shown)")
	created := s.get("/ui/requests/" + id.FindStringSubmatch(s.get("/ui/requests?text=orders"))[1])
	for _, text := range []string{"curl -i -X PUT", "x-ms-meta-a: it&#39;\\&#39;&#39;s", "sig=",
		"/ui/control?account=devstoreaccount1&amp;operation=CreateQueue&amp;resource=orders&amp;service=queue"} {
		if !strings.Contains(created, text) {
			t.Errorf("the page of the request does not show %q:\n%s", text, created)
		}
	}
	// The dashboard's own requests are not among them.
	before := strings.Count(s.get("/ui/requests"), "<tr data-number")
	s.get(base + "queues")
	if after := strings.Count(s.get("/ui/requests"), "<tr data-number"); after != before {
		t.Errorf("%d requests before a page of the dashboard, %d after it", before, after)
	}
}

// A read-only dashboard gives no signature, neither the clients' own nor one that it makes.
func TestReadOnlyHasNoSignatures(t *testing.T) {
	t.Parallel()
	s := open(t, func(o *dashboard.Options) { o.ReadOnly = true })
	queues, err := azqueue.NewServiceClientFromConnectionString(s.stack.ConnectionString(), nil)
	if err != nil {
		t.Fatal(err)
	}
	key, err := auth.ParseKey(auth.DevelopmentKey)
	if err != nil {
		t.Fatal(err)
	}
	token := auth.Token{VersionText: auth.SASVersion, Services: "q", ResourceTypes: "s", Permissions: "l",
		Expiry: "2099-01-01T00:00:00Z"}
	query, err := token.Sign(auth.DevelopmentAccount, key, wire.Queue, "")
	if err != nil {
		t.Fatal(err)
	}
	signed := s.stack.URL(wire.Queue, auth.DevelopmentAccount) + "?" + query
	byToken, err := azqueue.NewServiceClientWithNoCredential(signed, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, signature, _ := strings.Cut(signed, "sig=")
	signature, _, _ = strings.Cut(signature, "&")
	if _, err := byToken.NewListQueuesPager(nil).NextPage(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := queues.NewListQueuesPager(nil).NextPage(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`href="(/ui/requests/[0-9a-f-]+)"`).FindAllStringSubmatch(s.get("/ui/requests"),
		-1) {
		body := s.get(m[1])
		if !strings.Contains(body, "curl -i") || regexp.MustCompile(`sig=[^(]`).MatchString(body) ||
			strings.Contains(body, signature) {
			t.Errorf("%s has a signature:\n%s", m[1], body)
		}
	}
}

// flushWriter is a response that can be read while it is being written.
type flushWriter struct {
	header http.Header
	mu     sync.Mutex
	body   bytes.Buffer
	more   chan struct{}
}

func (w *flushWriter) Header() http.Header { return w.header }
func (w *flushWriter) WriteHeader(int)     {}
func (w *flushWriter) Flush()              {}
func (w *flushWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case w.more <- struct{}{}:
	default:
	}
	return w.body.Write(p)
}

func (w *flushWriter) has(text string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Contains(w.body.String(), text)
}

func TestLiveRequests(t *testing.T) {
	t.Parallel()
	s := open(t)
	w := &flushWriter{header: make(http.Header), more: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/ui/requests/live?service=queue", nil))
	}()
	wait := func(text string) {
		t.Helper()
		for end := time.After(check.Patience); !w.has(text); {
			select {
			case <-w.more:
			case <-end:
				t.Fatalf("no %q in %q", text, w.body.String())
			}
		}
	}
	wait(": follow")
	queues, err := azqueue.NewServiceClientFromConnectionString(s.stack.ConnectionString(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := queues.CreateQueue(t.Context(), "orders", nil); err != nil {
		t.Fatal(err)
	}
	wait("data: <tr data-number=")
	wait("CreateQueue")
	cancel()
	<-done
}

func TestSharedAccessSignature(t *testing.T) {
	t.Parallel()
	s := open(t)
	s.post(base+"containers", "action", "create", "name", "photos")
	form := base + "sas?service=blob&resource=photos"
	s.shows(form, "create", "tags")
	_, body, _ := s.send(form, s.token(), "service", "blob", "resource", "photos", "permission", "r", "permission", "l",
		"hours", "1")
	m := regexp.MustCompile(`id="sas" readonly value="([^"]+)"`).FindStringSubmatch(body)
	if m == nil {
		t.Fatalf("there is no URL:\n%s", body)
	}
	resp, err := http.Get(strings.ReplaceAll(m[1], "&amp;", "&") + "&restype=container&comp=list")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("a list with the signature: %s", resp.Status)
	}
	for _, hours := range []string{"", "0", "-1", "9999999", "NaN"} {
		if status, _, _ := s.send(form, s.token(), "service", "blob", "resource", "photos", "permission", "r", "hours",
			hours); status != http.StatusBadRequest {
			t.Errorf("%q hours: %d", hours, status)
		}
	}
}

func TestControl(t *testing.T) {
	t.Parallel()
	s := open(t)
	s.post(base+"queues", "action", "create", "name", "orders")
	s.post("/ui/control", "action", "fault", "kind", "ServerBusy", "amount", "2s", "operation", "Put Message", "count",
		"3")
	s.shows("/ui/control", "fault-1", `&#34;operation&#34;:&#34;Put Message&#34;`, `&#34;retryAfter&#34;:&#34;2s&#34;`)
	for _, tc := range [][]string{{"kind", "delay"}, {"kind", "truncate", "amount", "x"}, {"kind", "fly"},
		{"kind", "ServerBusy", "operation", "Fly"}, {"kind", "unanswered", "count", "x"}} {
		if status, body, _ := s.send("/ui/control", s.token(),
			append(tc, "action", "fault")...); status != http.StatusBadRequest {
			t.Errorf("%q: %d %s", tc, status, body)
		}
	}
	s.post("/ui/control", "action", "unfault", "name", "fault-1")
	s.hides("/ui/control", "fault-1")
	if status, _, _ := s.send("/ui/control", s.token(), "action", "reset"); status != http.StatusBadRequest {
		t.Errorf("a reset of nothing: %d", status)
	}
	s.post("/ui/control", "action", "reset", "service", "queue")
	s.hides(base+"queues", "orders")
	closed := open(t, func(o *dashboard.Options) { o.State = false })
	if status, body, _ := closed.send("/ui/control", closed.token(), "action", "reset", "service",
		"queue"); status != http.StatusForbidden || !strings.Contains(body, "--admin-state") {
		t.Errorf("without leave: %d %s", status, body)
	}
}

func TestStarting(t *testing.T) {
	t.Parallel()
	s := open(t, func(o *dashboard.Options) { o.Backend = func() dashboard.Backend { return nil } })
	if status, body, _ := s.do(http.MethodGet, "/ui/", nil, nil); status != http.StatusServiceUnavailable ||
		!strings.Contains(body, "starting") {
		t.Errorf("%d %s", status, body)
	}
}

func blobType(kind string) *blob.HTTPHeaders { return &blob.HTTPHeaders{BlobContentType: &kind} }

func BenchmarkObserve(b *testing.B) {
	l := requestlog.New(time.Now)
	hr := httptest.NewRequest(http.MethodGet, "http://127.0.0.1/devstoreaccount1/box/blob", nil)
	r, err := wire.Parse(wire.Blob, hr, httptest.NewRecorder(), time.Now(), wire.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		l.Observe(r, frontend.Outcome{Status: http.StatusOK, Duration: time.Millisecond})
	}
}
