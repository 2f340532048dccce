package durable_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/lazuli-storage/lazuli/server"
	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/durable"
	"github.com/lazuli-storage/lazuli/workers/durable/entity"
)

// exampleApp returns an app on a server of the example's own, so that it can run anywhere, and what starts and stops
// it. Programs give a connection string instead.
func exampleApp() (app *workers.App, start func() *durable.Client, stop func()) {
	quiet := slog.New(slog.DiscardHandler)
	s, err := server.Start(context.Background(), server.Config{InMemory: true, Log: quiet})
	if err != nil {
		panic(err)
	}
	engine := durable.NewEngine(durable.Options{Hub: "Examples"})
	app = workers.New(workers.Config{ConnectionString: s.ConnectionString(), Logger: quiet, Durable: engine})
	ctx := context.Background()
	start = func() *durable.Client {
		if err := app.Start(ctx); err != nil {
			panic(err)
		}
		client, err := engine.Client() // The hub is open once Start has returned.
		if err != nil {
			panic(err)
		}
		return client
	}
	return app, start, func() { _, _ = app.Stop(ctx), s.Stop(ctx) }
}

// A workflow has a name with types. A second start with the same ID is the same start.
func ExampleStart() {
	app, start, stop := exampleApp()
	defer stop()
	const greet durable.Workflow[string, string] = "greet"
	durable.Register(app, greet, func(ctx *durable.Context, name string) (string, error) {
		return durable.Call[string](ctx, "compose", name)
	})
	workers.Activity(app, "compose", func(_ context.Context, name string) (string, error) {
		return "Hello, " + name + "!", nil
	})
	client, ctx := start(), context.Background()
	for _, name := range []string{"Ada", "Bob"} {
		id, err := durable.Start(ctx, client, greet, name, durable.ID("message-7"))
		if err != nil {
			fmt.Println(err)
		}
		fmt.Println(durable.Result(ctx, client, greet, id))
	}
	// Output:
	// Hello, Ada! <nil>
	// Hello, Ada! <nil>
}

// Result says why a workflow has failed.
func ExampleResult() {
	app, start, stop := exampleApp()
	defer stop()
	const charge durable.Workflow[int, string] = "charge"
	durable.Register(app, charge, func(*durable.Context, int) (string, error) {
		return "", errors.New("the card is refused")
	})
	client, ctx := start(), context.Background()
	id, err := durable.Start(ctx, client, charge, 450, durable.ID("order-7"))
	if err != nil {
		fmt.Println(err)
	}
	_, err = durable.Result(ctx, client, charge, id)
	var failed *durable.FailedError
	fmt.Println(errors.As(err, &failed), err)
	// Output: true durable: "order-7" has ended as Failed: the card is refused
}

// An activity that fails is called again by a policy.
func ExampleWithRetry() {
	app, start, stop := exampleApp()
	defer stop()
	const fetch durable.Workflow[string, string] = "fetch"
	durable.Register(app, fetch, func(ctx *durable.Context, url string) (string, error) {
		return durable.Call[string](ctx, "get", url, durable.WithRetry(
			durable.RetryPolicy{MaxAttempts: 3, InitialRetryInterval: 10 * time.Millisecond, BackoffCoefficient: 2}))
	})
	attempts := 0
	workers.Activity(app, "get", func(_ context.Context, url string) (string, error) {
		if attempts++; attempts < 3 {
			return "", errors.New("no answer")
		}
		return url + " is there", nil
	})
	client, ctx := start(), context.Background()
	id, err := durable.Start(ctx, client, fetch, "/a")
	if err != nil {
		fmt.Println(err)
	}
	out, err := durable.Result(ctx, client, fetch, id)
	fmt.Println(out, err, attempts)
	// Output: /a is there <nil> 3
}

