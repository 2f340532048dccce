package server_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"log"
	"log/slog"

	"github.com/lazuli-storage/lazuli/server"
	"github.com/lazuli-storage/lazuli/tables"
	"github.com/lazuli-storage/lazuli/workers"
)

type order struct{ ID, Item string }

type shipment struct{ PartitionKey, RowKey, Item string }

// A program with its storage and its workers in one process: it puts an order into a queue, and a worker ships it and
// stores that in a table. Clients reach the services without a connection; other programs can reach them at
// s.ConnectionString().
func Example() {
	ctx := context.Background()
	s, err := server.Start(ctx, server.Config{InMemory: true}) // Location: "data" keeps everything in that folder
	if err != nil {
		log.Fatal(err)
	}
	defer s.Stop(ctx)

	storage, err := workers.OpenServer(s)
	if err != nil {
		log.Fatal(err)
	}
	shipments, err := tables.New[shipment](storage.Tables, "Shipments", tables.CreateIfMissing())
	if err != nil {
		log.Fatal(err)
	}
	orders := storage.Queues.NewQueueClient("orders")
	if _, err := orders.Create(ctx, nil); err != nil {
		log.Fatal(err)
	}
	shipped := make(chan string)
	app := workers.New(workers.Config{Storage: storage, Logger: slog.New(slog.DiscardHandler)})
	workers.Queue(app, "orders", func(ctx context.Context, m *workers.Message[order]) error {
		if err := shipments.InsertOrReplace(ctx, &shipment{"2026", m.Body.ID, m.Body.Item}); err != nil {
			return err // the message becomes visible again
		}
		shipped <- m.Body.ID
		return nil
	})
	if err := app.Start(ctx); err != nil {
		log.Fatal(err)
	}
	defer app.Stop(ctx)

	message := base64.StdEncoding.EncodeToString([]byte(`{"ID": "42", "Item": "lamp"}`))
	if _, err := orders.EnqueueMessage(ctx, message, nil); err != nil {
		log.Fatal(err)
	}
	id := <-shipped
	e, err := shipments.Get(ctx, tables.Key{PartitionKey: "2026", RowKey: id})
	fmt.Println(id, e.Item, err)
	// Output: 42 lamp <nil>
}
