package dashboard_test

import (
	"errors"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/sdk/poison"
	"github.com/lazuli-storage/lazuli/internal/server/dashboard"
	"github.com/lazuli-storage/lazuli/internal/server/dashboard/requestlog"
)

var nextPage = regexp.MustCompile(`href="([^"]+)">Next page`)

// pages follows a list from its first page to its last, and returns them.
func (s *site) pages(path string) (list []string) {
	s.t.Helper()
	for query := ""; ; {
		body := s.get(path + query)
		list = append(list, body)
		m := nextPage.FindStringSubmatch(body)
		if m == nil || len(list) > 20 {
			return list
		}
		query = html.UnescapeString(m[1])
	}
}

// counts are the number of times that a text is on each page.
func counts(pages []string, text string) (n []int) {
	for _, p := range pages {
		n = append(n, strings.Count(p, text))
	}
	return n
}

func wantCounts(t *testing.T, what string, got []int, want ...int) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: the pages have %v, want %v", what, got, want)
	}
}

func TestRequestsArePaged(t *testing.T) {
	t.Parallel()
	var log *requestlog.Log
	s := open(t, func(o *dashboard.Options) { log = o.Requests })
	for i := range 250 {
		hr := httptest.NewRequest(http.MethodGet, fmt.Sprintf("http://127.0.0.1/devstoreaccount1/box/%03d", i), nil)
		r, err := wire.Parse(wire.Blob, hr, httptest.NewRecorder(), time.Now(), wire.Options{})
		if err != nil {
			t.Fatal(err)
		}
		log.Observe(r, frontend.Outcome{Status: http.StatusOK})
	}
	pages := s.pages("/ui/requests")
	wantCounts(t, "requests", counts(pages, "<tr data-number"), 100, 100, 50)
	wantCounts(t, "live", counts(pages, "data-live"), 1, 0, 0)
	if !strings.Contains(pages[2], ">/box/000<") || strings.Contains(pages[1], ">/box/000<") {
		t.Error("the oldest request is not on the last page")
	}
}

func TestAccountsArePaged(t *testing.T) {
	t.Parallel()
	var list []auth.Account
	for i := range 130 {
		key, err := auth.ParseKey(auth.DevelopmentKey)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, auth.Account{Name: fmt.Sprintf("account%03d", i), Keys: []auth.Key{key}})
	}
	accounts, err := auth.NewAccounts(list...)
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, func(o *dashboard.Options) { o.Accounts = accounts })
	pages := s.pages("/ui/accounts")
	wantCounts(t, "accounts", counts(pages, `<li><a href="/ui/accounts/account`), 100, 30)
	s.shows("/ui/", ">account019<", `href="/ui/accounts"`)
	s.hides("/ui/", ">account020<")
	s.shows("/ui/accounts/account125", "<summary>account125</summary>")
	s.shows("/ui/accounts?prefix=account12", "account129")
	s.hides("/ui/accounts?prefix=account12", "account130", ">account030<")
	s.shows("/ui/events", `<input name="account"`)
}

