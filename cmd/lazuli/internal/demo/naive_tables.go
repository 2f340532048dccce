package demo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/tables"
	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/roles/archive"
)

// acknowledge deletes a message, which a handler must leave to the runtime: from then on nothing reminds of the work.
func acknowledge(ctx context.Context, storage *workers.Storage, queue string, m workers.QueueMessage) error {
	_, err := storage.Queues.NewQueueClient(queue).DeleteMessage(ctx, m.Id, m.PopReceipt, nil)
	return err
}

// naiveMover moves entities from one table to another without the archive role.
type naiveMover struct {
	storage      *workers.Storage
	s            WorkerSettings
	from, target *tables.Table[tables.Entity]
}

// naiveArchive makes a worker that moves the entity of each message by do.
func naiveArchive(do func(context.Context, *naiveMover, workers.QueueMessage, tables.Entity) error) variantRun {
	return func(ctx context.Context, storage *workers.Storage, app *workers.App, s WorkerSettings) error {
		v := &naiveMover{storage: storage, s: s}
		var err1, err2 error
		v.from, err1 = tables.New[tables.Entity](storage.Tables, s.Current)
		v.target, err2 = tables.New[tables.Entity](storage.Tables, s.Archive)
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		workers.Queue(app, "archive", func(ctx context.Context, m *workers.Message[archive.Key]) error {
			e, err := v.from.Get(ctx, tables.Key(m.Body))
			if errors.Is(err, tables.ErrNotFound) {
				return nil // It counts as done.
			}
			if err != nil {
				return err
			}
			return do(ctx, v, m.Raw, e)
		}, s.Options()...)
		return app.Run(ctx)
	}
}

func (v *naiveMover) copy(ctx context.Context, e tables.Entity) error {
	err := fault.Point("archive/before-copy")
	if err == nil {
		err = v.target.InsertOrReplace(ctx, &e)
	}
	if err != nil {
		return err
	}
	return fault.Point("archive/after-copy")
}

func (v *naiveMover) delete(ctx context.Context, e tables.Entity) error {
	err := fault.Point("archive/before-delete")
	if err == nil {
		err = v.from.DeleteKey(ctx, tables.Key{PartitionKey: e.PartitionKey, RowKey: e.RowKey})
	}
	if err != nil && !errors.Is(err, tables.ErrNotFound) {
		return err
	}
	return fault.Point("archive/after-delete")
}

// deleteFirst moves by two writes in the wrong order.
func deleteFirst(ctx context.Context, v *naiveMover, _ workers.QueueMessage, e tables.Entity) error {
	if err := v.delete(ctx, e); err != nil {
		return err
	}
	return v.copy(ctx, e)
}

// moveWithoutMessage deletes the message before it moves, so that nothing reminds of the rest of the work.
func moveWithoutMessage(ctx context.Context, v *naiveMover, m workers.QueueMessage, e tables.Entity) error {
	if err := acknowledge(ctx, v.storage, v.s.Queue, m); err != nil {
		return err
	}
	if err := v.copy(ctx, e); err != nil {
		return err
	}
	return v.delete(ctx, e)
}

// naiveIndex makes a worker of the demonstrations of the table-index role that handles messages by do, and does not
// sweep.
func naiveIndex(do func(context.Context, *indexWorker, entityKey, workers.QueueMessage, *workers.Storage,
	WorkerSettings) error) variantRun {
	return func(ctx context.Context, storage *workers.Storage, app *workers.App, s WorkerSettings) error {
		w, err := openIndexWorker(storage, s)
		if err != nil {
			return err
		}
		workers.Queue(app, "table-index", func(ctx context.Context, m *workers.Message[indexCommand]) error {
			return do(ctx, w, entityKey{m.Body.PartitionKey, m.Body.RowKey}, m.Raw, storage, s)
		}, s.Options()...)
		return app.Run(ctx)
	}
}

// indexWithoutMessage deletes the message between the two writes.
func indexWithoutMessage(ctx context.Context, w *indexWorker, k entityKey, m workers.QueueMessage,
	storage *workers.Storage, s WorkerSettings) error {
	if err := w.change(ctx, k); err != nil {
		return err
	}
	if err := acknowledge(ctx, storage, s.Queue, m); err != nil {
		return err
	}
	return w.handleTargets(ctx, k)
}

// oldEntryLeft writes the entity of the new state, and forgets that of the old one.
func oldEntryLeft(ctx context.Context, w *indexWorker, k entityKey, _ workers.QueueMessage, _ *workers.Storage,
	_ WorkerSettings) error {
	_, after, err := w.states(k)
	if err != nil {
		return err
	}
	key := tables.Key{PartitionKey: k.partition, RowKey: k.row}
	return errors.Join(w.change(ctx, k), w.handle(ctx, k, w.role.Message(key, nil, after).Targets))
}

// countByAdding adds to a count what a message says.
func countByAdding(ctx context.Context, w *indexWorker, k entityKey, _ workers.QueueMessage, _ *workers.Storage,
	_ WorkerSettings) error {
	if err := w.change(ctx, k); err != nil {
		return err
	}
	return w.add(ctx, k)
}

// listWithoutCondition writes a list whatever another worker has written meanwhile.
func listWithoutCondition(ctx context.Context, w *indexWorker, k entityKey, _ workers.QueueMessage, _ *workers.Storage,
	_ WorkerSettings) error {
	if err := w.change(ctx, k); err != nil {
		return err
	}
	return w.overwrite(ctx, k)
}

func (w *indexWorker) handle(ctx context.Context, k entityKey, targets []tables.Key) error {
	return w.role.Handle(ctx, tables.Key{PartitionKey: k.partition, RowKey: k.row}, targets)
}

