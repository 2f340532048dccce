package demo

import (
	"context"
	"errors"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/test/testaccount"
	"github.com/lazuli-storage/lazuli/tables"
	"github.com/lazuli-storage/lazuli/workers"
)

func init() {
	otherVariants["outbox"] = RunOutboxWorker
	// The row and the message are two requests.
	otherVariants["outbox: row, then message"] = func(ctx context.Context, storage *workers.Storage, app *workers.App,
		s WorkerSettings) error {
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
		workers.Queue(app, "arrive", noteArrival(s), workers.WithQueueName(arrivals(s.Queue)))
		return app.Run(ctx)
	}
}

// Workers are killed at every step, and frozen: each row has its message in the end.
func TestOutbox(t *testing.T) {
	t.Parallel()
	c := Config{ConnectionString: testaccount.Open(t).ConnectionString, Worker: variantWorker("outbox"), Records: 180,
		Pairs: true, SamplePairs: 2, Seed: seed(t), Patience: patience}
	report, err := Outbox(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	half := 0
	for _, row := range report.Rows {
		for _, crash := range row.Crashes {
			half += crash.Both
		}
	}
	if half == 0 {
		t.Error("no kill left a message to deliver: they prove nothing")
	}
}

func TestWrongOutboxIsCaught(t *testing.T) {
	t.Parallel()
	c := Config{ConnectionString: testaccount.Open(t).ConnectionString, Worker: variantWorker("outbox: row, then message"),
		Points: []string{"outbox/after-commit"}, Records: 60, Seed: 1, Patience: patience, stuckAfter: stuckAfter,
		plain: true}
	if _, err := Outbox(t.Context(), c); !errors.Is(err, ErrInvariant) {
		t.Fatalf("got %v, want %v", err, ErrInvariant)
	}
}
