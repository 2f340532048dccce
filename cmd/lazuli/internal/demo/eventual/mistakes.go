package eventual

import (
	"context"
	"errors"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/rig"
	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/tables"
	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/roles/archive"
)

// Mistakes are those that a worker without the pattern makes. A step that the pattern has too is where it is killed.
var Mistakes = []rig.Mistake{
	{Demonstration: "eventual-transaction", Name: "delete-first",
		Does:  "deletes the entity from Current, then writes it to Archive",
		Point: "archive/after-delete", Shows: rig.DamageLost, Run: naiveArchive(deleteFirst),
		Why: "the message comes again, finds nothing in Current, and counts as done: the copy is never written"},
	{Demonstration: "eventual-transaction", Name: "no-message",
		Does:  "deletes the message when it has received it, then copies and deletes",
		Point: "archive/after-copy", Shows: rig.DamageDoubled, From: rig.DamageHalf, Says: "in both tables",
		Run: naiveArchive(moveWithoutMessage),
		Why: "nothing reminds of the rest of the work: what was copied stays in both tables, what was not begun stays"},
}

// naiveMover moves entities from one table to another without the archive role.
type naiveMover struct {
	storage      *workers.Storage
	s            rig.WorkerSettings
	from, target *tables.Table[tables.Entity]
}

// naiveArchive makes a worker that moves the entity of each message by do.
func naiveArchive(do func(context.Context, *naiveMover, workers.QueueMessage, tables.Entity) error) rig.VariantRun {
	return func(ctx context.Context, storage *workers.Storage, app *workers.App, s rig.WorkerSettings) error {
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
	if err := rig.Acknowledge(ctx, v.storage, v.s.Queue, m); err != nil {
		return err
	}
	if err := v.copy(ctx, e); err != nil {
		return err
	}
	return v.delete(ctx, e)
}