// handleTargets brings the targets that a record's change concerns up to date.
func (w *indexWorker) handleTargets(ctx context.Context, k entityKey) error {
	targets, err := w.targets(k)
	if err != nil {
		return err
	}
	return w.handle(ctx, k, targets)
}

// add changes the counts by one: a message that comes twice counts twice.
func (w *indexWorker) add(ctx context.Context, k entityKey) error {
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
		err = w.target.Update(ctx, tables.Key{PartitionKey: k.partition, RowKey: "parties"}, func(e *tables.Entity) error {
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
func (w *indexWorker) overwrite(ctx context.Context, k entityKey) error {
	projection := projectionOf(IndexLists)
	key := tables.Key{PartitionKey: k.partition, RowKey: k.row}
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

// rowThenMessage inserts the row and puts its message by two requests.
func rowThenMessage(ctx context.Context, storage *workers.Storage, app *workers.App, s WorkerSettings) error {
	rows, err := tables.New[tables.Entity](storage.Tables, s.Current)
	if err != nil {
		return err
	}
	workers.Queue(app, "place", func(ctx context.Context, m *workers.Message[indexCommand]) error {
		err := rows.Insert(ctx, &tables.Entity{PartitionKey: m.Body.PartitionKey, RowKey: m.Body.RowKey})
		if errors.Is(err, tables.ErrExists) {
			return nil
		}
		if err := errors.Join(err, fault.Point("outbox/after-commit")); err != nil {
			return err
		}
		return workers.Enqueue(ctx, arrivals(s.Queue), m.Body)
	}, s.Options()...)
	workers.Queue(app, "arrive", noteArrival(s), workers.WithQueueName(arrivals(s.Queue)), workers.WithLease(s.Lease))
	return app.Run(ctx)
}

// messageThenRow puts the message before the row, and deletes the message that asks for both between them.
func messageThenRow(ctx context.Context, storage *workers.Storage, app *workers.App, s WorkerSettings) error {
	rows, err := tables.New[tables.Entity](storage.Tables, s.Current)
	if err != nil {
		return err
	}
	workers.Queue(app, "place", func(ctx context.Context, m *workers.Message[indexCommand]) error {
		if err := workers.Enqueue(ctx, arrivals(s.Queue), m.Body); err != nil {
			return err
		}
		if err := acknowledge(ctx, storage, s.Queue, m.Raw); err != nil {
			return err
		}
		if err := fault.Point("outbox/after-reminder"); err != nil {
			return err
		}
		return rows.InsertOrReplace(ctx, &tables.Entity{PartitionKey: m.Body.PartitionKey, RowKey: m.Body.RowKey})
	}, s.Options()...)
	workers.Queue(app, "arrive", noteArrival(s), workers.WithQueueName(arrivals(s.Queue)), workers.WithLease(s.Lease))
	return app.Run(ctx)
}

// jobsWithoutKey enqueues a job for each message, without a key that tells it from the same job.
func jobsWithoutKey(ctx context.Context, _ *workers.Storage, app *workers.App, s WorkerSettings) error {
	return runJobs(ctx, app, s, 1, func([]byte) []workers.EnqueueOption { return nil })
}

// naiveDesign makes a worker of the demonstrations of designs that changes an item by do.
func naiveDesign(do designChange) variantRun {
	return func(ctx context.Context, storage *workers.Storage, app *workers.App, s WorkerSettings) error {
		return runDesign(ctx, storage, app, s,
			func(ctx context.Context, d *Design, t *designTables, m *workers.Message[designItem]) error {
				return do(ctx, d, t, m.Body)
			})
	}
}

// oneByOne writes each entity by a request of its own.
func oneByOne(ctx context.Context, d *Design, t *designTables, i designItem) error {
	var list []write
	for _, w := range d.change(i) {
		for _, e := range w.put {
			list = append(list, write{step: w.step, table: w.table, put: []tables.Entity{e}})
		}
		for _, e := range w.remove {
			list = append(list, write{step: w.step, table: w.table, remove: []tables.Entity{e}})
		}
	}
	return d.steps(ctx, t, list)
}

// backwards does the writes in the other order.
func backwards(ctx context.Context, d *Design, t *designTables, i designItem) error {
	list := d.change(i)
	slices.Reverse(list)
	return d.steps(ctx, t, list)
}

// newKey chooses another key at each attempt, as a clock or a random number does.
func newKey(ctx context.Context, d *Design, t *designTables, i designItem) error {
	list := d.change(i)
	for _, w := range list {
		w.put[0].PartitionKey = fmt.Sprintf("%d-day", rand.Uint32())
	}
	return d.steps(ctx, t, list)
}

// replaceAll writes a value by replacing the entity, with what the worker knows of it.
func replaceAll(ctx context.Context, d *Design, t *designTables, i designItem) error {
	list := d.change(i)
	for n := range list {
		list[n].merge = false
	}
	return d.steps(ctx, t, list)
}

// designWithoutMessage deletes the message before the first write.
func designWithoutMessage(ctx context.Context, storage *workers.Storage, app *workers.App, s WorkerSettings) error {
	return runDesign(ctx, storage, app, s,
		func(ctx context.Context, d *Design, t *designTables, m *workers.Message[designItem]) error {
			if err := acknowledge(ctx, storage, s.Queue, m.Raw); err != nil {
				return err
			}
			return d.steps(ctx, t, d.change(m.Body))
		})
}

// designChange changes an item.
type designChange = func(context.Context, *Design, *designTables, designItem) error
