package searchapi

import (
	"context"

	"github.com/lazuli-storage/lazuli/tables"
	"github.com/lazuli-storage/lazuli/workers"
)

// Message names an entity that a program changes.
type Message struct{ PartitionKey, RowKey string }

// Keeper is an index that messages keep in step with its table.
type Keeper interface {
	// Build reads the whole table, unless that has been done. If it is interrupted, the next call continues.
	Build(ctx context.Context) error
	// Update reads the entity under key and writes it to the index, or removes it there if it does not exist.
	Update(ctx context.Context, key tables.Key) error
	// Repair corrects what differs from the table.
	Repair(ctx context.Context) (corrected int, err error)
}

// RegisterQueue keeps an index in step by messages, for services without a log of changes. The whole table is read
// first. A [Message] may come twice and late, but must be handled after its change. Every hour, the role repairs the
// index. All messages must come to one process: it has the index.
func RegisterQueue(app *workers.App, name string, x Keeper, options ...workers.QueueOption) *workers.Function {
	f := workers.Queue(app, name, func(ctx context.Context, m *workers.Message[Message]) error {
		if err := x.Build(ctx); err != nil {
			return err
		}
		return x.Update(ctx, tables.Key{PartitionKey: m.Body.PartitionKey, RowKey: m.Body.RowKey})
	}, options...)
	app.Timer(name+"-repair", func(ctx context.Context, _ workers.TimerInfo) error {
		if err := x.Build(ctx); err != nil {
			return err
		}
		_, err := x.Repair(ctx)
		return err
	}, workers.WithSchedule("0 45 * * * *"), workers.WithRunOnStartup(true))
	return f
}
