// Package design has the demonstrations of the patterns of table design that need no role: each writes entities for an
// item by one transaction or several, whose order keeps what readers must never see from being seen.
package design

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/rig"
	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/tables"
	"github.com/lazuli-storage/lazuli/workers"
)

// A Design is a pattern of the table design guide that has no role: a way to lay out entities, and the order in which
// they are written. Its demonstration makes changes to items, each on request of a message. Two things must hold:
//
//   - At any moment, also right after a worker was killed, the entities of an item are as they are between two writes
//     of its change: no transaction is ever half done, and no write is done before the one that precedes it.
//   - At the end, the query that the pattern exists for returns what the change made of each item.
type Design struct {
	// Name is the verb, and the first part of the names of its fault points. Short and Long are its help.
	Name, Short, Long string
	// kinds are what happens to items: insert, change, delete.
	kinds []string
	// writes returns the entities of an item in a version, as the writes that make them, in order. A deletion does the
	// same backwards.
	writes func(n int, version int64) []write
	// ask does the query that the pattern exists for, and answer is what it should return of an item; version is 0 for
	// one that was deleted.
	ask    func(ctx context.Context, q *Tables, n int) (string, error)
	answer func(n int, version int64) string
}

// write is one request: what it puts and removes is in one partition, and is written in one transaction.
type write struct {
	// step names the fault points before and after it.
	step string
	// table is the suffix of the table's name.
	table       string
	put, remove []tables.Entity
	// merge keeps the other properties of entities that exist. drop removes by deleting the whole table.
	merge, drop bool
}

// Item is an item with what happens to it: the body of a message.
type Item struct {
	Kind string
	N    int
}

// versions returns the version of an item before and after what happens to it; 0 means that it does not exist.
func versions(kind string) (before, after int64) {
	switch kind {
	case "insert":
		return 0, 1
	case "delete":
		return 1, 0
	}
	return 1, 2
}

func (d *Design) item(n int) Item { return Item{d.kinds[n%len(d.kinds)], n} }

func (i Item) key() rig.Key { return rig.Key{Partition: i.Kind, Row: fmt.Sprintf("%05d", i.N)} }

// Change returns the writes of what happens to an item: those of the new version, then the removal of what it does not
// have any more.
func (d *Design) Change(i Item) (list []write) {
	before, after := versions(i.Kind)
	// kept are the places that the new version writes. An entity of the old version at such a place is replaced, not
	// removed; removing it would delete new data.
	old, kept := d.versionWrites(i.N, before), designState{}
	if after != 0 {
		list = d.writes(i.N, after)
	}
	for _, w := range list {
		kept.apply(w)
	}
	var rest []write
	// Removal goes backwards through the steps of the writing: what points to an entity goes before the entity, so that a
	// reader in between finds no pointer to nothing.
	for _, o := range slices.Backward(old) {
		gone := slices.DeleteFunc(slices.Clone(o.put),
			func(e tables.Entity) bool { return kept[placeOf(o.table, &e)] != nil })
		if len(gone) == 0 {
			continue
		}
		same := slices.IndexFunc(list, func(w write) bool {
			return w.table == o.table && w.put[0].PartitionKey == gone[0].PartitionKey
		})
		// A removal in a partition that the new version writes goes into the same transaction; alone it would let a reader
		// see both versions, or neither.
		if same >= 0 {
			list[same].remove = append(list[same].remove, gone...)
		} else {
			rest = append(rest, write{step: o.step, table: o.table, remove: gone, drop: o.drop})
		}
	}
	return append(list, rest...)
}

func (d *Design) versionWrites(n int, version int64) []write {
	if version == 0 {
		return nil
	}
	return d.writes(n, version)
}

// place is the address of an entity.
type place struct{ table, partition, row string }

func placeOf(table string, e *tables.Entity) place { return place{table, e.PartitionKey, e.RowKey} }

// designState are the entities of an item: properties by address.
type designState map[place]map[string]any

func (s designState) apply(w write) {
	for _, e := range w.remove {
		delete(s, placeOf(w.table, &e))
	}
	for _, e := range w.put {
		at := placeOf(w.table, &e)
		if s[at] == nil || !w.merge {
			s[at] = map[string]any{}
		}
		maps.Copy(s[at], e.Properties)
	}
}

