// Package index has the demonstrations of the table-index role: a second table keeps copies, lists of keys or counts of
// the records of a first one.
package index

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
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/rig"
	"github.com/lazuli-storage/lazuli/tables"
	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/roles/tableindex"
)

// The kinds of the table-index role that have demonstrations.
const (
	Copies = "copies"
	Lists  = "lists"
	Counts = "counts"
)

// RunCopies runs the demonstration of an inter-partition secondary index: copies of records by party.
func RunCopies(ctx context.Context, c rig.Config) (*rig.Report, error) {
	return rig.Demonstrate(ctx, c, open(Copies))
}

// RunLists runs the demonstration of index entities: lists of keys by state and party.
func RunLists(ctx context.Context, c rig.Config) (*rig.Report, error) {
	return rig.Demonstrate(ctx, c, open(Lists))
}

// RunCounts runs the demonstration of a materialised view: counts by state and party.
func RunCounts(ctx context.Context, c rig.Config) (*rig.Report, error) {
	return rig.Demonstrate(ctx, c, open(Counts))
}

// Points returns what a run of a kind visits by default.
func Points(kind string) []string { return rig.PointsOf(&Pattern{KindOfIndex: kind}) }

// projectionOf returns what a kind keeps.
func projectionOf(kind string) tableindex.Projection {
	party := func(e *tables.Entity) string {
		text, _ := tables.Value[string](e, "Party")
		return text
	}
	switch kind {
	case Lists:
		return tableindex.Lists(func(e *tables.Entity) (tables.Key, bool) {
			return tables.Key{PartitionKey: e.PartitionKey, RowKey: "party " + party(e)}, true
		})
	case Counts:
		return tableindex.Counts(func(e *tables.Entity) (tables.Key, bool) {
			return tables.Key{PartitionKey: e.PartitionKey, RowKey: "parties"}, true
		}, func(k tables.Key) []tables.Expr { return []tables.Expr{tables.PartitionKey.Eq(k.PartitionKey)} }, party)
	}
	return tableindex.Copies(func(e *tables.Entity) (tables.Key, bool) {
		return tables.Key{PartitionKey: party(e), RowKey: e.PartitionKey + " " + e.RowKey}, true
	})
}

// Pattern changes records, and keeps a table in step with them: an item's key decides whether it is inserted,
// changed or deleted.
type Pattern struct {
	KindOfIndex     string
	Storage         *workers.Storage
	From, to, Queue string
	Source          *tables.Table[tables.Entity]
	role            *tableindex.Role
	Before          map[rig.Key]*tables.Entity // as loaded; nil for an item that is to be inserted
	After           map[rig.Key]*tables.Entity // as it should be; nil for one that is to be deleted
}

func open(kind string) func(*workers.Storage, string) (rig.Pattern, error) {
	return func(storage *workers.Storage, id string) (rig.Pattern, error) {
		if storage.Queues == nil || storage.Tables == nil {
			return nil, errors.New("the connection string must name a queue and a table endpoint")
		}
		p := &Pattern{KindOfIndex: kind, Storage: storage, From: "LazuliDemoTerms" + id, to: "LazuliDemoIndex" + id,
			Queue: "lazuli-demo-" + id}
		var err error
		if p.Source, err = tables.New[tables.Entity](storage.Tables, p.From); err != nil {
			return nil, err
		}
		p.role, err = tableindex.New(storage, p.From, p.to, projectionOf(kind))
		return p, err
	}
}

func (p *Pattern) Points() []string {
	points := tableindex.Points()
	if p.KindOfIndex != Copies { // Lists and counts stay when they are empty.
		points = points[:3]
	}
	return append(points, "workers/before-delete-message", "workers/after-delete-message")
}
func (p *Pattern) HoldUp() string         { return "table-index/before-put" }
func (p *Pattern) Concurrency() int       { return 8 }
func (p *Pattern) Plan(k rig.Kill) string { return k.String() }
func (p *Pattern) Settings() rig.WorkerSettings {
	return rig.WorkerSettings{Queue: p.Queue, Current: p.From, Archive: p.to, Kind: p.KindOfIndex}
}

