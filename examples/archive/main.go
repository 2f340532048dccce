// This program uses the archive role: it moves terms of office that have ended from the table Current to the table
// Archive.
//
//	go run ./cmd/lazuli          # in one terminal
//	go run ./examples/archive    # in another
//
// It can be stopped and started at any moment and then continues where it stopped; `lazuli demo eventual-transaction` tests this by
// killing workers at every step. The connection string is read from the environment; the default is the development
// account on this machine.
package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/roles/archive"
)

func main() {
	flag.Parse() // It has no flags: each one is an error.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	storage, err := workers.OpenStorage(workers.ConnectionFromEnvironment())
	if err != nil {
		return err
	}
	asked, err := prepare(ctx, storage)
	if err != nil {
		return err
	}
	fmt.Printf("put %d messages, one for each term to archive\n", asked)

	target, err := archive.Table(storage, "Archive")
	if err != nil {
		return err
	}
	role, err := archive.New(storage, "Current", target)
	if err != nil {
		return err
	}
	app := workers.New(workers.Config{Storage: storage})
	role.Register(app, "archive")
	if err := app.Start(ctx); err != nil {
		return err
	}
	waited := untilEmpty(ctx, storage.Queues.NewQueueClient("archive"))
	if err := errors.Join(waited, app.Stop(context.Background())); err != nil {
		return err
	}
	fmt.Printf("archived %d\n", app.Stats()[0].Succeeded)
	return nil
}

// untilEmpty waits until the queue has no messages, visible or hidden, or ctx is done. It asks the queue because other
// programs may handle messages too.
func untilEmpty(ctx context.Context, queue *azqueue.QueueClient) error {
	for ctx.Err() == nil {
		properties, err := queue.GetProperties(ctx, nil)
		if err != nil && ctx.Err() == nil {
			return err
		}
		if err == nil && *properties.ApproximateMessagesCount == 0 {
			return nil
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	return nil
}

// prepare stores the terms in Current and puts a message for each that has ended.
func prepare(ctx context.Context, storage *workers.Storage) (asked int, err error) {
	_, err1 := storage.Tables.CreateTable(ctx, "Current", nil)
	_, err2 := storage.Tables.CreateTable(ctx, "Archive", nil)
	queue := storage.Queues.NewQueueClient("archive")
	_, err3 := queue.Create(ctx, nil)
	if err := errors.Join(unlessExists(err1), unlessExists(err2), err3); err != nil {
		return 0, err
	}
	terms, err := loadTerms()
	if err != nil {
		return 0, err
	}
	current := storage.Tables.NewClient("Current")
	for _, t := range terms {
		entity, err := json.Marshal(aztables.EDMEntity{
			Entity:     aztables.Entity{PartitionKey: t.partitionKey(), RowKey: t.rowKey()},
			Properties: map[string]any{"Name": t.name, "Chamber": t.chamber, "End": aztables.EDMDateTime(t.end)},
		})
		if err != nil {
			return 0, err
		}
		if _, err := current.UpsertEntity(ctx, entity, nil); err != nil {
			return 0, err
		}
		// A term that still runs stays in Current. The entity is stored before its message is put: the role would find
		// nothing to archive otherwise.
		if t.end.After(time.Now()) {
			continue
		}
		message, err := json.Marshal(archive.Key{PartitionKey: t.partitionKey(), RowKey: t.rowKey()})
		if err != nil {
			return 0, err
		}
		if _, err := queue.EnqueueMessage(ctx, base64.StdEncoding.EncodeToString(message), nil); err != nil {
			return 0, err
		}
		asked++
	}
	return asked, nil
}

func unlessExists(err error) error {
	var r *azcore.ResponseError
	if errors.As(err, &r) && r.ErrorCode == string(aztables.TableAlreadyExists) {
		return nil
	}
	return err
}
