package servertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"

	"github.com/lazuli-storage/lazuli/internal/test/link"
	"github.com/lazuli-storage/lazuli/internal/test/testaccount"
	"github.com/lazuli-storage/lazuli/workers"
)

// seen collects what a handler was told.
type seen struct {
	mu   sync.Mutex
	list []string
}

func (s *seen) add(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, text)
}

func (s *seen) sorted() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(slices.Values(s.list))
}

func (s *seen) has(text string) bool { return slices.Contains(s.sorted(), text) }

func lazuliOnly(t *testing.T) {
	t.Helper()
	if os.Getenv(testaccount.EnvVar) != "" {
		t.Skip("only Lazuli logs the changes of tables")
	}
}

func upsert(t *testing.T, c *aztables.Client, pk, rk string, n int) {
	t.Helper()
	if _, err := c.UpsertEntity(t.Context(), fmt.Appendf(nil, `{"PartitionKey":%q,"RowKey":%q,"N":%d}`, pk, rk, n),
		nil); err != nil {
		t.Fatal(err)
	}
}

type row struct {
	PartitionKey, RowKey string
	N                    int
}

func TestTableTrigger(t *testing.T) {
	t.Parallel()
	lazuliOnly(t)
	a := testaccount.Open(t)
	name := a.Table("Orders")
	client := a.Tables.NewClient(name)
	upsert(t, client, "p", "before", 1)

	var got seen
	serve := func() *workers.App {
		app := newApp(a)
		workers.Table(app, "orders", func(ctx context.Context, c *workers.Change[row]) error {
			ic, _ := workers.FromContext(ctx)
			if ic.TriggerType != "tableTrigger" || ic.TriggerMetadata["RowKey"] != c.Raw.RowKey || c.Raw.Table != name {
				return workers.Permanent(fmt.Errorf("%+v", ic))
			}
			if c.Raw.Entity != nil && (c.Entity.RowKey != c.Raw.RowKey || c.Raw.ETag == "") {
				return workers.Permanent(errors.New("another entity"))
			}
			got.add(fmt.Sprintf("%s %s %d", c.Raw.Change, c.Raw.RowKey, c.Entity.N))
			return nil
		}, workers.WithTable(name))
		return app
	}
	app := serve()
	if err := app.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	// The trigger begins with what comes after its first look: put until one arrives.
	eventually(t, "the trigger listens", func() bool { upsert(t, client, "p", "probe", 0); return len(got.sorted()) > 0 })
	upsert(t, client, "p", "a", 1)
	eventually(t, "an insert is told", func() bool { return got.has("insert a 1") })
	upsert(t, client, "p", "a", 2)
	eventually(t, "an update is told", func() bool { return got.has("update a 2") })
	if _, err := client.DeleteEntity(t.Context(), "p", "a", nil); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a delete is told", func() bool { return got.has("delete a 0") })
	if _, err := client.SubmitTransaction(t.Context(), []aztables.TransactionAction{
		{ActionType: aztables.TransactionTypeAdd, Entity: []byte(`{"PartitionKey":"t","RowKey":"t1","N":7}`)},
		{ActionType: aztables.TransactionTypeAdd, Entity: []byte(`{"PartitionKey":"t","RowKey":"t2","N":8}`)},
	}, nil); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a transaction is told", func() bool { return got.has("insert t1 7") && got.has("insert t2 8") })
	if err := app.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}

	// What happens while no instance is up arrives at the next start: of each entity the last change.
	for n := range 5 {
		upsert(t, client, "p", "b", n)
	}
	if _, err := client.DeleteEntity(t.Context(), "t", "t1", nil); err != nil {
		t.Fatal(err)
	}
	start(t, serve())
	eventually(t, "what was missed is told", func() bool { return got.has("update b 4") && got.has("delete t1 0") })
	if list := got.sorted(); slices.ContainsFunc(list, func(s string) bool { return strings.Contains(s, "before") }) {
		t.Errorf("an old entity was told: %q", list)
	}
}

