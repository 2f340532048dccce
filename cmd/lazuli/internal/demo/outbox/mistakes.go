package outbox

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
	{Demonstration: "outbox", Name: "row-then-message",
		Does:  "inserts the row, then puts the message",
		Point: "outbox/after-commit", Shows: rig.DamageHalf, Run: rowThenMessage,
		Why: "the attempt after the kill finds the row, and takes the work for done: the message is never put"},
	{Demonstration: "outbox", Name: "message-then-row",
		Does:  "puts the message, then inserts the row",
		Point: "outbox/after-reminder", Shows: rig.DamageLost, Run: messageThenRow,
		Why: "the message has arrived, and names a row that was never written"},
	{Demonstration: "jobs", Name: "no-key",
		Does:  "enqueues a job for each message, without a unique key",
		Point: "jobs/after-show", Shows: rig.DamageDoubled, From: rig.DamageHalf,
		Says: "two jobs have run", Run: jobsWithoutKey,
		Why: "the message of the killed worker comes again, and so does its job"},
}

// rowThenMessage inserts the row and puts its message by two requests.
func rowThenMessage(ctx context.Context, storage *workers.Storage, app *workers.App, s rig.WorkerSettings) error {
	rows, err := tables.New[tables.Entity](storage.Tables, s.Current)
	if err != nil {
		return err
	}
	workers.Queue(app, "place", func(ctx context.Context, m *workers.Message[rig.KeyMessage]) error {
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
func messageThenRow(ctx context.Context, storage *workers.Storage, app *workers.App, s rig.WorkerSettings) error {
	rows, err := tables.New[tables.Entity](storage.Tables, s.Current)
	if err != nil {
		return err
	}
	workers.Queue(app, "place", func(ctx context.Context, m *workers.Message[rig.KeyMessage]) error {
		if err := workers.Enqueue(ctx, arrivals(s.Queue), m.Body); err != nil {
			return err
		}
		if err := rig.Acknowledge(ctx, storage, s.Queue, m.Raw); err != nil {
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
func jobsWithoutKey(ctx context.Context, _ *workers.Storage, app *workers.App, s rig.WorkerSettings) error {
	return runJobs(ctx, app, s, 1, func([]byte) []workers.EnqueueOption { return nil })
}
