package index

import (
	"context"
	"errors"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/rig"
	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/tables"
	"github.com/lazuli-storage/lazuli/workers"
)

// Mistakes are those that a worker without the pattern makes. A step that the pattern has too is where it is killed.
var Mistakes = []rig.Mistake{
	{Demonstration: "inter-partition-index", Name: "no-message",
		Does:  "changes the record, deletes the message, then writes the copy",
		Point: "table-index/before-read", Shows: rig.DamageHalf, Run: Naive(withoutMessage),
		Why: "the record has changed, and nothing reminds of its copy: a query by the party gives the old answer"},
	{Demonstration: "inter-partition-index", Name: "old-entry-left", Always: true,
		Does:  "writes the copy under the new party, and forgets the one under the old party",
		Point: "table-index/after-put", Shows: rig.DamageHalf, Run: Naive(oldEntryLeft),
		Why: "the index has two copies of one record: the target of the state before the change must be written too"},
	{Demonstration: "index-entities", Name: "no-message",
		Does:  "changes the record, deletes the message, then writes the lists of keys",
		Point: "table-index/before-read", Shows: rig.DamageHalf, Run: Naive(withoutMessage),
		Why: "the record has changed, and nothing reminds of the lists"},
	{Demonstration: "index-entities", Name: "no-etag",
		Does:  "reads a list, adds a key, and writes the list without the ETag",
		Point: "table-index/before-put", Shows: rig.DamageHalf, Crowd: true,
		Run: Naive(listWithoutCondition),
		Why: "two workers read the same list, and the second one writes over the key of the first"},
	{Demonstration: "materialised-view", Name: "count-by-adding",
		Does:  "adds one to the count for each message",
		Point: "table-index/after-put", Shows: rig.DamageHalf, From: rig.DamageHalf,
		Says: "the count of their state is wrong",
		Run:  Naive(countByAdding),
		Why:  "the message of the killed worker comes again, and is counted again: count the records, not the messages"},
}

// Naive makes a worker of the demonstrations of the table-index role that handles messages by do, and does not
// sweep.
func Naive(do func(context.Context, *Worker, rig.Key, workers.QueueMessage, *workers.Storage,
	rig.WorkerSettings) error) rig.VariantRun {
	return func(ctx context.Context, storage *workers.Storage, app *workers.App, s rig.WorkerSettings) error {
		w, err := openWorker(storage, s)
		if err != nil {
			return err
		}
		workers.Queue(app, "table-index", func(ctx context.Context, m *workers.Message[rig.KeyMessage]) error {
			return do(ctx, w, rig.Key{Partition: m.Body.PartitionKey, Row: m.Body.RowKey}, m.Raw, storage, s)
		}, s.Options()...)
		return app.Run(ctx)
	}
}

// withoutMessage deletes the message between the two writes.
func withoutMessage(ctx context.Context, w *Worker, k rig.Key, m workers.QueueMessage,
	storage *workers.Storage, s rig.WorkerSettings) error {
	if err := w.Change(ctx, k); err != nil {
		return err
	}
	if err := rig.Acknowledge(ctx, storage, s.Queue, m); err != nil {
		return err
	}
	return w.HandleTargets(ctx, k)
}

// oldEntryLeft writes the entity of the new state, and forgets that of the old one.
func oldEntryLeft(ctx context.Context, w *Worker, k rig.Key, _ workers.QueueMessage, _ *workers.Storage,
	_ rig.WorkerSettings) error {
	_, after, err := w.states(k)
	if err != nil {
		return err
	}
	key := tables.Key{PartitionKey: k.Partition, RowKey: k.Row}
	return errors.Join(w.Change(ctx, k), w.handle(ctx, k, w.role.Message(key, nil, after).Targets))
}

// countByAdding adds to a count what a message says.
func countByAdding(ctx context.Context, w *Worker, k rig.Key, _ workers.QueueMessage, _ *workers.Storage,
	_ rig.WorkerSettings) error {
	if err := w.Change(ctx, k); err != nil {
		return err
	}
	return w.add(ctx, k)
}

// listWithoutCondition writes a list whatever another worker has written meanwhile.
func listWithoutCondition(ctx context.Context, w *Worker, k rig.Key, _ workers.QueueMessage, _ *workers.Storage,
	_ rig.WorkerSettings) error {
	if err := w.Change(ctx, k); err != nil {
		return err
	}
	return w.overwrite(ctx, k)
}

func (w *Worker) handle(ctx context.Context, k rig.Key, targets []tables.Key) error {
	return w.role.Handle(ctx, tables.Key{PartitionKey: k.Partition, RowKey: k.Row}, targets)
}

// HandleTargets brings the targets that a record's change concerns up to date.
func (w *Worker) HandleTargets(ctx context.Context, k rig.Key) error {
	targets, err := w.targets(k)
	if err != nil {
		return err
	}
	return w.handle(ctx, k, targets)
}

// add changes the counts by one: a message that comes twice counts twice.
func (w *Worker) add(ctx context.Context, k rig.Key) error {
	before, after, err := w.states(k)
	if err != nil {
		return err
	}
	// The old state loses one and the new one gains one. A map is enough: the two are different pointers, or nil.
	for state, by := range map[*tables.Entity]int64{before: -1, after: 1} {
		if state == nil {
			continue
		}
		party, err := tables.Value[string](state, "Party")
		if err != nil {
			return err
		}
		// Update repeats on a conflict of ETags, so concurrent workers lose no count. The mistake is that a delivery leaves
		// no trace in the entity: the second one counts again.
		err = w.target.Update(ctx, tables.Key{PartitionKey: k.Partition, RowKey: "parties"}, func(e *tables.Entity) error {
			for _, name := range []string{"Count", "Count" + party} {
				n, _ := e.Properties[name].(int64)
				e.Properties[name] = n + by
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return fault.Point("table-index/after-put")
}

// overwrite changes lists and does not look whether another worker does the same.
func (w *Worker) overwrite(ctx context.Context, k rig.Key) error {
	projection := projectionOf(Lists)
	key := tables.Key{PartitionKey: k.Partition, RowKey: k.Row}
	_, after, err := w.states(k)
	if err != nil {
		return err
	}
	targets, err := w.targets(k)
	if err != nil {
		return err
	}
	for _, t := range targets {
		var old *tables.Entity
		// Any error counts as "not there", which is part of the mistake: the list is then begun again.
		if e, err := w.target.Get(ctx, t); err == nil {
			old = &e
		}
		now := after
		if now != nil {
			// An item that moved has two targets: the old one must lose the key, the new one gets it.
			if of, _ := projection.Target(now); of != t {
				now = nil
			}
		}
		next, err := projection.Build(ctx, w.source, t, old, key, now)
		if err != nil {
			return err
		}
		if err := fault.Point("table-index/before-put"); err != nil {
			return err
		}
		// The mistake: no ETag. A list that another worker changed since Get is replaced, and its key is lost.
		if err := w.target.InsertOrReplace(ctx, next); err != nil {
			return err
		}
	}
	return nil
}