// With WithExisting the trigger begins with what is there; what cannot be handled goes to the poison queue.
func TestTableTriggerExisting(t *testing.T) {
	t.Parallel()
	lazuliOnly(t)
	a := testaccount.Open(t)
	name := a.Table("Stock")
	client := a.Tables.NewClient(name)
	for i := range 50 {
		upsert(t, client, "p", fmt.Sprintf("%02d", i), i)
	}
	var got seen
	app := newApp(a)
	app.Table(name, func(ctx context.Context, c workers.TableChange) error {
		var r row
		if err := json.Unmarshal(c.Entity, &r); err != nil {
			return err
		}
		if r.N == 13 {
			return errors.New("unlucky")
		}
		got.add(fmt.Sprintf("%s %s", c.Change, c.RowKey))
		return nil
	}, workers.WithExisting(true), workers.WithMaxDequeueCount(2))
	start(t, app)
	eventually(t, "all are told", func() bool { return len(got.sorted()) >= 49 })
	eventually(t, "one is poisoned", func() bool { return app.Stats()[0].Poisoned == 1 })
	if length(t, a, "webjobs-tabletrigger-poison") != 1 {
		t.Error("the poison queue does not have it")
	}
}

// An InOrder trigger tells every change of an entity, in order, with the state before it, through failures and
// restarts; what is delivered again after a restart begins no later than what comes next.
func TestTableTriggerInOrder(t *testing.T) {
	lazuliOnly(t)
	t.Parallel()
	a := testaccount.Open(t)
	name := a.Table("Chains")
	client := a.Tables.NewClient(name)
	const entities, changes = 8, 12
	var mu sync.Mutex
	reached, calls, problems := map[string]int{}, 0, []string{}
	serve := func() *workers.App {
		app := newApp(a)
		workers.Table(app, "chains", func(ctx context.Context, c *workers.Change[row]) error {
			mu.Lock()
			defer mu.Unlock()
			if calls++; calls%5 == 0 {
				return errors.New("not now")
			}
			before, after := c.Before.N, c.Entity.N
			switch {
			case c.Raw.RowKey == "probe":
				reached["probe"] = 1
				return nil
			case c.Raw.Change == "delete":
				after = before + 1
			}
			if (c.Raw.Change == "insert") != (c.Raw.Before == nil) || after != before+1 || before > reached[c.Raw.RowKey] {
				problems = append(problems, fmt.Sprintf("%s %s: %d to %d after %d", c.Raw.Change, c.Raw.RowKey, before, after,
					reached[c.Raw.RowKey]))
			}
			reached[c.Raw.RowKey] = after
			return nil
		}, workers.WithTable(name), workers.InOrder(), workers.WithParallelChanges(3))
		return app
	}
	at := func(row string, n int) func() bool {
		return func() bool { mu.Lock(); defer mu.Unlock(); return reached[row] >= n }
	}
	app := serve()
	if err := app.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the trigger listens", func() bool { upsert(t, client, "p", "probe", 0); return at("probe", 1)() })
	write := func(from, to int) {
		for n := from; n <= to; n++ {
			for e := range entities {
				upsert(t, client, "p", fmt.Sprint(e), n)
			}
		}
	}
	write(1, changes/2)
	eventually(t, "some changes are told", at("0", 2))
	if err := app.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	write(changes/2+1, changes)
	for e := range entities {
		if _, err := client.DeleteEntity(t.Context(), "p", fmt.Sprint(e), nil); err != nil {
			t.Fatal(err)
		}
	}
	start(t, serve())
	for e := range entities {
		eventually(t, "all changes are told", at(fmt.Sprint(e), changes+1))
	}
	mu.Lock()
	defer mu.Unlock()
	if len(problems) > 0 {
		t.Errorf("skipped or out of order:\n%s", strings.Join(problems, "\n"))
	}
}

// What an InOrder trigger cannot handle goes to the poison queue, and holds up no other change for good.
func TestTableTriggerInOrderPoison(t *testing.T) {
	lazuliOnly(t)
	t.Parallel()
	a := testaccount.Open(t)
	name := a.Table("Poison")
	for i := range 3 {
		upsert(t, a.Tables.NewClient(name), "p", fmt.Sprint(i), i)
	}
	var got seen
	app := newApp(a)
	app.Table(name, func(ctx context.Context, c workers.TableChange) error {
		if c.RowKey == "1" {
			return errors.New("never")
		}
		got.add(c.RowKey)
		return nil
	}, workers.WithExisting(true), workers.InOrder(), workers.WithMaxDequeueCount(2))
	start(t, app)
	eventually(t, "the others are told", func() bool { return got.has("0") && got.has("2") })
	eventually(t, "one is poisoned", func() bool { return app.Stats()[0].Poisoned == 1 && app.Stats()[0].Failed == 2 })
	if length(t, a, "webjobs-tabletrigger-poison") != 1 {
		t.Error("the poison queue does not have it")
	}
}

