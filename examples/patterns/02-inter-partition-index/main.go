// Inter-partition secondary index: a second copy of each entity in another partition or table, updated afterwards.
//
// Problem: senators are stored by state. To find those of a party, the whole table has to be read, and no transaction
// spans partitions, so that a copy by party cannot be written together with the original.
//
// Solution: a worker keeps the copies, eventually. It learns of changes from queue messages, which the writer puts
// around each write, or on Lazuli from the table's change log, which needs no change of the writer. Package
// workers/roles/tableindex does the rest: it reads the current state, writes under ETags, and can be killed at any
// step; `lazuli demo inter-partition-index` tests that.
//
// When: lookups do not know the PartitionKey, and readers tolerate a short delay. Cost: twice the storage, some
// requests for each change in the background; a lookup is a range query.
//
//	go run ./examples/patterns/02-inter-partition-index
package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/lazuli-storage/lazuli/examples/patterns/run"
	"github.com/lazuli-storage/lazuli/examples/patterns/senate"
	"github.com/lazuli-storage/lazuli/tables"
	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/roles/tableindex"
)

func main() { run.Main(example) }

// byParty is the key of a senator's copy.
func byParty(e *tables.Entity) (tables.Key, bool) {
	party, err := tables.Value[string](e, "Party")
	return tables.Key{PartitionKey: party, RowKey: e.PartitionKey + " " + e.RowKey}, err == nil
}

func example(ctx context.Context, e *run.Env) error {
	table, err := run.New[tables.Entity](ctx, e, "Senators")
	if err != nil {
		return err
	}
	all, err := senate.Senators()
	if err != nil {
		return err
	}
	var entities []tables.Entity
	for _, t := range all {
		entities = append(entities, tables.Entity{PartitionKey: t.State, RowKey: t.Member,
			Properties: map[string]any{"Name": t.Name, "Party": t.Party}})
	}
	queue, err := e.Queue(ctx, "by-party")
	if err != nil {
		return err
	}
	indexName := e.Name("ByQueue")
	byQueue, err := tableindex.New(e.Storage, table.Name(), indexName, tableindex.Copies(byParty))
	if err != nil {
		return err
	}
	app := workers.New(workers.Config{Storage: e.Storage, HostID: queue[:min(len(queue), 32)],
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	byQueue.RegisterQueue(app, "by-queue", workers.WithQueueName(queue),
		workers.WithRetry(workers.Fixed(100*time.Millisecond)))
	roles := []*tableindex.Role{byQueue}

	// On Lazuli, a second index follows the table without messages.
	changes, err := e.Storage.HasTableChanges(ctx, table.Name())
	if err != nil {
		return err
	}
	if changes {
		byChanges, err := tableindex.New(e.Storage, table.Name(), e.Name("ByChanges"), tableindex.Copies(byParty))
		if err != nil {
			return err
		}
		byChanges.Register(app, "by-changes")
		roles = append(roles, byChanges)
	}

	// The writer puts a message with a delay, makes the change, and puts the message again. The first one is for a writer
	// that crashes in between: without its delay it could be handled before the change, without effect. The second one
	// saves the wait.
	put := func(key tables.Key, before, after *tables.Entity, delay time.Duration) error {
		body, err := json.Marshal(byQueue.Message(key, before, after))
		if err != nil {
			return err
		}
		_, err = e.Queues.NewQueueClient(queue).EnqueueMessage(ctx, base64.StdEncoding.EncodeToString(body),
			&azqueue.EnqueueMessageOptions{VisibilityTimeout: to.Ptr(int32(delay.Seconds()))})
		return err
	}
	for i := range entities { // No delay: the worker is not running yet.
		if err := put(tables.Key{PartitionKey: entities[i].PartitionKey, RowKey: entities[i].RowKey}, nil, &entities[i],
			0); err != nil {
			return err
		}
	}
	if err := table.Bulk(ctx, tables.BulkInsert, entities); err != nil {
		return err
	}
	if err := app.Start(ctx); err != nil {
		return err
	}
	defer func() { _ = app.Stop(context.WithoutCancel(ctx)) }()
	if err := untilInStep(ctx, roles); err != nil {
		return err
	}

	// A senator changes party: the copy moves.
	before := entities[len(entities)-1]
	after := before
	after.Properties = map[string]any{"Name": before.Properties["Name"], "Party": "Independent"}
	key := tables.Key{PartitionKey: after.PartitionKey, RowKey: after.RowKey}
	if err := put(key, &before, &after, time.Minute); err != nil {
		return err
	}
	if err := table.Replace(ctx, &after); err != nil {
		return err
	}
	if err := put(key, &before, &after, 0); err != nil {
		return err
	}
	if err := untilInStep(ctx, roles); err != nil {
		return err
	}
	if err := app.Stop(ctx); err != nil {
		return err
	}

	index, err := tables.New[tables.Entity](e.Service, indexName)
	if err != nil {
		return err
	}
	names := func(q *tables.Query[tables.Entity]) func() (string, error) {
		return func() (string, error) {
			n := 0
			for _, err := range q.All(ctx) {
				if err != nil {
					return "", err
				}
				n++
			}
			return fmt.Sprint(n, " independents"), nil
		}
	}
	if err := e.Costs("of a party, without index: a scan of the table",
		names(table.Query(tables.Field("Party").Eq("Independent")).AllowScan())); err != nil {
		return err
	}
	return e.Costs("of a party, with index: its partition", names(index.Query(tables.PartitionKey.Eq("Independent"))))
}

// maxDelay is the time that the example waits for the indexes.
const maxDelay = 2 * time.Minute

// untilInStep waits until the indexes agree with the table.
func untilInStep(ctx context.Context, roles []*tableindex.Role) error {
	ctx, cancel := context.WithTimeoutCause(ctx, maxDelay, fmt.Errorf("an index is not in step after %v", maxDelay))
	defer cancel()
	for _, r := range roles {
		for {
			differences, err := r.Verify(ctx)
			if err == nil && len(differences) == 0 {
				break
			}
			select {
			case <-time.After(50 * time.Millisecond):
			case <-ctx.Done():
				return errors.Join(context.Cause(ctx), err)
			}
		}
	}
	return nil
}
