package tableindex

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"

	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/tables"
	"github.com/lazuli-storage/lazuli/workers"
)

// The moments around the effects of the role.
var (
	pointBeforeRead   = fault.Declare("table-index/before-read")
	pointBeforePut    = fault.Declare("table-index/before-put")
	pointAfterPut     = fault.Declare("table-index/after-put")
	pointBeforeDelete = fault.Declare("table-index/before-delete")
	pointAfterDelete  = fault.Declare("table-index/after-delete")
)

// Points are the steps at which a demonstration kills the role.
func Points() []string {
	return []string{string(pointBeforeRead), string(pointBeforePut), string(pointAfterPut), string(pointBeforeDelete),
		string(pointAfterDelete)}
}

// Role keeps a target table in step with a source table.
type Role struct {
	source, target *Table
	projection     Projection
}

// New returns the role that keeps the table to in step with the table from. The table to must have no other writer.
func New(storage *workers.Storage, from, to string, p Projection) (*Role, error) {
	if storage.Tables == nil {
		return nil, errors.New("tableindex: the connection string has no table endpoint")
	}
	if p.Target == nil || p.Build == nil || p.Sources == nil {
		return nil, errors.New("tableindex: the projection is not complete")
	}
	source, err := tables.New[tables.Entity](storage.Tables, from)
	if err != nil {
		return nil, fmt.Errorf("tableindex: %w", err)
	}
	target, err := tables.New[tables.Entity](storage.Tables, to, tables.CreateIfMissing())
	if err != nil {
		return nil, fmt.Errorf("tableindex: %w", err)
	}
	p.Target = ofEntities(p.Target)
	return &Role{source, target, p}, nil
}

// Register keeps the target in step by the changes of the source, including the existing entities, and sweeps every
// hour. It works on Lazuli only; see [workers.InOrder].
func (r *Role) Register(app *workers.App, name string, options ...workers.TableOption) *workers.Function {
	f := app.Table(name, r.changed,
		append([]workers.TableOption{workers.WithTable(r.source.Name()), workers.InOrder(), workers.WithExisting(true)},
			options...)...)
	app.Timer(name+"-sweep", func(ctx context.Context, _ workers.TimerInfo) error {
		_, err := r.Sweep(ctx)
		return err
	}, workers.WithSchedule("0 30 * * * *"))
	return f
}

func (r *Role) changed(ctx context.Context, c workers.TableChange) error {
	var states []*tables.Entity
	for _, b := range [][]byte{c.Before, c.Entity} {
		if len(b) == 0 {
			continue
		}
		e := &tables.Entity{}
		if err := e.UnmarshalJSON(b); err != nil {
			return workers.Permanent(err)
		}
		states = append(states, e)
	}
	return r.Handle(ctx, tables.Key{PartitionKey: c.PartitionKey, RowKey: c.RowKey}, r.targets(states...))
}

// targets returns the targets of the states, without duplicates.
func (r *Role) targets(states ...*tables.Entity) (all []tables.Key) {
	seen := map[tables.Key]bool{}
	for _, e := range states {
		if e == nil {
			continue
		}
		if k, ok := r.projection.Target(e); ok && !seen[k] {
			seen[k] = true
			all = append(all, k)
		}
	}
	return all
}

// Message asks, in a queue, for the targets of an entity to be brought up to date.
type Message struct {
	PartitionKey, RowKey string
	// Targets are those of the states before and after the change.
	Targets []tables.Key
}

// Message returns the message for a change of the entity under key, which must be put before the change: after the
// change, a crash in between would lose it. A message that is handled before its change has no effect. Put it with a
// delay, and again if the change may have been late. before and after may be nil.
func (r *Role) Message(key tables.Key, before, after *tables.Entity) Message {
	return Message{key.PartitionKey, key.RowKey, r.targets(before, after)}
}

// RegisterQueue keeps the target in step by messages.
func (r *Role) RegisterQueue(app *workers.App, name string, options ...workers.QueueOption) *workers.Function {
	return workers.Queue(app, name, func(ctx context.Context, m *workers.Message[Message]) error {
		return r.Handle(ctx, tables.Key{PartitionKey: m.Body.PartitionKey, RowKey: m.Body.RowKey}, m.Body.Targets)
	}, options...)
}

// Handle brings the targets of the entity under key up to date.
func (r *Role) Handle(ctx context.Context, key tables.Key, targets []tables.Key) error {
	for _, k := range targets {
		if err := r.reconcile(ctx, k, key); err != nil {
			return fmt.Errorf("tableindex: target (%q, %q): %w", k.PartitionKey, k.RowKey, err)
		}
	}
	return nil
}

// maxRaces is the maximum number of attempts to write a target that other writers change.
const maxRaces = 100

// reconcile updates one target; the package comment explains the order of the steps.
func (r *Role) reconcile(ctx context.Context, target, key tables.Key) error {
	for range maxRaces {
		done, err := r.try(ctx, target, key)
		if done || err != nil {
			return err
		}
	}
	return errors.New("other writers keep changing it")
}

// try returns false if another writer was faster.
func (r *Role) try(ctx context.Context, target, key tables.Key) (done bool, err error) {
	if err := fault.Point(pointBeforeRead); err != nil {
		return false, err
	}
	// The target is read before the source: the write is refused if another attempt has written what it read later.
	old, err := find(ctx, r.target, target)
	if err != nil {
		return false, err
	}
	now, err := r.belonging(ctx, target, key)
	if err != nil {
		return false, err
	}
	next, err := r.projection.Build(ctx, r.source, target, old, key, now)
	if err != nil {
		return false, err
	}
	if next == nil {
		return r.remove(ctx, old)
	}
	// The target is written even if nothing in it changes: its new ETag makes attempts fail that have read the source
	// earlier.
	if err := fault.Point(pointBeforePut); err != nil {
		return false, err
	}
	if old == nil {
		next.ETag = ""
		err = r.target.Insert(ctx, next)
	} else {
		next.ETag = old.ETag
		err = r.target.Replace(ctx, next)
	}
	if err == nil {
		return true, fault.Point(pointAfterPut)
	}
	if errors.Is(err, tables.ErrExists) || errors.Is(err, tables.ErrChanged) || errors.Is(err, tables.ErrNotFound) {
		return false, nil
	}
	return false, err
}

