package searchindex_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/testaccount"
	"github.com/lazuli-storage/lazuli/tables"
	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/follow"
	"github.com/lazuli-storage/lazuli/workers/roles/searchindex"
)

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var peopleFields = []searchindex.Field{{Name: "Name", Type: "text"}, {Name: "Town", Type: "keyword"},
	{Name: "Score", Type: "number"}, {Name: "Born", Type: "date"}}

// fixture is a table of people with an index in a folder.
type fixture struct {
	*testaccount.Account
	table  string
	source *tables.Table[tables.Entity]
	folder string
	index  *searchindex.Index
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	a := testaccount.Open(t)
	f := &fixture{Account: a, table: a.Table("People"), folder: filepath.Join(t.TempDir(), "index")}
	var err error
	f.source, err = tables.New[tables.Entity](a.Tables, f.table, tables.CreateIfMissing())
	ok(t, err)
	f.open(t, peopleFields)
	return f
}

func (f *fixture) open(t *testing.T, fields []searchindex.Field) {
	t.Helper()
	x, err := searchindex.Open(searchindex.Config{Storage: f.Storage, Table: f.table, Folder: f.folder, Fields: fields})
	ok(t, err)
	f.index = x
	t.Cleanup(func() { _ = x.Close() })
}

// follow keeps the index in step with the table until stop is called.
func (f *fixture) follow(t *testing.T) (stop func()) {
	t.Helper()
	app := workers.New(workers.Config{Storage: f.Storage, Logger: slog.New(slog.DiscardHandler), Clock: hastyClock{}})
	f.index.Register(app, "index")
	ok(t, app.Start(t.Context()))
	t.Cleanup(func() { _ = app.Stop(context.Background()) })
	return func() { ok(t, app.Stop(context.Background())) }
}

// hastyClock shortens pauses, so that failed steps are repeated soon.
type hastyClock struct{}

func (hastyClock) Now() time.Time { return time.Now() }

func (hastyClock) NewTimer(d time.Duration) workers.Timer { return hastyTimer{time.NewTimer(d / 100)} }

type hastyTimer struct{ t *time.Timer }

func (t hastyTimer) C() <-chan time.Time { return t.t.C }
func (t hastyTimer) Stop()               { t.t.Stop() }

// settled waits until the index equals the table, and returns the report.
func (f *fixture) settled(t *testing.T, entities int) {
	t.Helper()
	var last string
	for deadline := time.Now().Add(check.Patience); time.Now().Before(deadline); {
		r, err := f.index.Verify(t.Context())
		if err == nil && r.Complete && r.Different == 0 && r.Entities == entities && r.Documents == entities {
			return
		}
		last = fmt.Sprintf("%+v, %v", r, err)
		select {
		case <-time.After(10 * time.Millisecond):
		case <-t.Context().Done():
		}
	}
	t.Fatalf("the index does not become equal to a table of %d entities: %s", entities, last)
}

func (f *fixture) find(t *testing.T, q searchindex.Query) *searchindex.Result {
	t.Helper()
	r, err := f.index.Search(t.Context(), q)
	ok(t, err)
	return r
}

// rows are the RowKeys of the hits in their order.
func rows(r *searchindex.Result) (list []string) {
	for _, h := range r.Hits {
		list = append(list, h.RowKey)
	}
	return list
}

func person(row, name, town string, score any) *tables.Entity {
	return &tables.Entity{PartitionKey: "people", RowKey: row,
		Properties: map[string]any{"Name": name, "Town": town, "Score": score,
			"Born": time.Date(1815, 12, 10, 0, 0, 0, 0, time.UTC), "Unindexed": "secret"}}
}

