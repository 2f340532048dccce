package workers_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/lazuli-storage/lazuli/internal/stack"
	"github.com/lazuli-storage/lazuli/workers"
)

// A server of the example's own, so that it can run anywhere. Programs give a connection string instead.
func exampleStorage(queue string, bodies ...string) (storage *workers.Storage, stop func()) {
	s, err := stack.Start(stack.Config{InMemory: true, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		panic(err)
	}
	storage, err = workers.OpenStorage(s.ConnectionString())
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
	return storage, func() { _ = s.Stop(ctx) }
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