// states returns the states of an item's entities between the writes of its change, the first and the last included.
func (d *Design) states(i Item) (list []designState) {
	now := designState{}
	add := func() {
		// A copy, since the next write changes the properties in place.
		copied := designState{}
		for at, properties := range now {
			copied[at] = maps.Clone(properties)
		}
		list = append(list, copied)
	}
	before, _ := versions(i.Kind)
	for _, w := range d.versionWrites(i.N, before) {
		now.apply(w)
	}
	add()
	for _, w := range d.Change(i) {
		now.apply(w)
		add()
	}
	return list
}

// itemProperty is the property by which an entity names its item.
const itemProperty = "Item"

// row returns an entity of item n.
func row(n int, partition, rowKey string, properties map[string]any) tables.Entity {
	e := tables.Entity{PartitionKey: partition, RowKey: rowKey, Properties: map[string]any{itemProperty: int64(n)}}
	maps.Copy(e.Properties, properties)
	return e
}

// Tables are the tables of a run, which have a name in common.
type Tables struct {
	storage *workers.Storage
	prefix  string
}

func (t *Tables) open(suffix string) (*tables.Table[tables.Entity], error) {
	return tables.New[tables.Entity](t.storage.Tables, t.prefix+suffix, tables.CreateIfMissing())
}

// do does a write. Whatever a repetition finds done already is not an error.
func (t *Tables) do(ctx context.Context, w write) error {
	table, err := t.open(w.table)
	if err != nil {
		return err
	}
	if w.drop && len(w.remove) > 0 {
		return table.Drop(ctx)
	}
	tx := table.Begin()
	for _, e := range w.put {
		if w.merge {
			tx.InsertOrMerge(&e)
		} else {
			tx.InsertOrReplace(&e)
		}
	}
	for _, e := range w.remove {
		tx.Delete(&e)
	}
	// A transaction that removes what is gone was done before as a whole.
	if err := tx.Submit(ctx); err != nil && !errors.Is(err, tables.ErrNotFound) {
		return err
	}
	return nil
}

// query returns the entities of a query, in order.
func (t *Tables) query(ctx context.Context, conditions ...tables.Expr) (list []tables.Entity, err error) {
	table, err := t.open("")
	if err != nil {
		return nil, err
	}
	return readAll(ctx, table.Query(conditions...))
}

// names returns the names of the entities of a query, in order.
func (t *Tables) names(ctx context.Context, conditions ...tables.Expr) (string, error) {
	list, err := t.query(ctx, conditions...)
	return joined(list, "Name"), err
}

