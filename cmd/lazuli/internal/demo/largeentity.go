package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/records"
	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/roles/largeentity"
)

// LargeEntity runs the demonstration of the large-entity role: entities with big properties are inserted, replaced and
// deleted on request of a queue, by workers that also sweep.
func LargeEntity(ctx context.Context, c Config) (*Report, error) {
	return demonstrate(ctx, c, openLargeEntity)
}

// LargeEntityPoints returns what a run of LargeEntity visits by default.
func LargeEntityPoints() []string { return pointsOf(&largePattern{}) }

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
	byKey map[entityKey]int
}

var loadBook = sync.OnceValues(func() (*bookOfTerms, error) {
	terms, err := records.Load()
	if err != nil {
		return nil, err
	}
	b := &bookOfTerms{terms: terms, byKey: map[entityKey]int{}}
	var text strings.Builder
	for i, t := range terms {
		b.lines = append(b.lines, text.Len())
		b.byKey[entityKey{t.PartitionKey(), t.RowKey()}] = i
		fmt.Fprintf(&text, "%s;%s;%s;%s;%s;%s;%s\n", t.State, t.RowKey(), t.Name, t.Chamber, t.Party,
			t.Start.Format(time.DateOnly), t.End.Format(time.DateOnly))
	}
	b.text = text.String()
	return b, nil
})

// rollBytes is the length of a page's roll.
const rollBytes = 40 << 10

// page returns a version of the page that begins at a term.
func (b *bookOfTerms) page(k entityKey, version int32) page {
	i := b.byKey[k]
	roll := b.text[b.lines[i]:] + b.text[:b.lines[i]]
	p := page{Name: b.terms[i].Name, Version: version, Roll: fmt.Sprintf("version %d\n%s", version, roll[:rollBytes]),
		Started: b.terms[i].Start}
	if i%20 == 0 {
		p.Index = bytes.Repeat([]byte(p.Roll), 27) // beyond 1 MiB
	}
	return p
}

// command is a message: store a version of a page, or delete it.
type command struct {
	PartitionKey, RowKey string
	Version              int32 // 0 deletes
}

// largePattern inserts, replaces and deletes pages: an item's place in the records decides which.
type largePattern struct {
	storage                 *workers.Storage
	table, container, queue string
	book                    *bookOfTerms
	store                   *largeentity.Store[page]
	items                   []entityKey
	kept                    []entityKey // stored, and not worked on
}

// demoAge is the age at which the demonstration's sweepers remove orphans.
const demoAge = time.Second

func openLargeEntity(storage *workers.Storage, id string) (pattern, error) {
	if storage.Queues == nil || storage.Tables == nil || storage.Blobs == nil {
		return nil, errors.New("the connection string must name a queue, a table and a blob endpoint")
	}
	p := &largePattern{storage: storage, table: "LazuliDemoPages" + id, container: "lazuli-demo-" + id,
		queue: "lazuli-demo-" + id}
	var err error
	if p.book, err = loadBook(); err != nil {
		return nil, err
	}
	p.store, err = largeentity.New[page](storage, p.table, p.container)
	return p, err
}

func (p *largePattern) points() []string {
	return append(largeentity.Points(), "workers/before-delete-message", "workers/after-delete-message")
}
func (p *largePattern) holdUp() string   { return "large-entity/before-entity" }
func (p *largePattern) concurrency() int { return 4 }
func (p *largePattern) settings() WorkerSettings {
	return WorkerSettings{Queue: p.queue, Current: p.table, Container: p.container}
}

func (p *largePattern) create(ctx context.Context) error { return p.store.Create(ctx) }

func (p *largePattern) remove(ctx context.Context) (err error) {
	if _, e := p.storage.Tables.DeleteTable(ctx, p.table, nil); e != nil && !notFound(e) {
		err = errors.Join(err, fmt.Errorf("delete table %s: %w", p.table, e))
	}
	if _, e := p.storage.Blobs.DeleteContainer(ctx, p.container, nil); e != nil && !notFound(e) {
		err = errors.Join(err, fmt.Errorf("delete container %s: %w", p.container, e))
	}
	return err
}

// roundItems is the number of items that a round has: enough of each kind for two deaths.
const roundItems = 36

// kind says what is to happen to an item.
func (p *largePattern) kind(k entityKey) string {
	return []string{"insert", "replace", "delete"}[p.book.byKey[k]%3]
}

