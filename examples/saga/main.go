// Command saga runs orders as durable workflows over a table, a queue and a blob, with compensations:
//
//	lazuli &
//	go run ./examples/saga
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"

	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/durable"
	"github.com/lazuli-storage/lazuli/workers/roles/saga"
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
	s := &saga.Saga{Storage: storage, Orders: "SagaOrders", Archive: "SagaArchive", Payments: "saga-payments",
		Receipts: "saga-receipts"}
	if err := s.Create(ctx); err != nil {
		return err
	}
	engine := durable.NewEngine(durable.Options{Hub: "Saga"})
	app := workers.New(workers.Config{Storage: storage, Durable: engine})
	s.Register(app)
	if err := app.Start(ctx); err != nil {
		return err
	}
	defer app.Stop(context.WithoutCancel(ctx))
	client, err := engine.WaitClient(ctx)
	if err != nil {
		return err
	}
	for _, o := range []string{`{"ID": "1", "Item": "tea"}`, `{"ID": "2", "Item": "coffee", "Refused": true}`} {
		id, err := client.Start(ctx, "order", durable.StartOptions{Input: o})
		if err != nil {
			return err
		}
		i, err := client.Wait(ctx, id)
		if err != nil {
			return err
		}
		fmt.Println(o, "is", i.Output)
	}
	return nil
}
