// Eventually consistent transaction: a change of two partitions, tables or services without a common transaction, made
// safe by a queue.
//
// Problem: a term that is over moves from the table Current to the table Archive. A crash between the insert and the
// delete leaves it in both tables; in the reverse order, in neither table.
//
// Solution: a message says what to do; a worker inserts into the archive, deletes from the table, and only then deletes
// the message. Every step may be repeated, so the work resumes after a crash when the message is delivered again. This
// is the built-in role archive; `lazuli demo eventual-transaction` kills it at each step.
//
// When: all changes must happen eventually, and readers tolerate intermediate states. Cost: six requests for each
// entity, three of them for the message.
//
//	go run ./examples/patterns/03-eventual-transaction
package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/lazuli-storage/lazuli/examples/patterns/run"
	"github.com/lazuli-storage/lazuli/examples/patterns/senate"
	"github.com/lazuli-storage/lazuli/tables"
	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/roles/archive"
)

func main() { run.Main(example) }

// today is the time at which the example plays.
var today = time.Date(2026, 6, 15, 0, 0, 0, 0, time.UTC)

type term struct {
	PartitionKey, RowKey string
	Name                 string
	End                  time.Time
}

func example(ctx context.Context, e *run.Env) error {
	current, err := run.New[term](ctx, e, "Current")
	if err != nil {
		return err
	}
	archived, err := run.New[term](ctx, e, "Archive")
	if err != nil {
		return err
	}
	queue, err := e.Queue(ctx, "archive")
	if err != nil {
		return err
	}
	all, err := senate.Terms()
	if err != nil {
		return err
	}
	var rows []term
	asked := 0
	for _, t := range all {
		row := term{t.State, fmt.Sprintf("%s-%02d", t.Member, t.Number), t.Name, t.End}
		rows = append(rows, row)
	}
	if err := current.Bulk(ctx, tables.BulkInsert, rows); err != nil {
		return err
	}
	for _, row := range rows {
		// Two states of those whose terms have ended: enough to see the move, and the rest stays for comparison.
		if row.End.After(today) || row.PartitionKey != "VT" && row.PartitionKey != "WA" {
			continue
		}
		body, err := json.Marshal(archive.Key{PartitionKey: row.PartitionKey, RowKey: row.RowKey})
		if err != nil {
			return err
		}
		// The handlers of workers expect base64 by default, as the Functions host does.
		if _, err := e.Queues.NewQueueClient(queue).EnqueueMessage(ctx, base64.StdEncoding.EncodeToString(body),
			nil); err != nil {
			return err
		}
		asked++
	}
	target, err := archive.Table(e.Storage, archived.Name())
	if err != nil {
		return err
	}
	role, err := archive.New(e.Storage, current.Name(), target)
	if err != nil {
		return err
	}
	app := workers.New(workers.Config{Storage: e.Storage, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	role.Register(app, "archive", workers.WithQueueName(queue))
	if err := app.Start(ctx); err != nil {
		return err
	}
	// Not the length of the queue: messages in work are invisible, and an empty queue may still have some.
	if err := untilDone(ctx, app, asked); err != nil {
		return err
	}
	// The stop must not be cut short by the context that ends the example.
	if err := app.Stop(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	here, err := current.Query().AllowScan().Count(ctx)
	if err != nil {
		return err
	}
	there, err := archived.Query().AllowScan().Count(ctx)
	if err != nil {
		return err
	}
	e.Say("%d terms; %d asked to be archived: %d in Current, %d in Archive", len(rows), asked, here, there)
	return costs(ctx, e, role, queue, rows)
}

// costs prints what it costs to move one entity, without a message and with one. An app receives and deletes messages
// as this does, and also polls the empty queue.
func costs(ctx context.Context, e *run.Env, role *archive.Role, queue string, rows []term) error {
	first, second := archive.Key{PartitionKey: rows[0].PartitionKey, RowKey: rows[0].RowKey},
		archive.Key{PartitionKey: rows[1].PartitionKey, RowKey: rows[1].RowKey}
	err := e.Costs("an entity without a message: a crash leaves it in both tables", func() (string, error) {
		return "read, copied, deleted", role.Archive(ctx, first)
	})
	if err != nil {
		return err
	}
	messages := e.Queues.NewQueueClient(queue)
	err = e.Costs("an entity with a message: the work resumes after a crash", func() (string, error) {
		body, err := json.Marshal(second)
		if err != nil {
			return "", err
		}
		if _, err := messages.EnqueueMessage(ctx, base64.StdEncoding.EncodeToString(body), nil); err != nil {
			return "", err
		}
		got, err := messages.DequeueMessage(ctx, nil)
		if err != nil {
			return "", err
		}
		if n := len(got.Messages); n != 1 {
			return "", fmt.Errorf("%d messages, want 1", n)
		}
		// The message is deleted last: after a crash before that, it is received again, and the move goes on.
		if err := role.Archive(ctx, second); err != nil {
			return "", err
		}
		_, err = messages.DeleteMessage(ctx, *got.Messages[0].MessageID, *got.Messages[0].PopReceipt, nil)
		return "put, received, read, copied, deleted, acknowledged", err
	})
	if err != nil {
		return err
	}
	return e.Costs("the same message again, as after a crash", func() (string, error) {
		return "nothing left to do", role.Archive(ctx, second)
	})
}

// maxDelay is the time that the example waits for the worker.
const maxDelay = 2 * time.Minute

// untilDone waits until the worker has handled n messages.
func untilDone(ctx context.Context, app *workers.App, n int) error {
	ctx, cancel := context.WithTimeoutCause(ctx, maxDelay, fmt.Errorf("the worker has not finished after %v", maxDelay))
	defer cancel()
	for app.Stats()[0].Succeeded < int64(n) {
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}