// A change is seen soon after it was made.
func TestTriggersAreImmediate(t *testing.T) {
	t.Parallel()
	lazuliOnly(t)
	a := testaccount.Open(t)
	name, container := a.Table("Fast"), a.Container("fast")
	client := a.Tables.NewClient(name)
	// A poll or a scan would take an hour.
	app := workers.New(workers.Config{ConnectionString: a.ConnectionString, Logger: quiet,
		Defaults: []workers.Option{workers.WithMaxPollingInterval(time.Hour)}})
	told := make(chan string, 100)
	app.Table(name, func(ctx context.Context, c workers.TableChange) error { told <- c.RowKey; return nil },
		workers.WithExisting(true))
	app.Blob("fast", func(ctx context.Context, b *blob.Client) error {
		ic, _ := workers.FromContext(ctx)
		told <- ic.TriggerMetadata["name"]
		return nil
	}, workers.WithPath(container+"/{name}"))
	start(t, app)
	upload := func(name string) {
		t.Helper()
		if _, err := a.Blobs.UploadBuffer(t.Context(), container, name, []byte("x"), nil); err != nil {
			t.Fatal(err)
		}
	}
	took := func(what string, do func()) {
		t.Helper()
		hear := func() {
			t.Helper()
			select {
			case got := <-told:
				if !strings.HasPrefix(got, "warm") {
					t.Fatal(got)
				}
			case <-time.After(2 * time.Minute):
				t.Fatalf("the %s trigger does not tell", what)
			}
		}
		do()
		hear()
		eventually(t, "the functions are idle", func() bool { return app.Stats()[0].InFlight+app.Stats()[1].InFlight == 0 })
		var list []time.Duration
		for range 9 {
			eventually(t, "the functions are idle again",
				func() bool { return app.Stats()[0].InFlight+app.Stats()[1].InFlight == 0 })
			began := time.Now()
			do()
			hear()
			list = append(list, time.Since(began))
		}
		slices.Sort(list)
		t.Logf("%s: median %v, most %v", what, list[4], list[8])
	}
	n := 0
	took("blob", func() { n++; upload(fmt.Sprint("warm", n)) })
	took("table", func() { n++; upsert(t, client, "p", fmt.Sprint("warm", n), n) })
}

// Elsewhere queues are polled and containers scanned, and a table trigger says that it cannot work.
func TestTriggersOnAPlainService(t *testing.T) {
	t.Parallel()
	a := testaccount.Open(t)
	queue, container, table := a.Queue("plain"), a.Container("plain"), a.Table("Plain")
	upsert(t, a.Tables.NewClient(table), "p", "an entity, not a change", 1)
	storage, err := workers.OpenStorage(a.ConnectionString, workers.WithTransport(link.Plain{Next: http.DefaultClient}))
	if err != nil {
		t.Fatal(err)
	}
	app := workers.New(workers.Config{Storage: storage, Logger: quiet,
		Defaults: []workers.Option{workers.WithMaxPollingInterval(100 * time.Millisecond)}})
	told := make(chan string, 10)
	app.Queue("queue", func(ctx context.Context, m workers.QueueMessage) error { told <- "queue"; return nil },
		workers.WithQueueName(queue))
	app.Blob("blob", func(ctx context.Context, b *blob.Client) error { told <- "blob"; return nil },
		workers.WithPath(container))
	app.Table("table", func(ctx context.Context, c workers.TableChange) error { told <- "table"; return nil },
		workers.WithTable(table))
	start(t, app)
	send(t, a, queue, "x")
	if got := <-told; got != "queue" {
		t.Error(got)
	}
	if _, err := a.Blobs.UploadBuffer(t.Context(), container, "b", nil, nil); err != nil {
		t.Fatal(err)
	}
	if got := <-told; got != "blob" {
		t.Error(got)
	}
	eventually(t, "the table trigger reports", func() bool {
		e := app.Stats()[2].LastError
		return e != nil && strings.Contains(e.Err.Error(), "needs Lazuli")
	})
	if len(told) > 0 {
		t.Error(<-told)
	}
}

func TestTableTriggerMistakes(t *testing.T) {
	t.Parallel()
	app := workers.New(workers.Config{ConnectionString: "UseDevelopmentStorage=true"})
	app.Table("a-b", nil)
	err := app.Start(t.Context())
	if err == nil || !strings.Contains(err.Error(), "handler is nil") ||
		!strings.Contains(err.Error(), `table name "a-b"`) {
		t.Error(err)
	}
	app = workers.New(workers.Config{Storage: &workers.Storage{}})
	app.Table("Orders", func(ctx context.Context, c workers.TableChange) error { return nil })
	if err := app.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "no table endpoint") {
		t.Error(err)
	}
}