func (p *largePattern) load(ctx context.Context, r *run) ([]entityKey, error) {
	all := make([]entityKey, 0, len(p.book.terms))
	for _, t := range p.book.terms {
		all = append(all, entityKey{t.PartitionKey(), t.RowKey()})
	}
	n := r.Records
	if n == 0 {
		n = min(len(all), roundItems*r.rounds())
	}
	// The same number of each kind.
	all = all[:min(n, len(all))/3*3]
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for i, k := range all {
		last := i >= len(all)-3 // some stay as they are
		if last {
			p.kept = append(p.kept, k)
		} else {
			p.items = append(p.items, k)
		}
		if p.kind(k) == "insert" && !last {
			continue
		}
		r.say.update("storing pages: %d of %d", i, len(all))
		g.Go(func() error {
			_, err := p.store.Insert(gctx, largeentity.Key{PartitionKey: k.partition, RowKey: k.row}, p.book.page(k, 1))
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, fmt.Errorf("store the pages: %w", err)
	}
	r.report.Records, r.report.Old = len(all), len(p.items)
	r.say.line("stored the pages; %d are to be inserted, replaced or deleted", len(p.items))
	return p.items, nil
}

// reset stores the first version of pages that were replaced or deleted, and deletes those that were inserted.
func (p *largePattern) reset(ctx context.Context, keys []entityKey) error {
	for _, k := range keys {
		key := largeentity.Key{PartitionKey: k.partition, RowKey: k.row}
		if p.kind(k) == "insert" {
			if err := p.store.Delete(ctx, key); err != nil {
				return err
			}
		} else if _, err := p.store.Put(ctx, key, p.book.page(k, 1)); err != nil {
			return err
		}
	}
	return nil
}

func (p *largePattern) message(k entityKey) ([]byte, error) {
	return json.Marshal(command{k.partition, k.row, map[string]int32{"insert": 1, "replace": 2, "delete": 0}[p.kind(k)]})
}

// passes: a third of the items is of each kind, and passes the points of its kind.
func (p *largePattern) passes(point string, n int) int {
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
func (p *largePattern) plan(k kill) string {
	if sweeping(k.point) {
		return "large-entity/before-entity=error@1,large-entity/before-entity=error@2," + k.String()
	}
	return k.String()
}

func (p *largePattern) census(ctx context.Context, keys []entityKey, _ bool) (census, error) {
	var c census
	var mu sync.Mutex
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
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
func (p *largePattern) place(ctx context.Context, c *census, k entityKey) (*[]entityKey, error) {
	kind := p.kind(k)
	got, err := p.store.Get(ctx, largeentity.Key{PartitionKey: k.partition, RowKey: k.row})
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
func (p *largePattern) orphans(ctx context.Context) (list []string, err error) {
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

// converged reports that no blob is orphaned. No process writes any more, so this does not change.
func (p *largePattern) converged(ctx context.Context) (bool, error) {
	list, err := p.orphans(ctx)
	return len(list) == 0, err
}

func (p *largePattern) conclude(ctx context.Context, _ *run) (problems []string, summary string, err error) {
	all, err := p.census(ctx, p.items, true)
	if err != nil {
		return nil, "", err
	}
	// Entities without a message must stay as they were loaded: a sweeper that deletes too much would show here alone.
	var touched []entityKey
	for _, k := range p.kept {
		got, err := p.store.Get(ctx, largeentity.Key{PartitionKey: k.partition, RowKey: k.row})
		if err != nil || !equalPages(got.Value, p.book.page(k, 1)) {
			touched = append(touched, k)
		}
	}
	problems = slices.Concat(
		problem("entities are lost or have lost a blob", all.Lost),
		problem("entities changed", all.Changed),
		problem("entities were not processed", all.Kept),
		problem("entities that no message names changed", touched),
	)
	if len(all.Orphans) > 0 {
		problems = append(problems, fmt.Sprintf("%d blobs, pointers or reservations are orphaned", len(all.Orphans)))
	}
	return problems, fmt.Sprintf("%d entities were inserted, replaced or deleted. Each is complete and what it should "+
		"be; no blob is orphaned, no pointer dangles", len(p.items)), nil
}

// openPages opens what a worker of the demonstration works with.
func openPages(storage *workers.Storage, s WorkerSettings) (*bookOfTerms, *largeentity.Store[page], error) {
	book, err := loadBook()
	if err != nil {
		return nil, nil, err
	}
	store, err := largeentity.New[page](storage, s.Current, s.Container, largeentity.WithAge(demoAge))
	return book, store, err
}

// RunLargeEntityWorker is the process that the demonstration of the large-entity role kills: it does what messages say,
// and sweeps.
func RunLargeEntityWorker(ctx context.Context, storage *workers.Storage, app *workers.App, s WorkerSettings) error {
	book, store, err := openPages(storage, s)
	if err != nil {
		return err
	}
	workers.Queue(app, "large-entity", func(ctx context.Context, m *workers.Message[command]) error {
		return m.Body.do(ctx, store, book)
	}, s.Options()...)
	return runSweeping(ctx, storage, app, s, sweepBlobsEvery,
		func(ctx context.Context) { _, _ = store.Sweeper().Sweep(ctx) })
}

// do is idempotent, as every message handler must be: it does not repeat finished work.
func (c command) do(ctx context.Context, store *largeentity.Store[page], book *bookOfTerms) error {
	k := largeentity.Key{PartitionKey: c.PartitionKey, RowKey: c.RowKey}
	if c.Version == 0 {
		return store.Delete(ctx, k)
	}
	value := book.page(entityKey{c.PartitionKey, c.RowKey}, c.Version)
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

// sweepBlobsEvery is the longest pause between two sweeps of a worker.
const sweepBlobsEvery = 200 * time.Millisecond

// runSweeping runs an app and sweeps repeatedly at the same time. The role's timer would let one instance sweep, by a
// lease that outlives a killed process for longer than a demonstration should take; sweepers are safe without it.
func runSweeping(ctx context.Context, storage *workers.Storage, app *workers.App, s WorkerSettings,
	longest time.Duration, sweep func(context.Context)) error {
	sweeping, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		for sweeping.Err() == nil {
			if !s.Story {
				sweep(sweeping)
			} else if left, err := (queues{storage.Queues, s.Queue}).waiting(sweeping); left == 0 && err == nil {
				// The end of the worker does not cut off a request whose effect is there: the story would lack it.
				sweep(context.WithoutCancel(sweeping))
			}
			select {
			case <-time.After(longest/2 + rand.N(longest/2)):
			case <-sweeping.Done():
			}
		}
	})
	err := app.Run(ctx)
	stop()
	wg.Wait()
	return err
}

func (p *largePattern) words() words {
	return words{item: "entities that are to be inserted, replaced or deleted",
		done:   "complete, in the new version, or deleted",
		notYet: "complete, in the old version, or not there yet", lost: "gone, or a blob that it needs is gone",
		orphaned: "blobs that no entity refers to, pointers without a blob, reservations",
		changed:  "neither the old version nor the new one"}
}