func (s *site) tables() *aztables.ServiceClient {
	s.t.Helper()
	tables, err := aztables.NewServiceClientFromConnectionString(s.stack.ConnectionString(), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	return tables
}

// insert adds entities to a new table. A partition's name is repeated for each of its entities.
func (s *site) insert(table string, partitions map[string]int) {
	s.t.Helper()
	client := s.tables().NewClient(table)
	if _, err := client.CreateTable(s.t.Context(), nil); err != nil {
		s.t.Fatal(err)
	}
	for pk, n := range partitions {
		for from := 0; from < n; from += 100 {
			var list []aztables.TransactionAction
			for i := from; i < min(n, from+100); i++ {
				list = append(list, aztables.TransactionAction{ActionType: aztables.TransactionTypeAdd,
					Entity: fmt.Appendf(nil, `{"PartitionKey":%q,"RowKey":"%06d"}`, pk, i)})
			}
			if _, err := client.SubmitTransaction(s.t.Context(), list, nil); err != nil {
				s.t.Fatal(err)
			}
		}
	}
}

// Partitions are listed by pages in the order of their keys; a page ends after a number of entities, which a large
// partition can exceed.
func TestPartitionsArePaged(t *testing.T) {
	t.Parallel()
	s := open(t)
	many := map[string]int{"it's large": 5100}
	for i := range 150 {
		many[fmt.Sprintf("a%03d", i)] = 1
	}
	s.insert("many", many)
	pages := s.pages(base + "tables/many/partitions")
	wantCounts(t, "partitions", counts(pages, "<meter"), 100, 51)
	if last := pages[len(pages)-1]; !strings.Contains(last, ">it&#39;s large<") || !strings.Contains(last, " or more<") {
		t.Errorf("the last page does not have the large partition:\n%s", last)
	}
	s.shows(base+"tables/many/partitions?largest=1", "151 partitions with 5,250 entities",
		"it&#39;s large</td><td data-label=\"Entities\" class=\"number\">5,100<")
}

// Long values are cut on pages that list, so that a page stays small.
func TestLongValuesAreCut(t *testing.T) {
	t.Parallel()
	s := open(t)
	s.post(base+"queues", "action", "create", "name", "long")
	s.post(base+"queues/long", "action", "put", "body", strings.Repeat("x", 40_000), "encoding", "base64")
	s.post(base+"queues/long", "action", "put", "body", `{"order":{"id":1}}`, "encoding", "base64")
	page := s.get(base + "queues/long")
	if len(page) > 36_000 || !strings.Contains(page, "The beginning of 39.1 KiB.") ||
		!strings.Contains(page, "    &#34;id&#34;: 1") {
		t.Errorf("the page of a queue has %d bytes:\n%.3000s", len(page), page)
	}
	s.post(base+"tables", "action", "create", "name", "Long")
	s.post(base+"tables/Long/entity", "action", "insert", "pk", "p", "rk", "r", "name", "Text", "type", "String", "value",
		strings.Repeat("y", 30_000))
	if page := s.get(base + "tables/Long"); len(page) > 10_000 || !strings.Contains(page, "yyy…") {
		t.Errorf("the page of a table has %d bytes", len(page))
	}
	s.shows(base+"tables/Long/entity?pk=p&rk=r", strings.Repeat("y", 30_000))
}

// The page of a poison queue has the reasons of the messages that it shows, and reads no others.
func TestPoisonReasons(t *testing.T) {
	t.Parallel()
	s := open(t)
	page := base + "queues/orders-poison"
	s.post(base+"queues", "action", "create", "name", "orders-poison")
	s.post(page, "action", "put", "body", "one", "encoding", "base64")
	id := regexp.MustCompile(`id=([0-9a-f-]{36})"`).FindStringSubmatch(s.get(page))
	if id == nil {
		t.Fatal("the message has no ID")
	}
	if err := poison.Write(t.Context(), s.tables(),
		poison.Record{Queue: "orders-poison", ID: id[1], Reason: "failed 5 times: no stock", Stack: "main.ship()",
			Poisoned: time.Now(), Inserted: time.Now()}); err != nil {
		t.Fatal(err)
	}
	s.shows(page, "failed 5 times: no stock", "main.ship()")
	s.post(page, "action", "requeue", "reason", "no stock")
	s.shows(base+"queues/orders", "1 message: 1 visible, 0 hidden.")
}

// notReady is a server that answers reads but is not ready.
type notReady struct{ dashboard.Backend }

func (notReady) Ready() error { return errors.New("the disk of the data folder is full") }

// A server that is not ready has its pages: they show what is wrong, and data that can still be read.
func TestPagesOfAServerThatIsNotReady(t *testing.T) {
	t.Parallel()
	s := open(t, func(o *dashboard.Options) {
		b := o.Backend()
		o.Backend = func() dashboard.Backend { return notReady{b} }
	})
	s.shows("/ui/", "not ready", "the disk of the data folder is full")
	s.shows(base+"containers", "There are no containers")
}

func TestWorkersPage(t *testing.T) {
	t.Parallel()
	const ship = `{"name":"ship","trigger":"queueTrigger","queue":"orders","perSecond":2.5,"succeeded":150,"failed":1,
		"lastError":"panic: out of reach","lastErrorAt":"2026-01-01T00:00:00Z","lastStack":"goroutine 7 [running]",
		"lastHour":{"succeeded":[0,3],"failed":[1,0]}`
	s := open(t, func(o *dashboard.Options) {
		mux := http.NewServeMux()
		mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"functions":[`+ship+`}]}`)
		})
		mux.HandleFunc("GET /ship", func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"functions":[`+ship+`,"running":[{"invocationId":"i9","messageId":"m9","attempt":2,
				"since":"2026-01-01T00:00:00Z"}],"calls":[{"invocationId":"i8","messageId":"<m8>","attempt":5,
				"began":"2026-01-01T00:00:00Z","seconds":0.25,"outcome":"failed","error":"out of <tea>"}]}]}`)
		})
		mux.HandleFunc("GET /idle", func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"functions":[{"name":"idle","trigger":"timerTrigger"}]}`)
		})
		mux.HandleFunc("GET /{function}", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"error":"no function is named none"}`)
		})
		o.Workers, o.WorkersAccount = mux, auth.DevelopmentAccount
	})
	s.shows("/ui/workers", "ship", "queueTrigger orders", ">2.5<", ">150<", "panic: out of reach", "goroutine 7 [running]",
		`href="/ui/workers/ship"`)
	s.shows("/ui/workers/ship", "3 succeeded", "out of &lt;tea&gt;", "&lt;m8&gt;", "250.0 ms", "i9", "m9",
		`href="`+base+`queues/orders"`)
	s.shows("/ui/workers/idle", "None has ended since the start")
	if status, body, _ := s.do(http.MethodGet, "/ui/workers/none", nil, nil); status != http.StatusNotFound ||
		!strings.Contains(body, "no function is named none") {
		t.Errorf("%d %s", status, body)
	}
}