func readAll(ctx context.Context, q *tables.Query[tables.Entity]) (list []tables.Entity, err error) {
	for e, err := range q.All(ctx) {
		// A design's second table is made by its first write.
		if errors.Is(err, tables.ErrTableNotFound) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	return list, nil
}

// Demonstrate runs the demonstration of the design.
func (d *Design) Demonstrate(ctx context.Context, c rig.Config) (*rig.Report, error) {
	return rig.Demonstrate(ctx, c, func(storage *workers.Storage, id string) (rig.Pattern, error) {
		if storage.Queues == nil || storage.Tables == nil {
			return nil, errors.New("the connection string must name a queue and a table endpoint")
		}
		return &Pattern{Design: d, tables: Tables{storage, "LazuliDemo" + id}, queue: "lazuli-demo-" + id}, nil
	})
}

// Points returns what a run visits by default.
func (d *Design) Points() []string { return rig.PointsOf(&Pattern{Design: d}) }

// Own returns the fault points of the design.
func (d *Design) Own() (points []string) {
	for n := range d.kinds {
		for _, w := range d.Change(d.item(n)) {
			for _, moment := range []string{"before-", "after-"} {
				if p := d.Name + "/" + moment + w.step; !slices.Contains(points, p) {
					points = append(points, p)
				}
			}
		}
	}
	return points
}

func init() {
	for i := range Designs {
		for _, p := range Designs[i].Own() {
			fault.Declare(fault.Name(p))
		}
	}
}

// Pattern is a run of the demonstration of a design.
type Pattern struct {
	*Design
	tables Tables
	queue  string
	items  int
	torn   []rig.Key // items that were seen in no state between two writes
}

func (p *Pattern) Points() []string {
	return append(p.Own(), "workers/before-delete-message", "workers/after-delete-message")
}
func (p *Pattern) HoldUp() string                          { return p.Own()[0] }
func (p *Pattern) Concurrency() int                        { return 8 }
func (p *Pattern) Plan(k rig.Kill) string                  { return k.String() }
func (p *Pattern) Kind(k rig.Key) string                   { return k.Partition }
func (p *Pattern) Converged(context.Context) (bool, error) { return true, nil }
func (p *Pattern) Settings() rig.WorkerSettings {
	return rig.WorkerSettings{Queue: p.queue, Current: p.tables.prefix, Kind: p.Name}
}

// Passes counts the writes before and after which a worker comes to a point.
func (p *Pattern) Passes(point string, n int) int {
	// One less than the kind's share: the round may have drawn fewer of it.
	each, hits := max(0, n/len(p.kinds)-1), 0
	for i := range p.kinds {
		for _, w := range p.Change(p.item(i)) {
			if point == p.Name+"/before-"+w.step || point == p.Name+"/after-"+w.step {
				hits += each
			}
		}
	}
	if hits == 0 { // a point of the runtime
		hits = n
	}
	return max(1, hits)
}

// tableNames returns the suffixes of all tables.
func (p *Pattern) tableNames() []string {
	names := map[string]bool{"": true}
	for n := range p.items {
		for _, w := range p.writes(n, 1) {
			names[w.table] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

func (p *Pattern) Create(ctx context.Context) error {
	table, err := p.tables.open("")
	if err != nil {
		return err
	}
	return table.Create(ctx)
}

func (p *Pattern) Remove(ctx context.Context) (err error) {
	for _, name := range p.tableNames() {
		table, e := p.tables.open(name)
		if e == nil {
			e = table.Drop(ctx)
		}
		err = errors.Join(err, e)
	}
	return err
}

func (p *Pattern) Load(ctx context.Context, r *rig.Run) (work []rig.Key, err error) {
	if p.items = r.Records; p.items == 0 {
		p.items = rig.RoundItems * r.Rounds()
	}
	for n := range p.items {
		work = append(work, p.item(n).key())
	}
	r.Say.Update("loading %d items", p.items)
	if err := p.Reset(ctx, work); err != nil {
		return nil, fmt.Errorf("load the items: %w", err)
	}
	r.Report.Records, r.Report.Old = p.items, p.items
	r.Say.Line("loaded %d items; each is to be inserted, changed or deleted", p.items)
	return work, nil
}

// itemOf returns the item that a key names.
func (p *Pattern) itemOf(k rig.Key) (i Item, err error) {
	_, err = fmt.Sscanf(k.Row, "%d", &i.N)
	return p.item(i.N), err
}

// each calls do for the items of keys, several at a time.
func (p *Pattern) each(ctx context.Context, keys []rig.Key, do func(context.Context, Item) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(rig.Parallel)
	for _, k := range keys {
		i, err := p.itemOf(k)
		if err != nil {
			return err
		}
		g.Go(func() error { return do(ctx, i) })
	}
	return g.Wait()
}

// Reset makes items as they are before their change.
func (p *Pattern) Reset(ctx context.Context, keys []rig.Key) error {
	return p.each(ctx, keys, func(ctx context.Context, i Item) error {
		before, after := versions(i.Kind)
		for _, w := range slices.Backward(p.versionWrites(i.N, after)) {
			for _, e := range w.put {
				if err := p.tables.do(ctx, write{table: w.table, remove: []tables.Entity{e}, drop: w.drop}); err != nil {
					return err
				}
			}
		}
		for _, w := range p.versionWrites(i.N, before) {
			if err := p.tables.do(ctx, w); err != nil {
				return err
			}
		}
		return nil
	})
}

func (p *Pattern) Message(k rig.Key) ([]byte, error) {
	i, err := p.itemOf(k)
	if err != nil {
		return nil, err
	}
	return json.Marshal(i)
}

// read returns the entities of all items.
func (p *Pattern) read(ctx context.Context) (map[int64]designState, error) {
	all := map[int64]designState{}
	for _, name := range p.tableNames() {
		table, err := p.tables.open(name)
		if err != nil {
			return nil, err
		}
		list, err := readAll(ctx, table.Query().AllowScan())
		if err != nil {
			return nil, err
		}
		for _, e := range list {
			n, _ := e.Properties[itemProperty].(int64)
			if all[n] == nil {
				all[n] = designState{}
			}
			all[n][placeOf(name, &e)] = e.Properties
		}
	}
	return all, nil
}

// Census looks again if an item is in no state between two writes: what a killed worker had sent may be executed while
// the tables are read.
func (p *Pattern) Census(ctx context.Context, keys []rig.Key, _ bool) (c rig.Census, err error) {
	for try := 1; ; try++ {
		if c, err = p.look(ctx, keys); err != nil || len(c.Changed)+len(c.Lost) == 0 || try == rig.LateWrites {
			p.torn = append(p.torn, c.Changed...)
			return c, err
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func (p *Pattern) look(ctx context.Context, keys []rig.Key) (c rig.Census, err error) {
	all, err := p.read(ctx)
	if err != nil {
		return c, err
	}
	for _, k := range keys {
		i, err := p.itemOf(k)
		if err != nil {
			return c, err
		}
		states, now := p.states(i), all[int64(i.N)]
		if now == nil {
			now = designState{}
		}
		at := -1
		for j, s := range states { // the last that fits
			if reflect.DeepEqual(s, now) {
				at = j
			}
		}
		switch {
		case at == len(states)-1:
			c.Moved = append(c.Moved, k)
		case at == 0:
			c.Kept = append(c.Kept, k)
		case at > 0:
			c.Both = append(c.Both, k)
		case len(now) == 0:
			c.Lost = append(c.Lost, k)
		default:
			c.Changed = append(c.Changed, k)
			// More entities than any state has: one was written twice, under two keys.
			if !slices.ContainsFunc(states, func(s designState) bool { return len(s) >= len(now) }) {
				c.Surplus = append(c.Surplus, k)
			}
		}
	}
	return c, nil
}

func (p *Pattern) Conclude(ctx context.Context, r *rig.Run) (problems []string, summary string, err error) {
	answers := make([]string, p.items)
	if err := p.each(ctx, r.Work, func(ctx context.Context, i Item) (err error) {
		answers[i.N], err = p.ask(ctx, &p.tables, i.N)
		return err
	}); err != nil {
		return nil, "", err
	}
	// The query of the pattern is asked, not the table read: what counts is that a user of the pattern finds the item.
	var wrong []rig.Key
	for n, got := range answers {
		i := p.item(n)
		if _, after := versions(i.Kind); got != p.answerTo(n, after) {
			wrong = append(wrong, i.key())
		}
	}
	all, err := p.read(ctx)
	if err != nil {
		return nil, "", err
	}
	entities := 0
	for n, s := range all {
		entities += len(s)
		// Items outside the run's range come from a worker that wrote under a wrong key; no query of a known item would
		// find them.
		if n < 0 || n >= int64(p.items) {
			problems = append(problems, fmt.Sprintf("there are entities of an unknown item, %d", n))
		}
	}
	return slices.Concat(problems, rig.Problem("items were seen half written", p.torn),
			rig.Problem("items are not found as they should be", wrong)),
		fmt.Sprintf(
			"%d items, %d entities. No write was seen half done or out of order; the query of the pattern finds each "+
				"item as it should be", p.items, entities), nil
}

func (d *Design) answerTo(n int, version int64) string {
	if version == 0 {
		return ""
	}
	return d.answer(n, version)
}

// RunWorker works on the messages of the demonstration of a design until ctx is done.
func RunWorker(ctx context.Context, storage *workers.Storage, app *workers.App, s rig.WorkerSettings) error {
	return runDesign(ctx, storage, app, s,
		func(ctx context.Context, d *Design, t *Tables, m *workers.Message[Item]) error {
			return d.Steps(ctx, t, d.Change(m.Body))
		})
}

// Steps does writes in turn.
func (d *Design) Steps(ctx context.Context, t *Tables, list []write) error {
	for _, w := range list {
		if err := d.step(w, func() error { return t.do(ctx, w) }); err != nil {
			return err
		}
	}
	return nil
}

// step does a write between its fault points.
func (d *Design) step(w write, do func() error) error {
	if err := fault.Point(fault.Name(d.Name + "/before-" + w.step)); err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	return fault.Point(fault.Name(d.Name + "/after-" + w.step))
}

func runDesign(ctx context.Context, storage *workers.Storage, app *workers.App, s rig.WorkerSettings,
	do func(context.Context, *Design, *Tables, *workers.Message[Item]) error) error {
	n := slices.IndexFunc(Designs, func(d Design) bool { return d.Name == s.Kind })
	if n < 0 {
		return fmt.Errorf("there is no pattern %q", s.Kind)
	}
	t := &Tables{storage, s.Current}
	workers.Queue(app, "pattern", func(ctx context.Context, m *workers.Message[Item]) error {
		return do(ctx, &Designs[n], t, m)
	}, s.Options()...)
	return app.Run(ctx)
}

func (p *Pattern) Words() rig.Words {
	return rig.Words{Item: "items that are to be inserted, changed or deleted", Done: "all writes are there, and complete",
		NotYet: "no write is there", Half: "some of the writes are there, each complete and in order",
		Lost:    "all entities of the item are gone, and should not be",
		Changed: "a write is there in part, or out of order: readers see what should never be"}
}
