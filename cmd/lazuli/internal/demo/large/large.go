// Package large is the demonstration of the large-entity role: properties of entities are in blobs, of which none is
// missing and none is left at the end.
package large

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/records"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/rig"
	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/roles/largeentity"
)

// Run runs the demonstration of the large-entity role: entities with big properties are inserted, replaced and
// deleted on request of a queue, by workers that also sweep.
func Run(ctx context.Context, c rig.Config) (*rig.Report, error) {
	return rig.Demonstrate(ctx, c, open)
}

// Points returns what a run of Run visits by default.
func Points() []string { return rig.PointsOf(&Pattern{}) }

// page is an entity of the demonstration: a roll of all terms of office that begins at one of them.
type page struct {
	Name    string
	Version int32
	Roll    string // more than a property may have
	Index   []byte // sometimes more than an entity may have
	Started time.Time
}

// bookOfTerms makes pages from the records.
type bookOfTerms struct {
	terms []records.Term
	text  string
	lines []int // where each term's line begins in text
	byKey map[rig.Key]int
}

var loadBook = sync.OnceValues(func() (*bookOfTerms, error) {
	terms, err := records.Load()
	if err != nil {
		return nil, err
	}
	b := &bookOfTerms{terms: terms, byKey: map[rig.Key]int{}}
	var text strings.Builder
	for i, t := range terms {
		b.lines = append(b.lines, text.Len())
		b.byKey[rig.Key{Partition: t.PartitionKey(), Row: t.RowKey()}] = i
		fmt.Fprintf(&text, "%s;%s;%s;%s;%s;%s;%s\n", t.State, t.RowKey(), t.Name, t.Chamber, t.Party,
			t.Start.Format(time.DateOnly), t.End.Format(time.DateOnly))
	}
	b.text = text.String()
	return b, nil
})

// rollBytes is the length of a page's roll.
const rollBytes = 40 << 10

// page returns a version of the page that begins at a term.
func (b *bookOfTerms) page(k rig.Key, version int32) page {
	i := b.byKey[k]
	roll := b.text[b.lines[i]:] + b.text[:b.lines[i]]
	p := page{Name: b.terms[i].Name, Version: version, Roll: fmt.Sprintf("version %d\n%s", version, roll[:rollBytes]),
		Started: b.terms[i].Start}
	if i%20 == 0 {
		p.Index = bytes.Repeat([]byte(p.Roll), 27) // beyond 1 MiB
	}
	return p
}

// Command is a message: store a version of a page, or delete it.
type Command struct {
	PartitionKey, RowKey string
	Version              int32 // 0 deletes
}

// Pattern inserts, replaces and deletes pages: an item's place in the records decides which.
type Pattern struct {
	storage                 *workers.Storage
	table, container, queue string
	book                    *bookOfTerms
	store                   *largeentity.Store[page]
	items                   []rig.Key
	kept                    []rig.Key // stored, and not worked on
}

// demoAge is the age at which the demonstration's sweepers remove orphans.
const demoAge = time.Second

func open(storage *workers.Storage, id string) (rig.Pattern, error) {
	if storage.Queues == nil || storage.Tables == nil || storage.Blobs == nil {
		return nil, errors.New("the connection string must name a queue, a table and a blob endpoint")
	}
	p := &Pattern{storage: storage, table: "LazuliDemoPages" + id, container: "lazuli-demo-" + id,
		queue: "lazuli-demo-" + id}
	var err error
	if p.book, err = loadBook(); err != nil {
		return nil, err
	}
	p.store, err = largeentity.New[page](storage, p.table, p.container)
	return p, err
}

func (p *Pattern) Points() []string {
	return append(largeentity.Points(), "workers/before-delete-message", "workers/after-delete-message")
}
func (p *Pattern) HoldUp() string   { return "large-entity/before-entity" }
func (p *Pattern) Concurrency() int { return 4 }
func (p *Pattern) Settings() rig.WorkerSettings {
	return rig.WorkerSettings{Queue: p.queue, Current: p.table, Container: p.container}
}

