package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/records"
	"github.com/lazuli-storage/lazuli/tables"
	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/roles/tableindex"
)

// The kinds of the table-index role that have demonstrations.
const (
	IndexCopies = "copies"
	IndexLists  = "lists"
	IndexCounts = "counts"
)

// Index runs the demonstration of an inter-partition secondary index: copies of records by party.
func Index(ctx context.Context, c Config) (*Report, error) {
	return demonstrate(ctx, c, openTableIndex(IndexCopies))
}

// IndexEntities runs the demonstration of index entities: lists of keys by state and party.
func IndexEntities(ctx context.Context, c Config) (*Report, error) {
	return demonstrate(ctx, c, openTableIndex(IndexLists))
}

// View runs the demonstration of a materialised view: counts by state and party.
func View(ctx context.Context, c Config) (*Report, error) {
	return demonstrate(ctx, c, openTableIndex(IndexCounts))
}

// TableIndexPoints returns what a run of a kind visits by default.
func TableIndexPoints(kind string) []string { return pointsOf(&indexPattern{kindOfIndex: kind}) }

// projectionOf returns what a kind keeps.
func projectionOf(kind string) tableindex.Projection {
	party := func(e *tables.Entity) string {
		text, _ := tables.Value[string](e, "Party")
		return text
	}
	switch kind {
	case IndexLists:
		return tableindex.Lists(func(e *tables.Entity) (tables.Key, bool) {
			return tables.Key{PartitionKey: e.PartitionKey, RowKey: "party " + party(e)}, true
		})
	case IndexCounts:
		return tableindex.Counts(func(e *tables.Entity) (tables.Key, bool) {
			return tables.Key{PartitionKey: e.PartitionKey, RowKey: "parties"}, true
		}, func(k tables.Key) []tables.Expr { return []tables.Expr{tables.PartitionKey.Eq(k.PartitionKey)} }, party)
	}
	return tableindex.Copies(func(e *tables.Entity) (tables.Key, bool) {
		return tables.Key{PartitionKey: party(e), RowKey: e.PartitionKey + " " + e.RowKey}, true
	})
}

// indexPattern changes records, and keeps a table in step with them: an item's key decides whether it is inserted,
// changed or deleted.
type indexPattern struct {
	kindOfIndex     string
	storage         *workers.Storage
	from, to, queue string
	source          *tables.Table[tables.Entity]
	role            *tableindex.Role
	before          map[entityKey]*tables.Entity // as loaded; nil for an item that is to be inserted
	after           map[entityKey]*tables.Entity // as it should be; nil for one that is to be deleted
}

func openTableIndex(kind string) func(*workers.Storage, string) (pattern, error) {
	return func(storage *workers.Storage, id string) (pattern, error) {
		if storage.Queues == nil || storage.Tables == nil {
			return nil, errors.New("the connection string must name a queue and a table endpoint")
		}
		p := &indexPattern{kindOfIndex: kind, storage: storage, from: "LazuliDemoTerms" + id, to: "LazuliDemoIndex" + id,
			queue: "lazuli-demo-" + id}
		var err error
		if p.source, err = tables.New[tables.Entity](storage.Tables, p.from); err != nil {
			return nil, err
		}
		p.role, err = tableindex.New(storage, p.from, p.to, projectionOf(kind))
		return p, err
	}
}

func (p *indexPattern) points() []string {
	points := tableindex.Points()
	if p.kindOfIndex != IndexCopies { // Lists and counts stay when they are empty.
		points = points[:3]
	}
	return append(points, "workers/before-delete-message", "workers/after-delete-message")
}
func (p *indexPattern) holdUp() string     { return "table-index/before-put" }
func (p *indexPattern) concurrency() int   { return 8 }
func (p *indexPattern) plan(k kill) string { return k.String() }
func (p *indexPattern) settings() WorkerSettings {
	return WorkerSettings{Queue: p.queue, Current: p.from, Archive: p.to, Kind: p.kindOfIndex}
}

// passes: of copies, only some items are written or deleted.
func (p *indexPattern) passes(point string, n int) int {
	if p.kindOfIndex == IndexCopies && (strings.HasSuffix(point, "-put") || strings.HasSuffix(point, "-delete")) {
		return max(1, n/2)
	}
	return n
}