// Input that cannot be sent as headers is refused with what helps; nothing is changed.
func TestMetadataIsRefused(t *testing.T) {
	t.Parallel()
	s := open(t)
	s.post(base+"containers", "action", "create", "name", "photos")
	if status, body, _ := s.do(http.MethodPost, base+"containers/photos/upload?name=a.txt", strings.NewReader("text"),
		http.Header{"X-Csrf-Token": {s.token()}}); status != http.StatusCreated {
		t.Fatalf("upload: %d %s", status, body)
	}
	for _, tc := range []struct{ page, action, value, want string }{
		{base + "containers/photos", "metadata", "1a b: x", "The name 1a b is not one of metadata"},
		{base + "containers/photos", "metadata", "a: \u20ac", "Values have ASCII characters"},
		{base + "containers/photos", "metadata", "a: b\x01", "Values have ASCII characters"},
		{base + "blob/photos?name=a.txt", "metadata", "a-b: x", "The name a-b"},
		{base + "blob/photos?name=a.txt", "type", "a\r\nb: c", "The content type has characters"},
	} {
		if status, body, _ := s.send(tc.page, s.token(), "action", tc.action, tc.action,
			tc.value); status != http.StatusBadRequest || !strings.Contains(body, tc.want) {
			t.Errorf("%s %q: %d\n%s", tc.page, tc.value, status, body)
		}
	}
	s.post(base+"blob/photos?name=a.txt", "action", "tags", "tags", "a b: c d") // tags are not headers
	s.shows(base+"blob/photos?name=a.txt", "a b: c d", "text/plain")
}
