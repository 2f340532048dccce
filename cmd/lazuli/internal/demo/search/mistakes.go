package search

import (
	"context"
	"errors"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/index"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/rig"
	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/tables"
	"github.com/lazuli-storage/lazuli/workers"
)

// Mistakes are those that a worker without the pattern makes. A step that the pattern has too is where it is killed.
var Mistakes = []rig.Mistake{
	{Demonstration: "search", Name: "no-message",
		Does:  "changes the record, deletes the message, then updates the index",
		Point: string(pointNaiveChanged), Shows: rig.DamageHalf, Run: withoutMessage,
		Why: "the record has changed, and nothing reminds of its document: a search gives the old answer"},
}

// pointNaiveChanged is the step between the two writes of a worker that keeps an index without the role.
var pointNaiveChanged = fault.Declare("naive-search/after-change")

// withoutMessage changes the record, deletes the message, and updates the index by itself.
func withoutMessage(ctx context.Context, storage *workers.Storage, app *workers.App,
	s rig.WorkerSettings) (err error) {
	w, err := index.OpenStates(storage, s)
	if err != nil {
		return err
	}
	x, err := OpenIndex(s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, x.Close()) }()
	workers.Queue(app, "records", func(ctx context.Context, m *workers.Message[rig.KeyMessage]) error {
		k := rig.Key{Partition: m.Body.PartitionKey, Row: m.Body.RowKey}
		if err := x.Build(ctx); err != nil {
			return err
		}
		if err := w.Change(ctx, k); err != nil {
			return err
		}
		if err := rig.Acknowledge(ctx, storage, s.Queue, m.Raw); err != nil {
			return err
		}
		if err := fault.Point(pointNaiveChanged); err != nil {
			return err
		}
		return x.Update(ctx, tables.Key{PartitionKey: k.Partition, RowKey: k.Row})
	}, s.Options()...)
	return runWithSearch(ctx, app, x, s.Folder)
}