// passes: of copies, only some items are written or deleted.
func (p *Pattern) Passes(point string, n int) int {
	if p.KindOfIndex == Copies && (strings.HasSuffix(point, "-put") || strings.HasSuffix(point, "-delete")) {
		return max(1, n/2)
	}
	return n
}

func (p *Pattern) Create(ctx context.Context) error {
	for _, name := range []string{p.From, p.to} {
		if _, err := p.Storage.Tables.CreateTable(ctx, name, nil); err != nil {
			return fmt.Errorf("create table %s: %w", name, err)
		}
	}
	return nil
}

func (p *Pattern) Remove(ctx context.Context) (err error) {
	for _, name := range []string{p.From, p.to} {
		if _, e := p.Storage.Tables.DeleteTable(ctx, name, nil); e != nil && !rig.NotFound(e) {
			err = errors.Join(err, fmt.Errorf("delete table %s: %w", name, e))
		}
	}
	return err
}

// kindOfChange says what is to happen to an item.
func kindOfChange(k rig.Key) string {
	h := fnv.New32a()
	h.Write([]byte(k.String()))
	return []string{"insert", "change", "delete"}[h.Sum32()%3]
}

func (p *Pattern) Kind(k rig.Key) string { return kindOfChange(k) }

// states returns a record before and after what happens to it.
func states(e records.Entity) (before, after *tables.Entity, err error) {
	parse := func() *tables.Entity {
		var parsed tables.Entity
		parseErr := parsed.UnmarshalJSON(e.JSON)
		err = errors.Join(err, parseErr)
		return &parsed
	}
	switch kindOfChange(e.Key) {
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

func (p *Pattern) Load(ctx context.Context, r *rig.Run) ([]rig.Key, error) {
	work, err := p.LoadStates(ctx, r)
	if err == nil {
		if err = p.index(ctx, work); err != nil {
			err = fmt.Errorf("make the index of what is there: %w", err)
		}
	}
	return work, err
}

// LoadStates stores the records as they are before the changes, and returns all items.
func (p *Pattern) LoadStates(ctx context.Context, r *rig.Run) (work []rig.Key, err error) {
	n := r.Records
	if n == 0 {
		n = rig.RoundItems * r.Rounds()
	}
	entities, err := records.Entities(n)
	if err != nil {
		return nil, err
	}
	p.Before, p.After = map[rig.Key]*tables.Entity{}, map[rig.Key]*tables.Entity{}
	var stored []tables.Entity
	// A record that is inserted by the run is not stored now; it still is an item of the work.
	for _, e := range entities {
		if p.Before[e.Key], p.After[e.Key], err = states(e); err != nil {
			return nil, err
		}
		if b := p.Before[e.Key]; b != nil {
			stored = append(stored, *b)
		}
		work = append(work, e.Key)
	}
	r.Say.Update("loading %d records", len(stored))
	if err := p.Source.Bulk(ctx, tables.BulkInsert, stored); err != nil {
		return nil, fmt.Errorf("load the records: %w", err)
	}
	r.Report.Records, r.Report.Old = len(entities), len(work)
	r.Say.Line("loaded %d records; %d are to be inserted, changed or deleted", len(stored), len(work))
	return work, nil
}

// index brings the targets of items up to date.
func (p *Pattern) index(ctx context.Context, keys []rig.Key) error {
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex // guards errs
		errs  error
		slots = make(chan struct{}, rig.Parallel)
	)
	for _, k := range keys {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			key := tables.Key{PartitionKey: k.Partition, RowKey: k.Row}
			if err := p.role.Handle(ctx, key, p.role.Message(key, p.Before[k], p.After[k]).Targets); err != nil {
				mu.Lock()
				errs = errors.Join(errs, err)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return errs
}

func (p *Pattern) Message(k rig.Key) ([]byte, error) {
	return json.Marshal(rig.KeyMessage{PartitionKey: k.Partition, RowKey: k.Row})
}

// Reset makes items as they were loaded.
func (p *Pattern) Reset(ctx context.Context, keys []rig.Key) error {
	for _, k := range keys {
		if err := ApplyState(ctx, p.Source, k, p.Before[k]); err != nil {
			return err
		}
	}
	return p.index(ctx, keys)
}

// ApplyState stores or deletes a record.
func ApplyState(ctx context.Context, source *tables.Table[tables.Entity], k rig.Key, state *tables.Entity) error {
	if state != nil {
		copied := *state
		return source.InsertOrReplace(ctx, &copied)
	}
	err := source.DeleteKey(ctx, tables.Key{PartitionKey: k.Partition, RowKey: k.Row})
	if errors.Is(err, tables.ErrNotFound) {
		return nil
	}
	return err
}

func (p *Pattern) Census(ctx context.Context, keys []rig.Key, atEnd bool) (rig.Census, error) {
	var c rig.Census
	differences, err := p.role.Verify(ctx)
	if err != nil {
		return c, err
	}
	wrong := map[tables.Key]bool{}
	for _, d := range differences {
		wrong[d.Target] = true
	}
	stored, err := p.Stored(ctx)
	if err != nil {
		return c, err
	}
	mine := map[tables.Key]bool{}
	for _, k := range keys {
		now, half := stored[k], false
		for _, t := range p.role.Message(tables.Key{PartitionKey: k.Partition, RowKey: k.Row}, p.Before[k],
			// A change touches up to two targets, the old and the new. Both are the item's own; a wrong target of no item is
			// an orphan.
			p.After[k]).Targets {
			half = half || wrong[t]
			mine[t] = true
		}
		done := SameState(now, p.After[k])
		switch {
		// The record itself comes first: if it is damaged, it does not matter what the index says.
		case !done && !SameState(now, p.Before[k]) && now != nil:
			c.Changed = append(c.Changed, k)
		case !done && now == nil && p.Before[k] != nil:
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

// Stored reads the source.
func (p *Pattern) Stored(ctx context.Context) (map[rig.Key]*tables.Entity, error) {
	all := map[rig.Key]*tables.Entity{}
	for e, err := range p.Source.Query().AllowScan().All(ctx) {
		if err != nil {
			return nil, err
		}
		all[rig.Key{Partition: e.PartitionKey, Row: e.RowKey}] = &e
	}
	return all, nil
}

func SameState(a, b *tables.Entity) bool {
	if a == nil || b == nil {
		return a == b
	}
	return reflect.DeepEqual(a.Properties, b.Properties)
}

// converged: leftovers of workers that slept are swept.
func (p *Pattern) Converged(ctx context.Context) (bool, error) {
	differences, err := p.role.Verify(ctx)
	return len(differences) == 0, err
}

func (p *Pattern) Conclude(ctx context.Context, r *rig.Run) (problems []string, summary string, err error) {
	differences, err := p.role.Verify(ctx)
	if err != nil {
		return nil, "", err
	}
	for _, d := range differences {
		problems = append(problems, fmt.Sprintf("the target (%q, %q) is %s", d.Target.PartitionKey, d.Target.RowKey, d.What))
	}
	stored, err := p.Stored(ctx)
	if err != nil {
		return nil, "", err
	}
	var wrong []rig.Key
	for k := range p.After {
		if !SameState(stored[k], p.After[k]) {
			wrong = append(wrong, k)
		}
	}
	// Counted by a scan of its own, not by the role: the summary should not repeat what Verify believes.
	targets, err := tables.New[tables.Entity](p.Storage.Tables, p.to)
	if err != nil {
		return nil, "", err
	}
	n, err := targets.Query().AllowScan().Count(ctx)
	return append(problems, rig.Problem("records are not as they should be", wrong)...),
		fmt.Sprintf("%d records, %d entities in the other table (%s), which agree", len(stored), n, p.KindOfIndex), err
}

// sweepEvery is the longest pause between two sweeps of a worker of the demonstration.
const sweepEvery = time.Second

// RunWorker works on the messages of the demonstrations of the table-index role until ctx is done: it makes
// the change that a message asks for, then brings the targets up to date. It also sweeps.
func RunWorker(ctx context.Context, storage *workers.Storage, app *workers.App, s rig.WorkerSettings) error {
	w, err := openWorker(storage, s)
	if err != nil {
		return err
	}
	workers.Queue(app, "table-index", func(ctx context.Context, m *workers.Message[rig.KeyMessage]) error {
		k := rig.Key{Partition: m.Body.PartitionKey, Row: m.Body.RowKey}
		if err := w.Change(ctx, k); err != nil {
			return err
		}
		targets, err := w.targets(k)
		if err != nil {
			return err
		}
		return w.role.Handle(ctx, tables.Key{PartitionKey: k.Partition, RowKey: k.Row}, targets)
	}, s.Options()...)
	return rig.RunSweeping(ctx, storage, app, s, sweepEvery, func(ctx context.Context) { _, _ = w.role.Sweep(ctx) })
}

// States are a worker's table and the records, whose states are computed when they are asked for: a worker that
// is killed after some messages needs few.
type States struct {
	source  *tables.Table[tables.Entity]
	records map[rig.Key]records.Term
}

func OpenStates(storage *workers.Storage, s rig.WorkerSettings) (r States, err error) {
	if r.source, err = tables.New[tables.Entity](storage.Tables, s.Current); err != nil {
		return r, err
	}
	terms, err := records.Load()
	if err != nil {
		return r, err
	}
	r.records = make(map[rig.Key]records.Term, len(terms))
	for _, t := range terms {
		r.records[rig.Key{Partition: t.PartitionKey(), Row: t.RowKey()}] = t
	}
	return r, nil
}

// states returns a record before and after its change.
func (r *States) states(k rig.Key) (before, after *tables.Entity, err error) {
	t, ok := r.records[k]
	if !ok {
		return nil, nil, fmt.Errorf("there is no record %v", k)
	}
	e, err := records.NewEntity(t)
	if err != nil {
		return nil, nil, err
	}
	return states(e)
}

// Change makes the change of a record.
func (r *States) Change(ctx context.Context, k rig.Key) error {
	_, after, err := r.states(k)
	if err != nil {
		return err
	}
	return ApplyState(ctx, r.source, k, after)
}

// Worker has the tables and the role of a worker.
type Worker struct {
	States
	role   *tableindex.Role
	target *tables.Table[tables.Entity]
}

func openWorker(storage *workers.Storage, s rig.WorkerSettings) (*Worker, error) {
	role, err := tableindex.New(storage, s.Current, s.Archive, projectionOf(s.Kind))
	if err != nil {
		return nil, err
	}
	w := &Worker{role: role}
	if w.States, err = OpenStates(storage, s); err != nil {
		return nil, err
	}
	w.target, err = tables.New[tables.Entity](storage.Tables, s.Archive)
	return w, err
}

// targets returns the targets that the change of a record concerns.
func (w *Worker) targets(k rig.Key) ([]tables.Key, error) {
	before, after, err := w.states(k)
	if err != nil {
		return nil, err
	}
	return w.role.Message(tables.Key{PartitionKey: k.Partition, RowKey: k.Row}, before, after).Targets, nil
}

func (p *Pattern) Words() rig.Words {
	w := rig.Words{Item: "records that are to be inserted, changed or deleted",
		Done:   "the record and the other table have the change",
		NotYet: "neither of them has the change",
		Lost:   "the record is gone, and should not be", Orphaned: "entities of the other table that fit no record",
		Changed: "the record is neither as before nor as after its change"}
	w.Half = map[string]string{Copies: "the record and its copy disagree",
		Lists: "the record and a list of keys disagree", Counts: "the records and a count disagree"}[p.KindOfIndex]
	return w
}