func (p *indexPattern) create(ctx context.Context) error {
	for _, name := range []string{p.from, p.to} {
		if _, err := p.storage.Tables.CreateTable(ctx, name, nil); err != nil {
			return fmt.Errorf("create table %s: %w", name, err)
		}
	}
	return nil
}

func (p *indexPattern) remove(ctx context.Context) (err error) {
	for _, name := range []string{p.from, p.to} {
		if _, e := p.storage.Tables.DeleteTable(ctx, name, nil); e != nil && !notFound(e) {
			err = errors.Join(err, fmt.Errorf("delete table %s: %w", name, e))
		}
	}
	return err
}

// kindOfChange says what is to happen to an item.
func kindOfChange(k entityKey) string {
	h := fnv.New32a()
	h.Write([]byte(k.String()))
	return []string{"insert", "change", "delete"}[h.Sum32()%3]
}

func (p *indexPattern) kind(k entityKey) string { return kindOfChange(k) }

// states returns a record before and after what happens to it.
func states(e entity) (before, after *tables.Entity, err error) {
	parse := func() *tables.Entity {
		var parsed tables.Entity
		parseErr := parsed.UnmarshalJSON(e.json)
		err = errors.Join(err, parseErr)
		return &parsed
	}
	switch kindOfChange(e.key) {
	case "insert":
		return nil, parse(), err
	case "delete":
		return parse(), nil, err
	}
	before, after = parse(), parse()
	if err != nil {
		return nil, nil, err
	}
	// A change must move the record to another target, or it would not test the removal at the old one.
	if after.Properties["Party"] == "Independent" {
		after.Properties["Party"] = "Democrat"
	} else {
		after.Properties["Party"] = "Independent"
	}
	return before, after, nil
}

func (p *indexPattern) load(ctx context.Context, r *run) ([]entityKey, error) {
	work, err := p.loadStates(ctx, r)
	if err == nil {
		if err = p.index(ctx, work); err != nil {
			err = fmt.Errorf("make the index of what is there: %w", err)
		}
	}
	return work, err
}

// loadStates stores the records as they are before the changes, and returns all items.
func (p *indexPattern) loadStates(ctx context.Context, r *run) (work []entityKey, err error) {
	n := r.Records
	if n == 0 {
		n = roundItems * r.rounds()
	}
	entities, err := loadRecords(n)
	if err != nil {
		return nil, err
	}
	p.before, p.after = map[entityKey]*tables.Entity{}, map[entityKey]*tables.Entity{}
	var stored []tables.Entity
	// A record that is inserted by the run is not stored now; it still is an item of the work.
	for _, e := range entities {
		if p.before[e.key], p.after[e.key], err = states(e); err != nil {
			return nil, err
		}
		if b := p.before[e.key]; b != nil {
			stored = append(stored, *b)
		}
		work = append(work, e.key)
	}
	r.say.update("loading %d records", len(stored))
	if err := p.source.Bulk(ctx, tables.BulkInsert, stored); err != nil {
		return nil, fmt.Errorf("load the records: %w", err)
	}
	r.report.Records, r.report.Old = len(entities), len(work)
	r.say.line("loaded %d records; %d are to be inserted, changed or deleted", len(stored), len(work))
	return work, nil
}

