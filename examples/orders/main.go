// Command orders is a whole application: orders come by a queue; a workflow charges, ships, or gives the money back.
//
//	lazuli                                                                        # in one terminal
//	go run ./examples/orders                                                      # in another
//	lazuli queue put --create orders '{"ID": "7", "Item": "tea", "Cents": 450}'   # in a third
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/durable"
)

// Order is a message of the queue orders.
type Order struct {
	ID, Item string
	Cents    int
}

// PlaceOrder is the workflow. Its output is what has become of the order.
const PlaceOrder durable.Workflow[Order, string] = "place-order"

func main() {
	// Lines that a handler logs with its context say which call they belong to.
	slog.SetDefault(slog.New(workers.NewLogHandler(slog.NewTextHandler(os.Stderr, nil))))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := newApp(workers.Config{}).Run(ctx); err != nil { // until ctx is done; then running handlers end
		slog.Error("the app has failed", "err", err)
		os.Exit(1)
	}
}

// newApp registers the functions. The tests make the same app with a storage of their own.
func newApp(config workers.Config) *workers.App {
	config.Durable = durable.NewEngine(durable.Options{Hub: "Orders"})
	app := workers.New(config)
	workers.Queue(app, "orders", receive)
	durable.Register(app, PlaceOrder, placeOrder)
	workers.Activity(app, "charge", charge)
	workers.Activity(app, "ship", ship)
	workers.Activity(app, "refund", refund)
	workers.Activity(app, "record", record)
	return app
}

// receive starts the workflow. A message can come twice: with the order's ID, the second start is the same start.
func receive(ctx context.Context, m *workers.Message[Order]) error {
	client, _ := durable.ClientFromContext(ctx)
	_, err := durable.Start(ctx, client, PlaceOrder, m.Body, durable.ID("order-"+m.Body.ID))
	return err
}

// placeOrder runs again from its beginning at each step, with the results of the steps before. So it must do the same
// each time, and leaves all effects to activities.
func placeOrder(ctx *durable.Context, o Order) (string, error) {
	outcome := "shipped"
	if _, err := durable.Call[string](ctx, "charge", o); err != nil {
		outcome = "refused"
	} else if _, err := durable.Call[string](ctx, "ship", o); err != nil {
		outcome = "refunded"
		if _, err := durable.Call[string](ctx, "refund", o); err != nil {
			return "", err
		}
	}
	_, err := durable.Call[string](ctx, "record", Outcome{"orders", o.ID, outcome})
	return outcome, err
}

// Payment is a row of the table Payments.
type Payment struct {
	Customer string `table:"PartitionKey"`
	Order    string `table:"RowKey"`
	Cents    int64
}

// charge may run more than once for an order, as every activity: the row has the order's key, so that a second run
// writes the same row.
func charge(ctx context.Context, o Order) (string, error) {
	if o.Cents > 100_00 {
		return "", fmt.Errorf("the card does not cover %d cents", o.Cents)
	}
	return "charged", workers.Upsert(ctx, "Payments", Payment{"customers", o.ID, int64(o.Cents)})
}

// refund undoes charge.
func refund(ctx context.Context, o Order) (string, error) {
	return "refunded", workers.Upsert(ctx, "Payments", Payment{"customers", o.ID, 0})
}

// ship writes the parcel's label as a blob.
func ship(ctx context.Context, o Order) (string, error) {
	if o.Item == "piano" {
		return "", fmt.Errorf("there is no %s in stock", o.Item)
	}
	slog.InfoContext(ctx, "shipping", "order", o.ID, "item", o.Item)
	return "shipped", workers.Upload(ctx, "labels", o.ID+".txt", "One "+o.Item+" for order "+o.ID)
}

// Outcome is a row of the table Outcomes, and the message of the queue outcomes.
type Outcome struct {
	Kind    string `table:"PartitionKey"`
	Order   string `table:"RowKey"`
	Outcome string
}

// record writes down what has become of an order, and announces it.
func record(ctx context.Context, o Outcome) (string, error) {
	if err := workers.Upsert(ctx, "Outcomes", o); err != nil {
		return "", err
	}
	return "recorded", workers.Enqueue(ctx, "outcomes", o)
}
