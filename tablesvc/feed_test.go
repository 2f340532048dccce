package tablesvc

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/longpoll"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/service/tablehost"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// feedPage holds what an answer with changes says, each as "change partition/row".
type feedPage struct {
	changes  []string
	etags    []string
	position string
	known    bool
}

func (f *fixture) feed(t *testing.T, table, after string, h ...string) feedPage {
	t.Helper()
	return f.send("GET", "/"+table+"()", append(headers{"X-Lazuli-After", after}, h...), "").feed(t)
}

// feed reads an answer with changes.
func (r reply) feed(t *testing.T) feedPage {
	t.Helper()
	r.want(t, "200")
	var body struct{ Value []changeEntry }
	check.OK(t, json.Unmarshal([]byte(r.body), &body))
	p := feedPage{position: r.header.Get(longpoll.PositionHeader),
		known: r.header.Get(longpoll.FeedHeader) == longpoll.FeedChanges}
	for _, e := range body.Value {
		p.changes, p.etags = append(p.changes, e.Change+" "+e.PartitionKey+"/"+e.RowKey), append(p.etags, e.ETag)
	}
	return p
}

func (p feedPage) want(t *testing.T, known bool, changes ...string) feedPage {
	t.Helper()
	if p.known != known || !slices.Equal(p.changes, changes) {
		t.Errorf("got %v %q, want %v %q", p.known, p.changes, known, changes)
	}
	return p
}

func TestFeed(t *testing.T) {
	t.Parallel()
	board := longpoll.NewBoard()
	f := start(t, func(c *tablehost.Config) { c.Board = board })
	table := f.table("Orders")
	row := func(pk, rk string) []byte {
		return []byte(fmt.Sprintf(`{"PartitionKey":%q,"RowKey":%q,"N":1}`, pk, rk))
	}
	put := func(pk, rk string) {
		t.Helper()
		if _, err := table.UpsertEntity(ctx, row(pk, rk), nil); err != nil {
			t.Fatal(err)
		}
	}
	put("a", "before anybody asked")
	begin := f.feed(t, "Orders", "none").want(t, false)
	if p := f.feed(t, "orders", begin.position); !p.known || p.position != begin.position {
		t.Errorf("nothing has changed: %+v", p)
	}

	put("b", "1")
	put("b", "1")
	if _, err := table.DeleteEntity(ctx, "b", "1", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := table.DeleteEntity(ctx, "b", "1", nil); err == nil {
		t.Fatal("deleted twice")
	}
	if _, err := table.SubmitTransaction(ctx, []aztables.TransactionAction{
		{ActionType: aztables.TransactionTypeAdd, Entity: row("c", "1")},
		{ActionType: aztables.TransactionTypeAdd, Entity: row("c", "2")},
	}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := table.SubmitTransaction(ctx, []aztables.TransactionAction{
		{ActionType: aztables.TransactionTypeAdd, Entity: row("c", "3")},
		{ActionType: aztables.TransactionTypeAdd, Entity: row("c", "2")}, // is there
	}, nil); err == nil {
		t.Fatal("the transaction succeeds")
	}
	all := []string{"insert b/1", "update b/1", "delete b/1", "insert c/1", "insert c/2"}
	page := f.feed(t, "Orders", begin.position).want(t, true, all...)
	got, err := table.GetEntity(ctx, "c", "2", nil)
	if err != nil {
		t.Fatal(err)
	}
	if page.etags[4] != string(got.ETag) || page.etags[2] != "" {
		t.Errorf("ETags %q, the entity's is %s", page.etags, got.ETag)
	}

	// A wait ends with the change, or with the deletion of the table.
	var waited reply
	answered := make(chan error, 1)
	wait := func(name, position string) {
		go func() {
			var err error
			waited, err = f.try("GET", "/"+name+"()", headers{"X-Lazuli-After", position, "X-Lazuli-Wait", "50"}, "")
			answered <- err
		}()
		for board.Waiting() == 0 {
			if len(answered) > 0 {
				t.Fatalf("no wait: %d, %v", waited.status, <-answered)
			}
			runtime.Gosched()
		}
	}
	wait("Orders", page.position)
	put("d", "1")
	check.OK(t, <-answered)
	waited.feed(t).want(t, true, "insert d/1")
	doomed := f.table("Doomed")
	wait("Doomed", f.feed(t, "Doomed", "x").want(t, false).position)
	if _, err := doomed.Delete(ctx, nil); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-answered:
		check.OK(t, err)
	case <-time.After(45 * time.Second): // the request allows 50 s
		t.Fatal("the deletion of the table does not end the wait")
	}
	waited.want(t, "404 TableNotFound")

	// It holds across a restart, and goes on to log.
	if err := f.svc.Close(); err != nil {
		t.Fatal(err)
	}
	f.open()
	table = f.sdk.NewClient("Orders")
	put("e", "1")
	f.feed(t, "Orders", begin.position).want(t, true, append(all, "insert d/1", "insert e/1")...)

	// Unknown positions: not one of this form, ahead of the log, or of another table.
	for _, position := range []string{"x", "-", "1", "2-1", "1-zzz", "1-zzzzzzzzzzzzzzzzzzzzzzz"} {
		f.feed(t, "Orders", position).want(t, false)
	}
	f.send("GET", "/None()", headers{"X-Lazuli-After", "x"}, "").want(t, "404 TableNotFound")
	if _, err := table.Delete(ctx, nil); err != nil {
		t.Fatal(err)
	}
	table = f.table("Orders")
	fresh := f.feed(t, "Orders", page.position).want(t, false)
	put("f", "1")
	f.feed(t, "Orders", fresh.position).want(t, true, "insert f/1")
}

// Permission to read does not begin the log of a table, which costs every writer, nor prolong it.
func TestReadersDoNotBeginTheFeed(t *testing.T) {
	t.Parallel()
	f := start(t)
	client := f.table("people")
	key, err := auth.ParseKey(auth.DevelopmentKey)
	check.OK(t, err)
	ask := func(permissions string) int {
		t.Helper()
		token := auth.Token{VersionText: auth.SASVersion, Permissions: permissions, Expiry: "2099-01-01T00:00:00Z"}
		query, err := token.Sign(auth.DevelopmentAccount, key, wire.Table, "people")
		check.OK(t, err)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, f.base+"/people()?"+query, nil)
		check.OK(t, err)
		r.Header.Set(longpoll.AfterHeader, "begin")
		r.Header.Set("x-ms-version", "2021-12-02")
		resp, err := http.DefaultClient.Do(r)
		check.OK(t, err)
		check.OK(t, resp.Body.Close())
		return resp.StatusCode
	}
	if got := ask("r"); got != http.StatusForbidden {
		t.Errorf("a reader begins the log: %d", got)
	}
	before := f.feed(t, "people", "begin").position
	add(t, client, "p", "1", "N", 1)
	if got := ask("r"); got != http.StatusOK {
		t.Errorf("a reader of a log that there is: %d", got)
	}
	f.feed(t, "people", before).want(t, true, "insert p/1")
	if got := ask("ra"); got != http.StatusOK {
		t.Errorf("a reader and writer: %d", got)
	}
}