// Several activities run at once; the workflow waits for all of them.
func ExampleWhenAll() {
	app, start, stop := exampleApp()
	defer stop()
	const sum durable.Workflow[[]int, int] = "sum"
	durable.Register(app, sum, func(ctx *durable.Context, numbers []int) (int, error) {
		var calls []durable.Task
		for _, n := range numbers {
			calls = append(calls, ctx.CallActivity("square", durable.WithInput(n)))
		}
		squares, err := durable.WhenAll[int](calls...)
		total := 0
		for _, n := range squares {
			total += n
		}
		return total, err
	})
	workers.Activity(app, "square", func(_ context.Context, n int) (int, error) { return n * n, nil })
	client, ctx := start(), context.Background()
	id, err := durable.Start(ctx, client, sum, []int{1, 2, 3})
	if err != nil {
		fmt.Println(err)
	}
	fmt.Println(durable.Result(ctx, client, sum, id))
	// Output: 14 <nil>
}

// A workflow waits for a person, up to a week.
func ExampleWaitForEvent() {
	app, start, stop := exampleApp()
	defer stop()
	const approve durable.Workflow[string, string] = "approve"
	durable.Register(app, approve, func(ctx *durable.Context, item string) (string, error) {
		yes, err := durable.WaitForEvent[bool](ctx, "approved", 7*24*time.Hour)
		if errors.Is(err, durable.ErrTimeout) || err == nil && !yes {
			return item + " is released", nil
		}
		return item + " is sold", err
	})
	client, ctx := start(), context.Background()
	id, err := durable.Start(ctx, client, approve, "tea")
	if err != nil {
		fmt.Println(err)
	}
	if err := client.RaiseEvent(ctx, id, "approved", "true"); err != nil {
		fmt.Println(err)
	}
	fmt.Println(durable.Result(ctx, client, approve, id))
	// Output: tea is sold <nil>
}

// A handler of a queue starts a workflow once for each message, however often the message comes.
func ExampleClientFromContext() {
	app, start, stop := exampleApp()
	defer stop()
	const place durable.Workflow[string, string] = "place"
	durable.Register(app, place, func(_ *durable.Context, item string) (string, error) { return item + " placed", nil })
	handled := make(chan string, 1)
	app.Queue("orders", func(ctx context.Context, m workers.QueueMessage) error {
		client, _ := durable.ClientFromContext(ctx)
		id, err := durable.Start(ctx, client, place, string(m.Body), durable.ID("message-"+m.Id))
		handled <- id
		return err
	})
	app.Timer("first", func(ctx context.Context, _ workers.TimerInfo) error {
		return workers.Enqueue(ctx, "orders",
			"tea")
	},
		workers.WithSchedule("0 0 0 1 1 *"), workers.WithRunOnStartup(true))
	client, ctx := start(), context.Background()
	fmt.Println(durable.Result(ctx, client, place, <-handled))
	// Output: tea placed <nil>
}

// An entity keeps a state, and runs one operation at a time.
func Example_entity() {
	app, start, stop := exampleApp()
	defer stop()
	counter := new(entity.Kind[int])
	entity.Operation(counter, "add", func(_ *entity.Context, state *int, n int) (int, error) {
		*state += n
		return *state, nil
	})
	app.Entity("counter", counter)
	const count durable.Workflow[int, int] = "count"
	durable.Register(app, count, func(ctx *durable.Context, n int) (int, error) {
		visits := entity.ID("counter", "visits")
		if _, err := durable.CallEntity[int](ctx, visits, "add", n); err != nil {
			return 0, err
		}
		return durable.CallEntity[int](ctx, visits, "add", n)
	})
	client, ctx := start(), context.Background()
	id, err := durable.Start(ctx, client, count, 21)
	if err != nil {
		fmt.Println(err)
	}
	fmt.Println(durable.Result(ctx, client, count, id))
	// Output: 42 <nil>
}

// A client finds instances by status, name and time.
func ExampleClient_Query() {
	app, start, stop := exampleApp()
	defer stop()
	const echo durable.Workflow[string, string] = "echo"
	durable.Register(app, echo, func(_ *durable.Context, in string) (string, error) { return in, nil })
	client, ctx := start(), context.Background()
	for _, id := range []string{"a", "b"} {
		if _, err := durable.Start(ctx, client, echo, id, durable.ID(id)); err != nil {
			fmt.Println(err)
		}
		if _, err := durable.Result(ctx, client, echo, id); err != nil {
			fmt.Println(err)
		}
	}
	page, _, err := client.Query(ctx, durable.Query{Workflow: "echo", Status: []string{"Completed"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(page), "have completed")
	// Output: 2 have completed
}
