// Package outbox has the demonstrations of messages that are written in the transaction of their row, and of unique
// jobs, which lean on the same.
package outbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/records"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/rig"
	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/tables"
	"github.com/lazuli-storage/lazuli/workers"
)

// Run runs the demonstration of an outbox: an item's row and its message are written in one transaction.
func Run(ctx context.Context, c rig.Config) (*rig.Report, error) {
	return rig.Demonstrate(ctx, c, open)
}

// Points returns what a run visits by default.
func Points() []string { return rig.PointsOf(&Pattern{}) }

// Pattern inserts rows with messages, and notes the messages that arrive in another table.
type Pattern struct {
	storage         *workers.Storage
	from, to, queue string
	loaded          []rig.Key
}

func open(storage *workers.Storage, id string) (rig.Pattern, error) {
	if storage.Queues == nil || storage.Tables == nil {
		return nil, errors.New("the connection string must name a queue and a table endpoint")
	}
	return &Pattern{storage: storage, from: "LazuliDemoPlaced" + id, to: "LazuliDemoArrived" + id,
		queue: "lazuli-demo-" + id}, nil
}

func (p *Pattern) Points() []string {
	return append(fault.PointsOf("outbox"), "workers/before-delete-message", "workers/after-delete-message")
}
func (p *Pattern) HoldUp() string                 { return "outbox/after-read" }
func (p *Pattern) Concurrency() int               { return 8 }
func (p *Pattern) Plan(k rig.Kill) string         { return k.String() }
func (p *Pattern) Kind(rig.Key) string            { return "insert" }
func (p *Pattern) Passes(point string, n int) int { return n }
func (p *Pattern) Settings() rig.WorkerSettings {
	return rig.WorkerSettings{Queue: p.queue, Current: p.from, Archive: p.to}
}

// arrivals is the queue of the messages.
func arrivals(queue string) string { return queue + "-placed" }

func (p *Pattern) Create(ctx context.Context) error {
	for _, name := range []string{p.from, p.to} {
		if _, err := p.storage.Tables.CreateTable(ctx, name, nil); err != nil {
			return fmt.Errorf("create table %s: %w", name, err)
		}
	}
	return rig.Queues{Service: p.storage.Queues, Name: arrivals(p.queue)}.Create(ctx)
}

// Remove leaves the queue of reminders, which belongs to the account.
func (p *Pattern) Remove(ctx context.Context) error {
	err := rig.Queues{Service: p.storage.Queues, Name: arrivals(p.queue)}.Remove(ctx)
	for _, name := range []string{p.from, p.to} {
		if _, e := p.storage.Tables.DeleteTable(ctx, name, nil); e != nil && !rig.NotFound(e) {
			err = errors.Join(err, fmt.Errorf("delete table %s: %w", name, e))
		}
	}
	return err
}

func (p *Pattern) Load(_ context.Context, r *rig.Run) ([]rig.Key, error) {
	n := r.Records
	if n == 0 {
		n = rig.RoundItems * r.Rounds()
	}
	entities, err := records.Entities(n)
	if err != nil {
		return nil, err
	}
	for _, e := range entities {
		p.loaded = append(p.loaded, e.Key)
	}
	r.Report.Records, r.Report.Old = len(p.loaded), len(p.loaded)
	r.Say.Line("%d rows are to be inserted, each with a message", len(p.loaded))
	return p.loaded, nil
}

func (p *Pattern) Message(k rig.Key) ([]byte, error) {
	return json.Marshal(rig.KeyMessage{PartitionKey: k.Partition, RowKey: k.Row})
}

// Reset removes what was made of items.
func (p *Pattern) Reset(ctx context.Context, keys []rig.Key) error {
	for _, name := range []string{p.from, p.to} {
		t, err := tables.New[tables.Entity](p.storage.Tables, name)
		if err != nil {
			return err
		}
		for _, k := range keys {
			err := t.DeleteKey(ctx, tables.Key{PartitionKey: k.Partition, RowKey: k.Row})
			if err != nil && !errors.Is(err, tables.ErrNotFound) {
				return err
			}
		}
	}
	return nil
}

// keysOf returns the keys of a table.
func (p *Pattern) keysOf(ctx context.Context, name string) (map[rig.Key]bool, error) {
	t, err := tables.New[tables.Entity](p.storage.Tables, name)
	if err != nil {
		return nil, err
	}
	all := map[rig.Key]bool{}
	for e, err := range t.Query().AllowScan().All(ctx) {
		if err != nil {
			return nil, err
		}
		all[rig.Key{Partition: e.PartitionKey, Row: e.RowKey}] = true
	}
	return all, nil
}

