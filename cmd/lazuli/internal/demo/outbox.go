package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/tables"
	"github.com/lazuli-storage/lazuli/workers"
)

// Outbox runs the demonstration of an outbox: an item's row and its message are written in one transaction.
func Outbox(ctx context.Context, c Config) (*Report, error) { return demonstrate(ctx, c, openOutbox) }

// OutboxPoints returns what a run visits by default.
func OutboxPoints() []string { return pointsOf(&outboxPattern{}) }

// outboxPattern inserts rows with messages, and notes the messages that arrive in another table.
type outboxPattern struct {
	storage         *workers.Storage
	from, to, queue string
	loaded          []entityKey
}

func openOutbox(storage *workers.Storage, id string) (pattern, error) {
	if storage.Queues == nil || storage.Tables == nil {
		return nil, errors.New("the connection string must name a queue and a table endpoint")
	}
	return &outboxPattern{storage: storage, from: "LazuliDemoPlaced" + id, to: "LazuliDemoArrived" + id,
		queue: "lazuli-demo-" + id}, nil
}

func (p *outboxPattern) points() []string {
	return append(fault.PointsOf("outbox"), "workers/before-delete-message", "workers/after-delete-message")
}
func (p *outboxPattern) holdUp() string                 { return "outbox/after-read" }
func (p *outboxPattern) concurrency() int               { return 8 }
func (p *outboxPattern) plan(k kill) string             { return k.String() }
func (p *outboxPattern) kind(entityKey) string          { return "insert" }
func (p *outboxPattern) passes(point string, n int) int { return n }
func (p *outboxPattern) settings() WorkerSettings {
	return WorkerSettings{Queue: p.queue, Current: p.from, Archive: p.to}
}

// arrivals is the queue of the messages.
func arrivals(queue string) string { return queue + "-placed" }

func (p *outboxPattern) create(ctx context.Context) error {
	for _, name := range []string{p.from, p.to} {
		if _, err := p.storage.Tables.CreateTable(ctx, name, nil); err != nil {
			return fmt.Errorf("create table %s: %w", name, err)
		}
	}
	return queues{p.storage.Queues, arrivals(p.queue)}.create(ctx)
}

// remove leaves the queue of reminders, which belongs to the account.
func (p *outboxPattern) remove(ctx context.Context) error {
	err := queues{p.storage.Queues, arrivals(p.queue)}.remove(ctx)
	for _, name := range []string{p.from, p.to} {
		if _, e := p.storage.Tables.DeleteTable(ctx, name, nil); e != nil && !notFound(e) {
			err = errors.Join(err, fmt.Errorf("delete table %s: %w", name, e))
		}
	}
	return err
}

func (p *outboxPattern) load(_ context.Context, r *run) ([]entityKey, error) {
	n := r.Records
	if n == 0 {
		n = roundItems * r.rounds()
	}
	entities, err := loadRecords(n)
	if err != nil {
		return nil, err
	}
	for _, e := range entities {
		p.loaded = append(p.loaded, e.key)
	}
	r.report.Records, r.report.Old = len(p.loaded), len(p.loaded)
	r.say.line("%d rows are to be inserted, each with a message", len(p.loaded))
	return p.loaded, nil
}

func (p *outboxPattern) message(k entityKey) ([]byte, error) {
	return json.Marshal(indexCommand{k.partition, k.row})
}

// reset removes what was made of items.
func (p *outboxPattern) reset(ctx context.Context, keys []entityKey) error {
	for _, name := range []string{p.from, p.to} {
		t, err := tables.New[tables.Entity](p.storage.Tables, name)
		if err != nil {
			return err
		}
		for _, k := range keys {
			err := t.DeleteKey(ctx, tables.Key{PartitionKey: k.partition, RowKey: k.row})
			if err != nil && !errors.Is(err, tables.ErrNotFound) {
				return err
			}
		}
	}
	return nil
}

// keysOf returns the keys of a table.
func (p *outboxPattern) keysOf(ctx context.Context, name string) (map[entityKey]bool, error) {
	t, err := tables.New[tables.Entity](p.storage.Tables, name)
	if err != nil {
		return nil, err
	}
	all := map[entityKey]bool{}
	for e, err := range t.Query().AllowScan().All(ctx) {
		if err != nil {
			return nil, err
		}
		all[entityKey{e.PartitionKey, e.RowKey}] = true
	}
	return all, nil
}

// both returns the keys of the rows, and of the messages that have arrived.
func (p *outboxPattern) both(ctx context.Context) (placed, arrived map[entityKey]bool, err error) {
	// Arrivals first: a message that arrives between the two has its row.
	if arrived, err = p.keysOf(ctx, p.to); err == nil {
		placed, err = p.keysOf(ctx, p.from)
	}
	return placed, arrived, err
}

// census: an item whose message arrived without its row has lost the row.
func (p *outboxPattern) census(ctx context.Context, keys []entityKey, _ bool) (census, error) {
	var c census
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

// quiet reports whether no message is on its way.
func (p *outboxPattern) quiet(ctx context.Context) (bool, error) {
	n, err := queues{p.storage.Queues, arrivals(p.queue)}.waiting(ctx)
	return n == 0, err
}

// converged: every row's message has arrived, and none is left in the table.
func (p *outboxPattern) converged(ctx context.Context) (bool, error) {
	placed, arrived, err := p.both(ctx)
	return len(placed) == len(arrived), err
}

func (p *outboxPattern) conclude(ctx context.Context, _ *run) (problems []string, summary string, err error) {
	placed, arrived, err := p.both(ctx)
	if err != nil {
		return nil, "", err
	}
	var missing, strange []entityKey
	for _, k := range p.loaded {
		if !placed[k] || !arrived[k] {
			missing = append(missing, k)
		}
		delete(placed, k)
	}
	for k := range placed {
		strange = append(strange, k)
	}
	return append(problem("rows or their messages are missing", missing),
			problem("messages are left in the table", strange)...),
		fmt.Sprintf("%d rows, and a message of each has arrived", len(p.loaded)), nil
}

// RunOutboxWorker works on the messages of the demonstration until ctx is done: it inserts the row that a message asks
// for together with a message, delivers, and notes what arrives.
func RunOutboxWorker(ctx context.Context, storage *workers.Storage, app *workers.App, s WorkerSettings) error {
	rows, err := tables.New[tables.Entity](storage.Tables, s.Current)
	if err != nil {
		return err
	}
	workers.Queue(app, "place", func(ctx context.Context, m *workers.Message[indexCommand]) error {
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
func noteArrival(s WorkerSettings) func(ctx context.Context, m *workers.Message[indexCommand]) error {
	return func(ctx context.Context, m *workers.Message[indexCommand]) error {
		return workers.Upsert(ctx, s.Archive,
			&tables.Entity{PartitionKey: m.Body.PartitionKey, RowKey: m.Body.RowKey})
	}
}

func (p *outboxPattern) words() words {
	return words{item: "rows that are to be inserted, each with a message",
		done:   "the row is there, and its message has arrived",
		notYet: "neither the row nor its message", half: "the row without its message",
		lost: "the message has arrived without its row"}
}
