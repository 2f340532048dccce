// Eventually consistent transaction: a change of two partitions, tables or services without a common transaction, made safe by a queue.
//
// Problem: a term that is over moves from the table Current to the table Archive. A crash between the insert and the delete leaves it in both tables; in the
// reverse order, in neither table.
//
// Solution: a message says what to do; a worker inserts into the archive, deletes from the table, and only then deletes the message. Every step may be
// repeated, so the work resumes after a crash when the message is delivered again. This is the built-in role archive; `lazuli demo archive` kills it at each step.
//
// When: all changes must happen eventually, and readers tolerate intermediate states. Cost: a message and five requests for each entity.
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

// today is when the example plays.
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
		if row.End.After(today) || row.PartitionKey != "VT" && row.PartitionKey != "WA" {
			continue
		}
		body, err := json.Marshal(archive.Key{PartitionKey: row.PartitionKey, RowKey: row.RowKey})
		if err != nil {
			return err
		}
		if _, err := e.Queues.NewQueueClient(queue).EnqueueMessage(ctx, base64.StdEncoding.EncodeToString(body), nil); err != nil {
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
	for app.Stats()[0].Succeeded < int64(asked) && ctx.Err() == nil {
		time.Sleep(20 * time.Millisecond)
	}
	if err := app.Stop(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	here, err := current.Query().AllowScan().Count(ctx)
	if err != nil {
		return err
	}
	there, err := archived.Query().AllowScan().Count(ctx)
	e.Say("%d terms; %d asked to be archived: %d in Current, %d in Archive", len(rows), asked, here, there)
	return err
}