func TestIndexFollowsTheTable(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ctx := t.Context()
	ok(t, f.source.Insert(ctx, person("1", "Ada Lovelace", "London", 5.5)))
	ok(t, f.source.Insert(ctx, person("2", "Alan Turing", "London", int32(7))))
	stop := f.follow(t)
	f.settled(t, 2)
	changed := person("1", "Ada King", "Ockham", 6.0)
	ok(t, f.source.InsertOrReplace(ctx, changed))
	ok(t, f.source.Insert(ctx, person("3", "Grace Hopper", "New York", int64(8))))
	ok(t, f.source.DeleteKey(ctx, tables.Key{PartitionKey: "people", RowKey: "2"}))
	f.settled(t, 2)
	if got := rows(f.find(t, searchindex.Query{Text: "ada"})); !slices.Equal(got, []string{"1"}) {
		t.Errorf("ada is %v", got)
	}
	if got := f.find(t, searchindex.Query{Text: "lovelace turing"}); got.Total != 0 {
		t.Errorf("old names are still found: %+v", got)
	}

	// What changes while nothing follows is found after the next start.
	stop()
	ok(t, f.index.Close())
	ok(t, f.source.Insert(ctx, person("4", "Edsger Dijkstra", "Rotterdam", 9.0)))
	ok(t, f.source.DeleteKey(ctx, tables.Key{PartitionKey: "people", RowKey: "3"}))
	f.open(t, peopleFields)
	if got := f.find(t, searchindex.Query{}); got.Total != 2 || !got.Complete {
		t.Errorf("the stored index has %+v", got)
	}
	f.follow(t)
	f.settled(t, 2)
	if got := rows(f.find(t, searchindex.Query{Text: "dijkstra"})); !slices.Equal(got, []string{"4"}) {
		t.Errorf("dijkstra is %v", got)
	}
}

// A table that is deleted and created again is read again; while it does not exist, the index becomes empty.
func TestIndexFollowsADeletedTable(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ctx := t.Context()
	ok(t, f.source.Insert(ctx, person("1", "Ada", "London", 1.0)))
	f.follow(t)
	f.settled(t, 1)
	ok(t, f.source.Drop(ctx))
	f.settled(t, 0)
	ok(t, f.source.Insert(ctx, person("2", "Alan", "London", 1.0)))
	f.settled(t, 1)
	if got := rows(f.find(t, searchindex.Query{})); !slices.Equal(got, []string{"2"}) {
		t.Errorf("hits are %v", got)
	}
}

// A reading of many pages is interrupted after each one, and continues.
func TestReadingContinuesAfterAStop(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var all []tables.Entity
	for n := range 2500 {
		all = append(all, *person(fmt.Sprintf("%05d", n), "Person", "Ulm", float64(n)))
	}
	ok(t, f.source.Bulk(t.Context(), tables.BulkInsert, all))
	recorder := &recorder{Index: f.index}
	for stops := 0; ; stops++ {
		app := workers.New(workers.Config{Storage: f.Storage, Logger: slog.New(slog.DiscardHandler)})
		recorder.applied = make(chan follow.Progress)
		app.FollowTable("index", f.table, recorder)
		ok(t, app.Start(t.Context()))
		p := <-recorder.applied
		done := make(chan error, 1)
		go func() { done <- app.Stop(context.Background()) }()
		for waiting := true; waiting; {
			select {
			case p = <-recorder.applied:
			case err := <-done:
				ok(t, err)
				waiting = false
			}
		}
		if !p.Reading {
			break
		}
		if r := f.find(t, searchindex.Query{}); r.Complete {
			t.Error("a search calls the index complete while the table is being read")
		}
	}
	f.settled(t, 2500)
	if recorder.restarts != 1 {
		t.Errorf("the reading began %d times", recorder.restarts)
	}
}

// recorder is a follower that tells of each Apply.
type recorder struct {
	*searchindex.Index
	restarts int
	applied  chan follow.Progress
}

func (r *recorder) Progress(ctx context.Context) (follow.Progress, error) {
	return r.Follower().Progress(ctx)
}

func (r *recorder) Restart(ctx context.Context, p follow.Progress) error {
	r.restarts++
	return r.Follower().Restart(ctx, p)
}

func (r *recorder) Apply(ctx context.Context, changes []workers.TableChange, p follow.Progress) error {
	err := r.Follower().Apply(ctx, changes, p)
	r.applied <- p
	return err
}

