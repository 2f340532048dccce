package lazulitest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/lazulitest"
	"github.com/lazuli-storage/lazuli/workers"
)

type purchase struct {
	ID   int
	Item string
}

// exampleTB stands for the *testing.T of a test, which examples do not have.
type exampleTB struct {
	testing.TB
	end []func()
}

func (t *exampleTB) Helper()                           {}
func (t *exampleTB) Context() context.Context          { return context.Background() }
func (t *exampleTB) Cleanup(f func())                  { t.end = append(t.end, f) }
func (t *exampleTB) Errorf(format string, args ...any) { fmt.Printf(format+"\n", args...) }
func (t *exampleTB) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

func (t *exampleTB) cleanUp() {
	for i := range t.end {
		t.end[len(t.end)-1-i]()
	}
}

// newApp is the app that the examples test: it ships orders.
func newApp(config workers.Config) *workers.App {
	app := workers.New(config)
	workers.Queue(app, "orders", func(ctx context.Context, m *workers.Message[purchase]) error {
		if m.Body.Item == "" {
			return errors.New("an order of nothing")
		}
		return errors.Join(workers.Enqueue(ctx, "invoices", m.Body), workers.Upsert(ctx, "Shipped",
			map[string]any{"PartitionKey": "eu", "RowKey": m.Body.Item}), workers.Upload(ctx, "slips", m.Body.Item, "packed"))
	}, workers.WithRetry(workers.Fixed(time.Minute)))
	return app
}

// A test puts messages, runs the app until nothing is left to do, and looks at what has become of them.
func Example() {
	t := &exampleTB{} // in a test, its *testing.T
	defer t.cleanUp()
	account := lazulitest.Start(t).Account(t)
	account.Run(newApp(workers.Config{Storage: account.Storage}))
	account.Put("orders", purchase{42, "lamp"})
	account.Drain()
	account.RequireEnqueued("invoices", map[string]any{"ID": 42}) // with more properties
	account.RequireEntity("Shipped", "eu", "lamp", nil)
	account.RequireEmpty("orders")
	fmt.Println(account.Messages("invoices"))
	// Output: [{"ID":42,"Item":"lamp"}]
}

// With a clock, five attempts a minute apart take no time.
func ExampleNewClock() {
	t := &exampleTB{} // in a test, its *testing.T
	defer t.cleanUp()
	clock := lazulitest.NewClock()
	account := lazulitest.Start(t, lazulitest.WithFakeClock(clock)).Account(t)
	account.Run(newApp(workers.Config{Storage: account.Storage, Clock: clock}))
	account.Put("orders", purchase{ID: 43}) // of nothing: it fails
	for range 5 {
		account.Drain()
		clock.Advance(time.Minute)
	}
	account.RequireEnqueued("orders-poison", purchase{ID: 43})
	fmt.Println(account.Messages("orders"), account.Messages("orders-poison"))
	// Output: [] [{"ID":43,"Item":""}]
}

// A request that fails is repeated by the client; RequireFaultHit says that there was one.
func ExampleLazuli_AddFault() {
	t := &exampleTB{} // in a test, its *testing.T
	defer t.cleanUp()
	lazuli := lazulitest.Start(t)
	account := lazuli.Account(t)
	fault := lazuli.AddFault(t, lazulitest.FaultRule{Operation: "Put Blob", Unanswered: true, Count: 1})
	account.Run(newApp(workers.Config{Storage: account.Storage}))
	account.Put("orders", purchase{44, "desk"})
	account.Drain()
	lazuli.RequireFaultHit(t, fault)
	account.RequireEntity("Shipped", "eu", "desk", nil)
	fmt.Println(lazuli.FaultHits(t, fault))
	// Output: 1
}