// index brings the targets of items up to date.
func (p *indexPattern) index(ctx context.Context, keys []entityKey) error {
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex // guards errs
		errs  error
		slots = make(chan struct{}, parallel)
	)
	for _, k := range keys {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			key := tables.Key{PartitionKey: k.partition, RowKey: k.row}
			if err := p.role.Handle(ctx, key, p.role.Message(key, p.before[k], p.after[k]).Targets); err != nil {
				mu.Lock()
				errs = errors.Join(errs, err)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return errs
}

// indexCommand is a message: make the change of a record.
type indexCommand struct{ PartitionKey, RowKey string }

func (p *indexPattern) message(k entityKey) ([]byte, error) {
	return json.Marshal(indexCommand{k.partition, k.row})
}

// reset makes items as they were loaded.
func (p *indexPattern) reset(ctx context.Context, keys []entityKey) error {
	for _, k := range keys {
		if err := applyState(ctx, p.source, k, p.before[k]); err != nil {
			return err
		}
	}
	return p.index(ctx, keys)
}

// applyState stores or deletes a record.
func applyState(ctx context.Context, source *tables.Table[tables.Entity], k entityKey, state *tables.Entity) error {
	if state != nil {
		copied := *state
		return source.InsertOrReplace(ctx, &copied)
	}
	err := source.DeleteKey(ctx, tables.Key{PartitionKey: k.partition, RowKey: k.row})
	if errors.Is(err, tables.ErrNotFound) {
		return nil
	}
	return err
}

func (p *indexPattern) census(ctx context.Context, keys []entityKey, atEnd bool) (census, error) {
	var c census
	differences, err := p.role.Verify(ctx)
	if err != nil {
		return c, err
	}
	wrong := map[tables.Key]bool{}
	for _, d := range differences {
		wrong[d.Target] = true
	}
	stored, err := p.stored(ctx)
	if err != nil {
		return c, err
	}
	mine := map[tables.Key]bool{}
	for _, k := range keys {
		now, half := stored[k], false
		for _, t := range p.role.Message(tables.Key{PartitionKey: k.partition, RowKey: k.row}, p.before[k],
			// A change touches up to two targets, the old and the new. Both are the item's own; a wrong target of no item is
			// an orphan.
			p.after[k]).Targets {
			half = half || wrong[t]
			mine[t] = true
		}
		done := sameState(now, p.after[k])
		switch {
		// The record itself comes first: if it is damaged, it does not matter what the index says.
		case !done && !sameState(now, p.before[k]) && now != nil:
			c.Changed = append(c.Changed, k)
		case !done && now == nil && p.before[k] != nil:
			c.Lost = append(c.Lost, k)
		case half:
			c.Both = append(c.Both, k)
		case done:
			c.Moved = append(c.Moved, k)
		default:
			c.Kept = append(c.Kept, k)
		}
	}
	if atEnd {
		// Before the end a target of another item in work may differ for a moment.
		for _, d := range differences {
			if !mine[d.Target] {
				c.Orphans = append(c.Orphans, d.Target.PartitionKey+"/"+d.Target.RowKey)
			}
		}
	}
	return c, nil
}

// stored reads the source.
func (p *indexPattern) stored(ctx context.Context) (map[entityKey]*tables.Entity, error) {
	all := map[entityKey]*tables.Entity{}
	for e, err := range p.source.Query().AllowScan().All(ctx) {
		if err != nil {
			return nil, err
		}
		all[entityKey{e.PartitionKey, e.RowKey}] = &e
	}
	return all, nil
}

func sameState(a, b *tables.Entity) bool {
	if a == nil || b == nil {
		return a == b
	}
	return reflect.DeepEqual(a.Properties, b.Properties)
}

// converged: leftovers of workers that slept are swept.
func (p *indexPattern) converged(ctx context.Context) (bool, error) {
	differences, err := p.role.Verify(ctx)
	return len(differences) == 0, err
}

func (p *indexPattern) conclude(ctx context.Context, r *run) (problems []string, summary string, err error) {
	differences, err := p.role.Verify(ctx)
	if err != nil {
		return nil, "", err
	}
	for _, d := range differences {
		problems = append(problems, fmt.Sprintf("the target (%q, %q) is %s", d.Target.PartitionKey, d.Target.RowKey, d.What))
	}
	stored, err := p.stored(ctx)
	if err != nil {
		return nil, "", err
	}
	var wrong []entityKey
	for k := range p.after {
		if !sameState(stored[k], p.after[k]) {
			wrong = append(wrong, k)
		}
	}
	// Counted by a scan of its own, not by the role: the summary should not repeat what Verify believes.
	targets, err := tables.New[tables.Entity](p.storage.Tables, p.to)
	if err != nil {
		return nil, "", err
	}
	n, err := targets.Query().AllowScan().Count(ctx)
	return append(problems, problem("records are not as they should be", wrong)...),
		fmt.Sprintf("%d records, %d entities in the other table (%s), which agree", len(stored), n, p.kindOfIndex), err
}

// sweepIndexEvery is the longest pause between two sweeps of a worker of the demonstration.
const sweepIndexEvery = time.Second

// RunTableIndexWorker works on the messages of the demonstrations of the table-index role until ctx is done: it makes
// the change that a message asks for, then brings the targets up to date. It also sweeps.
func RunTableIndexWorker(ctx context.Context, storage *workers.Storage, app *workers.App, s WorkerSettings) error {
	w, err := openIndexWorker(storage, s)
	if err != nil {
		return err
	}
	workers.Queue(app, "table-index", func(ctx context.Context, m *workers.Message[indexCommand]) error {
		k := entityKey{m.Body.PartitionKey, m.Body.RowKey}
		if err := w.change(ctx, k); err != nil {
			return err
		}
		targets, err := w.targets(k)
		if err != nil {
			return err
		}
		return w.role.Handle(ctx, tables.Key{PartitionKey: k.partition, RowKey: k.row}, targets)
	}, s.Options()...)
	return runSweeping(ctx, storage, app, s, sweepIndexEvery, func(ctx context.Context) { _, _ = w.role.Sweep(ctx) })
}

// recordStates are a worker's table and the records, whose states are computed when they are asked for: a worker that
// is killed after some messages needs few.
type recordStates struct {
	source  *tables.Table[tables.Entity]
	records map[entityKey]records.Term
}

func openRecords(storage *workers.Storage, s WorkerSettings) (r recordStates, err error) {
	if r.source, err = tables.New[tables.Entity](storage.Tables, s.Current); err != nil {
		return r, err
	}
	terms, err := records.Load()
	if err != nil {
		return r, err
	}
	r.records = make(map[entityKey]records.Term, len(terms))
	for _, t := range terms {
		r.records[entityKey{t.PartitionKey(), t.RowKey()}] = t
	}
	return r, nil
}

// states returns a record before and after its change.
func (r *recordStates) states(k entityKey) (before, after *tables.Entity, err error) {
	t, ok := r.records[k]
	if !ok {
		return nil, nil, fmt.Errorf("there is no record %v", k)
	}
	e, err := newEntity(t)
	if err != nil {
		return nil, nil, err
	}
	return states(e)
}

// change makes the change of a record.
func (r *recordStates) change(ctx context.Context, k entityKey) error {
	_, after, err := r.states(k)
	if err != nil {
		return err
	}
	return applyState(ctx, r.source, k, after)
}

// indexWorker has the tables and the role of a worker.
type indexWorker struct {
	recordStates
	role   *tableindex.Role
	target *tables.Table[tables.Entity]
}

func openIndexWorker(storage *workers.Storage, s WorkerSettings) (*indexWorker, error) {
	role, err := tableindex.New(storage, s.Current, s.Archive, projectionOf(s.Kind))
	if err != nil {
		return nil, err
	}
	w := &indexWorker{role: role}
	if w.recordStates, err = openRecords(storage, s); err != nil {
		return nil, err
	}
	w.target, err = tables.New[tables.Entity](storage.Tables, s.Archive)
	return w, err
}

// targets returns the targets that the change of a record concerns.
func (w *indexWorker) targets(k entityKey) ([]tables.Key, error) {
	before, after, err := w.states(k)
	if err != nil {
		return nil, err
	}
	return w.role.Message(tables.Key{PartitionKey: k.partition, RowKey: k.row}, before, after).Targets, nil
}

func (p *indexPattern) words() words {
	w := words{item: "records that are to be inserted, changed or deleted",
		done:   "the record and the other table have the change",
		notYet: "neither of them has the change",
		lost:   "the record is gone, and should not be", orphaned: "entities of the other table that fit no record",
		changed: "the record is neither as before nor as after its change"}
	w.half = map[string]string{IndexCopies: "the record and its copy disagree",
		IndexLists: "the record and a list of keys disagree", IndexCounts: "the records and a count disagree"}[p.kindOfIndex]
	return w
}