func (r *Role) remove(ctx context.Context, old *tables.Entity) (done bool, err error) {
	if old == nil {
		return true, nil
	}
	if err := fault.Point(pointBeforeDelete); err != nil {
		return false, err
	}
	err = r.target.Delete(ctx, old)
	switch {
	case err == nil:
		return true, fault.Point(pointAfterDelete)
	case errors.Is(err, tables.ErrNotFound):
		return true, nil
	case errors.Is(err, tables.ErrChanged):
		return false, nil
	}
	return false, err
}

// belonging returns the entity of the source under key if it belongs to the target.
func (r *Role) belonging(ctx context.Context, target, key tables.Key) (*tables.Entity, error) {
	if key == (tables.Key{}) { // Counts that have recorded no sources.
		return nil, nil
	}
	e, err := find(ctx, r.source, key)
	if e == nil || err != nil {
		return nil, err
	}
	if k, ok := r.projection.Target(e); !ok || k != target {
		return nil, nil
	}
	return e, nil
}

// find reads an entity. It returns nil if the entity does not exist.
func find(ctx context.Context, t *Table, k tables.Key) (*tables.Entity, error) {
	e, err := t.Get(ctx, k)
	if errors.Is(err, tables.ErrNotFound) || errors.Is(err, tables.ErrTableNotFound) {
		return nil, nil
	}
	return &e, err
}

// Sweep scans the target and corrects entities that do not match the source, which delayed writers can leave. It
// returns their number.
func (r *Role) Sweep(ctx context.Context) (wrong int, err error) {
	for e, err := range r.target.Query().AllowScan().All(ctx) {
		if errors.Is(err, tables.ErrTableNotFound) {
			return 0, nil
		}
		if err != nil {
			return wrong, fmt.Errorf("tableindex: sweep: %w", err)
		}
		key := tables.Key{PartitionKey: e.PartitionKey, RowKey: e.RowKey}
		sources, err := r.projection.Sources(&e)
		if err != nil {
			return wrong, fmt.Errorf("tableindex: sweep: %w", err)
		}
		for _, source := range sources {
			agrees, err := r.agrees(ctx, key, &e, source)
			if err != nil {
				return wrong, fmt.Errorf("tableindex: sweep: %w", err)
			}
			if agrees {
				continue
			}
			wrong++
			slog.DebugContext(ctx, "tableindex: sweeping", "table", r.target.Name(), "partition_key", key.PartitionKey,
				"row_key", key.RowKey)
			if err := r.reconcile(ctx, key, source); err != nil {
				return wrong, fmt.Errorf("tableindex: sweep: %w", err)
			}
		}
	}
	return wrong, nil
}

// agrees reports whether a target matches its source.
func (r *Role) agrees(ctx context.Context, target tables.Key, e *tables.Entity, key tables.Key) (bool, error) {
	now, err := r.belonging(ctx, target, key)
	if err != nil {
		return false, err
	}
	next, err := r.projection.Build(ctx, r.source, target, e, key, now)
	return next != nil && reflect.DeepEqual(next.Properties, e.Properties), err
}

// Difference is a target that does not match the source.
type Difference struct {
	Target tables.Key
	// What is "missing", "extra" or "different".
	What string
}

// Verify builds the target in memory from a scan of the source and compares it with the stored one. During writes,
// differences may be changes in progress.
func (r *Role) Verify(ctx context.Context) ([]Difference, error) {
	want := map[tables.Key]*tables.Entity{}
	for e, err := range r.source.Query().AllowScan().All(ctx) {
		if err != nil {
			return nil, fmt.Errorf("tableindex: verify: %w", err)
		}
		k, ok := r.projection.Target(&e)
		if !ok || r.projection.Whole && want[k] != nil {
			continue
		}
		next, err := r.projection.Build(ctx, r.source, k, want[k], tables.Key{PartitionKey: e.PartitionKey, RowKey: e.RowKey},
			&e)
		if err != nil {
			return nil, fmt.Errorf("tableindex: verify: %w", err)
		}
		want[k] = next
	}
	var all []Difference
	for e, err := range r.target.Query().AllowScan().All(ctx) {
		if errors.Is(err, tables.ErrTableNotFound) { // Nothing was written yet.
			break
		}
		if err != nil {
			return nil, fmt.Errorf("tableindex: verify: %w", err)
		}
		k := tables.Key{PartitionKey: e.PartitionKey, RowKey: e.RowKey}
		w := want[k]
		// What is left in the end is missing in the target.
		delete(want, k)
		switch {
		case w == nil && !empty(&e):
			all = append(all, Difference{k, "extra"})
		case w != nil && !reflect.DeepEqual(w.Properties, e.Properties):
			all = append(all, Difference{k, "different"})
		}
	}
	for k := range maps.Keys(want) {
		all = append(all, Difference{k, "missing"})
	}
	return all, nil
}

// empty reports whether a target is an empty list or a count of zero, which is kept.
func empty(e *tables.Entity) bool {
	switch n := e.Properties["Count"].(type) {
	case int32:
		return n == 0 && e.Properties[SourceRow] == nil
	case int64:
		return n == 0 && e.Properties[SourceRow] == nil
	}
	return false
}
