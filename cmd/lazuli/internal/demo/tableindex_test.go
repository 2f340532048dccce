package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/test/testaccount"
	"github.com/lazuli-storage/lazuli/tables"
	"github.com/lazuli-storage/lazuli/workers"
)

// indexVariants are workers of the table-index demonstrations. All but the first are wrong, each in its own way, and do
// not sweep.
func init() {
	otherVariants["table-index"] = RunTableIndexWorker
	wrong := func(do func(context.Context, *indexWorker, entityKey, workers.QueueMessage, *workers.Storage,
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
	otherVariants["table-index: index before the change"] = wrong(
		func(ctx context.Context, w *indexWorker, k entityKey, _ workers.QueueMessage, _ *workers.Storage,
			_ WorkerSettings) error {
			return errors.Join(w.handleTargets(ctx, k), w.change(ctx, k))
		})
	otherVariants["table-index: old entry left"] = wrong(
		func(ctx context.Context, w *indexWorker, k entityKey, _ workers.QueueMessage, _ *workers.Storage,
			_ WorkerSettings) error {
			_, after, err := w.states(k)
			if err != nil {
				return err
			}
			key := tables.Key{PartitionKey: k.partition, RowKey: k.row}
			return errors.Join(w.change(ctx, k), w.handle(ctx, k, w.role.Message(key, nil, after).Targets))
		})
	otherVariants["table-index: message deleted first"] = wrong(
		func(ctx context.Context, w *indexWorker, k entityKey, m workers.QueueMessage, storage *workers.Storage,
			s WorkerSettings) error {
			if err := w.change(ctx, k); err != nil {
				return err
			}
			if _, err := storage.Queues.NewQueueClient(s.Queue).DeleteMessage(ctx, m.Id, m.PopReceipt, nil); err != nil {
				return err
			}
			return w.handleTargets(ctx, k)
		})
	otherVariants["table-index: counts by adding"] = wrong(
		func(ctx context.Context, w *indexWorker, k entityKey, _ workers.QueueMessage, _ *workers.Storage,
			_ WorkerSettings) error {
			if err := w.change(ctx, k); err != nil {
				return err
			}
			return w.add(ctx, k)
		})
	otherVariants["table-index: lists without condition"] = wrong(
		func(ctx context.Context, w *indexWorker, k entityKey, _ workers.QueueMessage, _ *workers.Storage,
			_ WorkerSettings) error {
			if err := w.change(ctx, k); err != nil {
				return err
			}
			return w.overwrite(ctx, k)
		})
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
	for state, by := range map[*tables.Entity]int64{before: -1, after: 1} {
		if state == nil {
			continue
		}
		party, err := tables.Value[string](state, "Party")
		if err != nil {
			return err
		}
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
		if e, err := w.target.Get(ctx, t); err == nil {
			old = &e
		}
		now := after
		if now != nil {
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
		if err := w.target.InsertOrReplace(ctx, next); err != nil {
			return err
		}
	}
	return nil
}

func indexDemonstrations() map[string]func(context.Context, Config) (*Report, error) {
	return map[string]func(context.Context, Config) (*Report, error){IndexCopies: Index, IndexLists: IndexEntities,
		IndexCounts: View}
}

func TestTableIndex(t *testing.T) {
	t.Parallel()
	for kind, demonstrate := range indexDemonstrations() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			a := testaccount.Open(t)
			c := Config{ConnectionString: a.ConnectionString, Worker: variantWorker("table-index"), Records: 180, Pairs: true,
				SamplePairs: sample, Seed: seed(t), Patience: patience}
			report, err := demonstrate(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			if len(report.Rows) != len(TableIndexPoints(kind))+sample {
				t.Errorf("%d rounds, want %d", len(report.Rows), len(TableIndexPoints(kind))+sample)
			}
			undone := 0
			for _, row := range report.Rows {
				for _, crash := range row.Crashes {
					undone += crash.Kept + crash.Both
				}
			}
			if undone == 0 {
				t.Error("no kill left work undone: they prove nothing")
			}
		})
	}
}

func TestWrongTableIndexWorkersAreCaught(t *testing.T) {
	t.Parallel()
	a := testaccount.Open(t)
	for variant, c := range map[string]struct {
		kind, point string
	}{
		"table-index: index before the change": {IndexCopies, "table-index/before-read"},
		"table-index: old entry left":          {IndexCopies, "table-index/after-put"},
		"table-index: message deleted first":   {IndexCopies, "table-index/before-read"},
		"table-index: counts by adding":        {IndexCounts, "table-index/after-put"},
		"table-index: lists without condition": {IndexLists, "table-index/before-put"},
	} {
		t.Run(variant, func(t *testing.T) {
			t.Parallel()
			config := Config{ConnectionString: a.ConnectionString, Worker: variantWorker(variant), Points: []string{c.point},
				Records: 90, Seed: 1, Patience: patience,
				stuckAfter: stuckAfter, plain: true}
			if _, err := indexDemonstrations()[c.kind](t.Context(), config); !errors.Is(err, ErrInvariant) ||
				!strings.Contains(fmt.Sprint(err), "stuck") {
				t.Fatalf("got %v, want %v saying that work is stuck", err, ErrInvariant)
			}
		})
	}
}
