package workers_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/lazuli-storage/lazuli/internal/test/ownserver"
	"github.com/lazuli-storage/lazuli/workers"
)

// exampleStorage opens an account on a server that the examples share. Programs give a connection string of their own.
// Once an example has ended, its queues are deleted, since the next one may use their names.
func exampleStorage(queue string, bodies ...string) (storage *workers.Storage, stop func()) {
	storage, err := workers.OpenStorage(ownserver.ConnectionString())
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	client := storage.Queues.NewQueueClient(queue)
	if _, err := client.Create(ctx, nil); err != nil {
		panic(err)
	}
	for _, b := range bodies {
		if _, err := client.EnqueueMessage(ctx, base64.StdEncoding.EncodeToString([]byte(b)), nil); err != nil {
			panic(err)
		}
	}
	return storage, func() {
		for pages := storage.Queues.NewListQueuesPager(nil); pages.More(); {
			page, err := pages.NextPage(ctx)
			if err != nil {
				panic(err)
			}
			for _, q := range page.Queues {
				if _, err := storage.Queues.DeleteQueue(ctx, *q.Name, nil); err != nil {
					panic(err)
				}
			}
		}
	}
}

var quiet = slog.New(slog.DiscardHandler)

func ExampleQueue() {
	storage, stopServer := exampleStorage("orders", `{"id": 42, "item": "lapis"}`)
	defer stopServer()

	type order struct {
		ID   int
		Item string
	}
	ctx, done := context.WithCancel(context.Background())
	app := workers.New(workers.Config{Storage: storage, Logger: quiet})
	workers.Queue(app, "orders", func(ctx context.Context, m *workers.Message[order]) error {
		fmt.Printf("order %d: %s, attempt %d\n", m.Body.ID, m.Body.Item, m.Raw.DequeueCount)
		done()
		return nil
	})
	if err := app.Run(ctx); err != nil { // drains when ctx is done
		fmt.Println(err)
	}
	// Output: order 42: lapis, attempt 1
}

// A handler's error decides what becomes of its message.
func ExampleApp_Queue() {
	storage, stopServer := exampleStorage("work", "soon", "never")
	defer stopServer()

	app := workers.New(workers.Config{Storage: storage, Logger: quiet})
	results := make(chan string, 4)
	app.Queue("work", func(ctx context.Context, m workers.QueueMessage) error {
		switch {
		case string(m.Body) == "never":
			return workers.Permanent(errors.New("no such order")) // to the queue work-poison
		case m.DequeueCount < 3:
			return errors.New("not yet") // again, after the retry delay
		}
		results <- fmt.Sprintf("%s: done at attempt %d", m.Body, m.DequeueCount)
		return nil
	}, workers.WithMaxPollingInterval(100*time.Millisecond))

	if err := app.Start(context.Background()); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(<-results)
	if err := app.Stop(context.Background()); err != nil {
		fmt.Println(err)
	}
	fmt.Println("poisoned:", app.Stats()[0].Poisoned)
	// Output:
	// soon: done at attempt 3
	// poisoned: 1
}

// Middleware wraps every call; the first that is added is the outermost.
func ExampleApp_Use() {
	storage, stopServer := exampleStorage("work", "a message")
	defer stopServer()

	ctx, done := context.WithCancel(context.Background())
	app := workers.New(workers.Config{Storage: storage, Logger: quiet})
	app.Use(workers.MiddlewareFunc(func(next workers.Handler) workers.Handler {
		return func(ctx context.Context, mc *workers.MiddlewareContext) error {
			fmt.Println("before", mc.FunctionName)
			err := next(ctx, mc)
			fmt.Println("after", mc.FunctionName, err)
			return err
		}
	}))
	app.Queue("work", func(ctx context.Context, m workers.QueueMessage) error {
		fmt.Println(string(m.Body))
		done()
		return nil
	})
	if err := app.Run(ctx); err != nil {
		fmt.Println(err)
	}
	// Output:
	// before work
	// a message
	// after work <nil>
}

// A timer runs on one instance at a time, however many there are.
func ExampleApp_Timer() {
	storage, stopServer := exampleStorage("unused")
	defer stopServer()

	ctx, done := context.WithCancel(context.Background())
	app := workers.New(workers.Config{Storage: storage, Logger: quiet, HostID: "example"})
	app.Timer("tick", func(ctx context.Context, t workers.TimerInfo) error {
		fmt.Println("past due:", t.IsPastDue)
		done()
		return nil
	}, workers.WithSchedule("* * * * * *")) // every second
	if err := app.Run(ctx); err != nil {
		fmt.Println(err)
	}
	// Output: past due: false
}

// A handler's output: a message for another function, which begins at once.
func ExampleEnqueue() {
	storage, stopServer := exampleStorage("orders", `{"ID": 42}`)
	defer stopServer()

	type order struct{ ID int }
	ctx, done := context.WithCancel(context.Background())
	app := workers.New(workers.Config{Storage: storage, Logger: quiet})
	workers.Queue(app, "orders", func(ctx context.Context, m *workers.Message[order]) error {
		return workers.Enqueue(ctx, "invoices", map[string]int{"Order": m.Body.ID})
	})
	app.Queue("invoices", func(ctx context.Context, m workers.QueueMessage) error {
		fmt.Println(string(m.Body))
		done()
		return nil
	})
	if err := app.Run(ctx); err != nil {
		fmt.Println(err)
	}
	// Output: {"Order":42}
}

// Changes of a table, from what is there at the first start on.
func ExampleTable() {
	storage, stopServer := exampleStorage("unused")
	defer stopServer()
	ctx, done := context.WithCancel(context.Background())
	if _, err := storage.Tables.CreateTable(ctx, "Stock", nil); err != nil {
		fmt.Println(err)
	}
	if _, err := storage.Tables.NewClient("Stock").AddEntity(ctx,
		[]byte(`{"PartitionKey": "stones", "RowKey": "lapis", "Pieces": 7}`), nil); err != nil {
		fmt.Println(err)
	}

	type item struct {
		RowKey string
		Pieces int
	}
	app := workers.New(workers.Config{Storage: storage, Logger: quiet})
	workers.Table(app, "stock", func(ctx context.Context, c *workers.Change[item]) error {
		fmt.Println(c.Raw.Change, c.Entity.RowKey, c.Entity.Pieces)
		done()
		return nil
	}, workers.WithTable("Stock"), workers.WithExisting(true))
	if err := app.Run(ctx); err != nil {
		fmt.Println(err)
	}
	// Output: update lapis 7
}

// Messages of one customer are handled one after another, those of different customers at the same time.
func ExampleConcurrencyPerKey() {
	storage, stopServer := exampleStorage("orders", `{"Customer": "a", "ID": 1}`, `{"Customer": "a", "ID": 2}`)
	defer stopServer()

	type order struct {
		Customer string
		ID       int
	}
	ctx, done := context.WithCancel(context.Background())
	app := workers.New(workers.Config{Storage: storage, Logger: quiet})
	workers.Queue(app, "orders", func(ctx context.Context, m *workers.Message[order]) error {
		fmt.Println(m.Body.Customer, m.Body.ID)
		if m.Body.ID == 2 {
			done()
		}
		return nil
	}, workers.ConcurrencyPerKey(func(o order) string { return o.Customer }, 1))
	if err := app.Run(ctx); err != nil {
		fmt.Println(err)
	}
	// Output:
	// a 1
	// a 2
}