func TestRebuild(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ctx := t.Context()
	ok(t, f.source.Insert(ctx, person("1", "Ada", "London", 1.0)))
	stop := f.follow(t)
	f.settled(t, 1)
	before := generations(t, f.folder)
	ok(t, f.index.Rebuild())
	ok(t, f.source.Insert(ctx, person("2", "Alan", "London", 1.0))) // wakes the role
	f.settled(t, 2)
	if after := generations(t, f.folder); slices.Equal(before, after) {
		t.Errorf("the index %v was not made again", after)
	}
	stop()
	ok(t, f.index.Close())

	// Other fields: the index is made again.
	fields := append(slices.Clone(peopleFields), searchindex.Field{Name: "Unindexed", Type: "text"})
	f.open(t, fields)
	if r := f.find(t, searchindex.Query{}); r.Total != 0 || r.Complete {
		t.Errorf("before it is rebuilt, an index with other fields has %+v", r)
	}
	stop = f.follow(t)
	f.settled(t, 2)
	if r := f.find(t, searchindex.Query{Text: "Unindexed:secret"}); r.Total != 2 {
		t.Errorf("%d hits by the new field", r.Total)
	}
	stop()
	ok(t, f.index.Close())

	// A stored index that cannot be opened.
	for _, g := range generations(t, f.folder) {
		ok(t, os.WriteFile(filepath.Join(f.folder, g, "index_meta.json"), []byte("damaged"), 0o600))
	}
	f.open(t, fields)
	f.follow(t)
	f.settled(t, 2)
}

// generations are the folders of the indexes of bleve.
func generations(t *testing.T, folder string) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(folder, "generation-*"))
	ok(t, err)
	for i := range list {
		list[i] = filepath.Base(list[i])
	}
	return list
}

func TestVerifyFindsAndRepairCorrects(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ctx := t.Context()
	for n := range 5 {
		ok(t, f.source.Insert(ctx, person(fmt.Sprint(n), "Ada", "London", 1.0)))
	}
	ok(t, f.index.Build(ctx))
	f.settled(t, 5)
	// Without a role, the index does not learn of changes.
	ok(t, f.source.DeleteKey(ctx, tables.Key{PartitionKey: "people", RowKey: "1"}))
	ok(t, f.source.InsertOrReplace(ctx, person("2", "Ada", "Ockham", 1.0)))
	ok(t, f.source.Insert(ctx, person("7", "Alan", "London", 1.0)))
	r, err := f.index.Verify(ctx)
	ok(t, err)
	var got []string
	for _, d := range r.Differences {
		got = append(got, d.RowKey+" "+d.What)
	}
	slices.Sort(got)
	if want := []string{"1 extra", "2 different", "7 missing"}; !slices.Equal(got, want) || r.Different != 3 ||
		r.Entities != 5 || r.Documents != 5 {
		t.Errorf("differences are %q in %+v, want %q", got, r, want)
	}
	n, err := f.index.Repair(ctx)
	ok(t, err)
	if n != 3 {
		t.Errorf("repaired %d documents, want 3", n)
	}
	f.settled(t, 5)
}

// Messages may come late and twice: the index has the entities as they are.
func TestMessagesKeepTheIndexInStep(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ctx := t.Context()
	for n := range 30 {
		ok(t, f.source.Insert(ctx, person(fmt.Sprint(n), "Ada", "London", 1.0)))
	}
	queue := f.Queue("keys")
	app := workers.New(workers.Config{Storage: f.Storage, Logger: slog.New(slog.DiscardHandler)})
	f.index.RegisterQueue(app, "index", workers.WithQueueName(queue))
	ok(t, app.Start(ctx))
	t.Cleanup(func() { _ = app.Stop(context.Background()) })
	for n := range 30 {
		row := fmt.Sprint(n)
		switch n % 3 {
		case 0:
			ok(t, f.source.DeleteKey(ctx, tables.Key{PartitionKey: "people", RowKey: row}))
		case 1:
			ok(t, f.source.InsertOrReplace(ctx, person(row, "Grace", "New York", 2.0)))
		}
		for range 2 {
			ok(t, f.Storage.Enqueue(ctx, queue, searchindex.Message{PartitionKey: "people", RowKey: row}))
		}
	}
	f.settled(t, 20)
	if r := f.find(t, searchindex.Query{Text: "grace"}); r.Total != 10 {
		t.Errorf("%d hits, want 10", r.Total)
	}
}