// both returns the keys of the rows, and of the messages that have arrived.
func (p *Pattern) both(ctx context.Context) (placed, arrived map[rig.Key]bool, err error) {
	// Arrivals first: a message that arrives between the two has its row.
	if arrived, err = p.keysOf(ctx, p.to); err == nil {
		placed, err = p.keysOf(ctx, p.from)
	}
	return placed, arrived, err
}

// census: an item whose message arrived without its row has lost the row.
func (p *Pattern) Census(ctx context.Context, keys []rig.Key, _ bool) (rig.Census, error) {
	var c rig.Census
	placed, arrived, err := p.both(ctx)
	if err != nil {
		return c, err
	}
	for _, k := range keys {
		switch {
		case arrived[k] && !placed[k]:
			c.Lost = append(c.Lost, k)
		case arrived[k]:
			c.Moved = append(c.Moved, k)
		case placed[k]:
			c.Both = append(c.Both, k)
		default:
			c.Kept = append(c.Kept, k)
		}
	}
	return c, nil
}

// Quiet reports whether no message is on its way.
func (p *Pattern) Quiet(ctx context.Context) (bool, error) {
	n, err := rig.Queues{Service: p.storage.Queues, Name: arrivals(p.queue)}.Waiting(ctx)
	return n == 0, err
}

// converged: every row's message has arrived, and none is left in the table.
func (p *Pattern) Converged(ctx context.Context) (bool, error) {
	placed, arrived, err := p.both(ctx)
	return len(placed) == len(arrived), err
}

func (p *Pattern) Conclude(ctx context.Context, _ *rig.Run) (problems []string, summary string, err error) {
	placed, arrived, err := p.both(ctx)
	if err != nil {
		return nil, "", err
	}
	var missing, strange []rig.Key
	for _, k := range p.loaded {
		if !placed[k] || !arrived[k] {
			missing = append(missing, k)
		}
		delete(placed, k)
	}
	for k := range placed {
		strange = append(strange, k)
	}
	return append(rig.Problem("rows or their messages are missing", missing),
			rig.Problem("messages are left in the table", strange)...),
		fmt.Sprintf("%d rows, and a message of each has arrived", len(p.loaded)), nil
}

// RunWorker works on the messages of the demonstration until ctx is done: it inserts the row that a message asks
// for together with a message, delivers, and notes what arrives.
func RunWorker(ctx context.Context, storage *workers.Storage, app *workers.App, s rig.WorkerSettings) error {
	rows, err := tables.New[tables.Entity](storage.Tables, s.Current)
	if err != nil {
		return err
	}
	workers.Queue(app, "place", func(ctx context.Context, m *workers.Message[rig.KeyMessage]) error {
		tx := rows.Begin()
		tx.Insert(&tables.Entity{PartitionKey: m.Body.PartitionKey, RowKey: m.Body.RowKey})
		if err := workers.EnqueueIn(ctx, tx.Transaction, arrivals(s.Queue), m.Body); err != nil {
			return err
		}
		if err := tx.Submit(ctx); !errors.Is(err, tables.ErrExists) {
			return err
		}
		return nil // The message came twice: its row has its message.
	}, s.Options()...)
	workers.Queue(app, "arrive", noteArrival(s), workers.WithQueueName(arrivals(s.Queue)), workers.WithLease(s.Lease),
		workers.WithMaxDequeueCount(s.MaxDequeueCount))
	app.Outbox(workers.WithLease(s.Lease), workers.WithRetry(workers.Fixed(time.Second)))
	return app.Run(ctx)
}

// noteArrival notes in the other table what arrives.
func noteArrival(s rig.WorkerSettings) func(ctx context.Context, m *workers.Message[rig.KeyMessage]) error {
	return func(ctx context.Context, m *workers.Message[rig.KeyMessage]) error {
		return workers.Upsert(ctx, s.Archive,
			&tables.Entity{PartitionKey: m.Body.PartitionKey, RowKey: m.Body.RowKey})
	}
}

func (p *Pattern) Words() rig.Words {
	return rig.Words{Item: "rows that are to be inserted, each with a message",
		Done:   "the row is there, and its message has arrived",
		NotYet: "neither the row nor its message", Half: "the row without its message",
		Lost: "the message has arrived without its row"}
}