// A query that names one entity waits until the entity matches; another one does not wait.
func TestQueryWaits(t *testing.T) {
	t.Parallel()
	board := longpoll.NewBoard()
	f := start(t, func(c *tablehost.Config) { c.Board = board })
	table := f.table("Orders")
	put := func(status string) {
		t.Helper()
		row := fmt.Sprintf(`{"PartitionKey":"p","RowKey":"row 1","Status":%q}`, status)
		_, err := table.UpsertEntity(ctx, []byte(row), nil)
		check.OK(t, err)
	}
	ask := func(filter, seconds string) reply {
		return f.send("GET", "/Orders()?$filter="+url.QueryEscape(filter), headers{longpoll.WaitHeader, seconds}, "")
	}
	const one = "PartitionKey eq 'p' and RowKey eq 'row 1'"
	const done = one + " and (Status eq 'Done' or Status eq 'Failed')"

	if r := ask(done, "1"); r.header.Get(longpoll.WaitHeader) != "1" || strings.Contains(r.body, "PartitionKey") {
		t.Errorf("nothing came: %s", r.body)
	}
	for name, change := range map[string]func(){
		"upsert": func() { put("Done") },
		"transaction": func() {
			_, err := table.SubmitTransaction(ctx, []aztables.TransactionAction{{ActionType: aztables.TransactionTypeInsertMerge,
				Entity: []byte(`{"PartitionKey":"p","RowKey":"row 1","Status":"Failed"}`)}}, nil)
			check.OK(t, err)
		},
	} {
		put("Running")
		answer := make(chan reply, 1)
		go func() { answer <- ask(done, "50") }()
		check.Eventually(t, func() bool { return board.Waiting() == 1 }, "the query waits")
		put("Pending") // wakes it, and does not match
		change()
		began := time.Now()
		r := <-answer
		r.want(t, "200")
		if !strings.Contains(r.body, "row 1") || time.Since(began) > 45*time.Second { // of the 50 s that it may wait
			t.Errorf("%s: %s after %v", name, r.body, time.Since(began))
		}
	}
	for _, filter := range []string{"PartitionKey eq 'p' and Status eq 'None'", one + " or RowKey eq 'x'",
		"Status eq 'None'"} {
		if r := ask(filter, "50"); r.header.Get(longpoll.WaitHeader) != "" {
			t.Errorf("%s: it waits", filter)
		}
	}
	r := f.send("GET", "/None()?$filter="+url.QueryEscape(one), headers{longpoll.WaitHeader, "50"}, "")
	r.want(t, "404 TableNotFound")
}