func (p *Pattern) Create(ctx context.Context) error { return p.store.Create(ctx) }

func (p *Pattern) Remove(ctx context.Context) (err error) {
	if _, e := p.storage.Tables.DeleteTable(ctx, p.table, nil); e != nil && !rig.NotFound(e) {
		err = errors.Join(err, fmt.Errorf("delete table %s: %w", p.table, e))
	}
	if _, e := p.storage.Blobs.DeleteContainer(ctx, p.container, nil); e != nil && !rig.NotFound(e) {
		err = errors.Join(err, fmt.Errorf("delete container %s: %w", p.container, e))
	}
	return err
}

// Kind says what is to happen to an item.
func (p *Pattern) Kind(k rig.Key) string {
	return []string{"insert", "replace", "delete"}[p.book.byKey[k]%3]
}

func (p *Pattern) Load(ctx context.Context, r *rig.Run) ([]rig.Key, error) {
	all := make([]rig.Key, 0, len(p.book.terms))
	for _, t := range p.book.terms {
		all = append(all, rig.Key{Partition: t.PartitionKey(), Row: t.RowKey()})
	}
	n := r.Records
	if n == 0 {
		n = min(len(all), rig.RoundItems*r.Rounds())
	}
	// The same number of each kind.
	all = all[:min(n, len(all))/3*3]
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(rig.Parallel)
	for i, k := range all {
		last := i >= len(all)-3 // some stay as they are
		if last {
			p.kept = append(p.kept, k)
		} else {
			p.items = append(p.items, k)
		}
		if p.Kind(k) == "insert" && !last {
			continue
		}
		r.Say.Update("storing pages: %d of %d", i, len(all))
		g.Go(func() error {
			_, err := p.store.Insert(gctx, largeentity.Key{PartitionKey: k.Partition, RowKey: k.Row}, p.book.page(k, 1))
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, fmt.Errorf("store the pages: %w", err)
	}
	r.Report.Records, r.Report.Old = len(all), len(p.items)
	r.Say.Line("stored the pages; %d are to be inserted, replaced or deleted", len(p.items))
	return p.items, nil
}

// Reset stores the first version of pages that were replaced or deleted, and deletes those that were inserted.
func (p *Pattern) Reset(ctx context.Context, keys []rig.Key) error {
	for _, k := range keys {
		key := largeentity.Key{PartitionKey: k.Partition, RowKey: k.Row}
		if p.Kind(k) == "insert" {
			if err := p.store.Delete(ctx, key); err != nil {
				return err
			}
		} else if _, err := p.store.Put(ctx, key, p.book.page(k, 1)); err != nil {
			return err
		}
	}
	return nil
}

func (p *Pattern) Message(k rig.Key) ([]byte, error) {
	return json.Marshal(Command{k.Partition, k.Row, map[string]int32{"insert": 1, "replace": 2, "delete": 0}[p.Kind(k)]})
}

// passes: a third of the items is of each kind, and passes the points of its kind.
func (p *Pattern) Passes(point string, n int) int {
	switch {
	case sweeping(point):
		return 1
	case strings.HasPrefix(point, "workers/"):
		return n
	}
	return max(1, n/3-1)
}

// sweeping reports whether a point is the sweeper's.
func sweeping(point string) bool {
	return strings.HasSuffix(point, "-fence") || strings.HasSuffix(point, "-orphan")
}

// plan: where there is to be something to sweep, some writes are given up after their blobs.
func (p *Pattern) Plan(k rig.Kill) string {
	if sweeping(k.Point) {
		return "large-entity/before-entity=error@1,large-entity/before-entity=error@2," + k.String()
	}
	return k.String()
}

func (p *Pattern) Census(ctx context.Context, keys []rig.Key, _ bool) (rig.Census, error) {
	var c rig.Census
	var mu sync.Mutex
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(rig.Parallel)
	for _, k := range keys {
		g.Go(func() error {
			list, err := p.place(gctx, &c, k)
			if err != nil {
				return err
			}
			// place only reads c to choose a list. The append is what needs the lock: two items may choose the same one.
			mu.Lock()
			defer mu.Unlock()
			*list = append(*list, k)
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return c, err
	}
	var err error
	c.Orphans, err = p.orphans(ctx)
	return c, err
}

// place finds the list that an item belongs to.
func (p *Pattern) place(ctx context.Context, c *rig.Census, k rig.Key) (*[]rig.Key, error) {
	kind := p.Kind(k)
	got, err := p.store.Get(ctx, largeentity.Key{PartitionKey: k.Partition, RowKey: k.Row})
	switch {
	// The entity points to a blob that is missing or has other bytes: its content cannot be read again.
	case errors.Is(err, largeentity.ErrDamaged):
		return &c.Lost, nil
	case errors.Is(err, largeentity.ErrNotFound):
		switch kind {
		case "delete":
			return &c.Moved, nil
		case "insert":
			return &c.Kept, nil
		}
		return &c.Lost, nil
	case err != nil:
		return nil, err
	// Compared with the page of the version that it claims to have: old pointers with new properties are a mix.
	case !equalPages(got.Value, p.book.page(k, got.Value.Version)):
		return &c.Changed, nil
	case kind == "insert" && got.Value.Version == 1, kind == "replace" && got.Value.Version == 2:
		return &c.Moved, nil
	}
	return &c.Kept, nil
}

func equalPages(a, b page) bool {
	return a.Name == b.Name && a.Version == b.Version && a.Roll == b.Roll && bytes.Equal(a.Index, b.Index) &&
		a.Started.Equal(b.Started)
}

// orphans returns the names of blobs that no entity refers to, pointers without blobs, and reservations, by looking at
// table and container without the role's own code.
func (p *Pattern) orphans(ctx context.Context) (list []string, err error) {
	// Blobs first, then entities. A writer makes the blob before the pointer, so in the other order a write in between
	// would show as an orphan.
	blobs := map[string]bool{}
	for pager := p.storage.Blobs.NewListBlobsFlatPager(p.container, nil); pager.More(); {
		answer, err := pager.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("list container %s: %w", p.container, err)
		}
		for _, b := range answer.Segment.BlobItems {
			blobs[*b.Name] = true
		}
	}
	for pager := p.storage.Tables.NewClient(p.table).NewListEntitiesPager(nil); pager.More(); {
		answer, err := pager.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("read table %s: %w", p.table, err)
		}
		for _, entity := range answer.Entities {
			// Read with types of its own: if the role's parser had an error, role and census would agree on it.
			var row struct{ PartitionKey, RowKey, LargeEntity string }
			if err := json.Unmarshal(entity, &row); err != nil {
				return nil, err
			}
			var pointers struct {
				Reserved bool
				Parts    map[string]struct{ Blob string }
			}
			if row.LargeEntity != "" {
				if err := json.Unmarshal([]byte(row.LargeEntity), &pointers); err != nil {
					return nil, err
				}
			}
			// A reservation is an entity without parts that a writer makes first. One that is left after the end is a
			// writer's that died and that the sweeper did not find.
			if pointers.Reserved {
				list = append(list, "the reservation "+row.PartitionKey+"/"+row.RowKey)
			}
			for _, part := range pointers.Parts {
				if !blobs[part.Blob] {
					list = append(list, "the pointer to "+part.Blob)
				}
				delete(blobs, part.Blob)
			}
		}
	}
	return append(list, slices.Sorted(maps.Keys(blobs))...), nil
}

// Converged reports that no blob is orphaned. No process writes any more, so this does not change.
func (p *Pattern) Converged(ctx context.Context) (bool, error) {
	list, err := p.orphans(ctx)
	return len(list) == 0, err
}

func (p *Pattern) Conclude(ctx context.Context, _ *rig.Run) (problems []string, summary string, err error) {
	all, err := p.Census(ctx, p.items, true)
	if err != nil {
		return nil, "", err
	}
	// Entities without a message must stay as they were loaded: a sweeper that deletes too much would show here alone.
	var touched []rig.Key
	for _, k := range p.kept {
		got, err := p.store.Get(ctx, largeentity.Key{PartitionKey: k.Partition, RowKey: k.Row})
		if err != nil || !equalPages(got.Value, p.book.page(k, 1)) {
			touched = append(touched, k)
		}
	}
	problems = slices.Concat(
		rig.Problem("entities are lost or have lost a blob", all.Lost),
		rig.Problem("entities changed", all.Changed),
		rig.Problem("entities were not processed", all.Kept),
		rig.Problem("entities that no message names changed", touched),
	)
	if len(all.Orphans) > 0 {
		problems = append(problems, fmt.Sprintf("%d blobs, pointers or reservations are orphaned", len(all.Orphans)))
	}
	return problems, fmt.Sprintf("%d entities were inserted, replaced or deleted. Each is complete and what it should "+
		"be; no blob is orphaned, no pointer dangles", len(p.items)), nil
}

// openPages opens what a worker of the demonstration works with.
func openPages(storage *workers.Storage, s rig.WorkerSettings) (*bookOfTerms, *largeentity.Store[page], error) {
	book, err := loadBook()
	if err != nil {
		return nil, nil, err
	}
	store, err := largeentity.New[page](storage, s.Current, s.Container, largeentity.WithAge(demoAge))
	return book, store, err
}

// RunWorker is the process that the demonstration of the large-entity role kills: it does what messages say,
// and sweeps.
func RunWorker(ctx context.Context, storage *workers.Storage, app *workers.App, s rig.WorkerSettings) error {
	book, store, err := openPages(storage, s)
	if err != nil {
		return err
	}
	workers.Queue(app, "large-entity", func(ctx context.Context, m *workers.Message[Command]) error {
		return m.Body.do(ctx, store, book)
	}, s.Options()...)
	return rig.RunSweeping(ctx, storage, app, s, sweepEvery,
		func(ctx context.Context) { _, _ = store.Sweeper().Sweep(ctx) })
}

// do is idempotent, as every message handler must be: it does not repeat finished work.
func (c Command) do(ctx context.Context, store *largeentity.Store[page], book *bookOfTerms) error {
	k := largeentity.Key{PartitionKey: c.PartitionKey, RowKey: c.RowKey}
	if c.Version == 0 {
		return store.Delete(ctx, k)
	}
	value := book.page(rig.Key{Partition: c.PartitionKey, Row: c.RowKey}, c.Version)
	old, err := store.Get(ctx, k)
	switch {
	case errors.Is(err, largeentity.ErrNotFound):
		if _, err = store.Insert(ctx, k, value); errors.Is(err, largeentity.ErrExists) {
			return workers.RetryAfter(err, 0) // another worker has a copy of the message; read again
		}
	case err == nil && old.Value.Version < c.Version:
		_, err = store.Replace(ctx, k, value, old.ETag)
	}
	return err
}

// sweepEvery is the longest pause between two sweeps of a worker.
const sweepEvery = 200 * time.Millisecond

func (p *Pattern) Words() rig.Words {
	return rig.Words{Item: "entities that are to be inserted, replaced or deleted",
		Done:   "complete, in the new version, or deleted",
		NotYet: "complete, in the old version, or not there yet", Lost: "gone, or a blob that it needs is gone",
		Orphaned: "blobs that no entity refers to, pointers without a blob, reservations",
		Changed:  "neither the old version nor the new one"}
}
