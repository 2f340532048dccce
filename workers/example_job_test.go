package workers_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lazuli-storage/lazuli/workers"
)

// A report is computed once, however often it is asked for, and its result is read by the ID of its job.
func ExampleStorage_EnqueueJob() {
	storage, stopServer := exampleStorage("reports")
	defer stopServer()

	type report struct{ Month string }
	ctx := context.Background()
	first, err := storage.EnqueueJob(ctx, "reports", report{"2026-05"}, workers.Unique("2026-05"),
		workers.Keep(24*time.Hour))
	if err != nil {
		fmt.Println(err)
	}
	second, err := storage.EnqueueJob(ctx, "reports", report{"2026-05"}, workers.Unique("2026-05"))
	fmt.Println("the same:", second.ID == first.ID, second.Duplicate, err)

	until, done := context.WithCancel(ctx)
	app := workers.New(workers.Config{Storage: storage, Logger: quiet})
	workers.Queue(app, "reports", func(ctx context.Context, m *workers.Message[report]) error {
		defer done()
		if err := workers.SetProgress(ctx, "reading the orders"); err != nil {
			return err
		}
		return workers.SetResult(ctx, map[string]int{"orders": 12})
	})
	if err := app.Run(until); err != nil {
		fmt.Println(err)
	}
	job, err := storage.Job(ctx, first.ID)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(job.State, job.Attempt, string(job.Result))
	// Output:
	// the same: true true <nil>
	// done 1 {"orders":12}
}

func ExampleStorage_CancelJob() {
	storage, stopServer := exampleStorage("imports")
	defer stopServer()

	ctx, done := context.WithCancel(context.Background())
	job, err := storage.EnqueueJob(ctx, "imports", "orders.csv")
	if err != nil {
		fmt.Println(err)
	}
	app := workers.New(workers.Config{Storage: storage, Logger: quiet})
	app.Queue("imports", func(ctx context.Context, _ workers.QueueMessage) error {
		// Another process would do this, or `lazuli jobs cancel`.
		state, err := storage.CancelJob(ctx, job.ID)
		fmt.Println(state, err)
		<-ctx.Done() // a handler that works passes ctx on
		fmt.Println(errors.Is(context.Cause(ctx), workers.ErrCancelled))
		done()
		return ctx.Err()
	})
	if err := app.Run(ctx); err != nil {
		fmt.Println(err)
	}
	ended, err := storage.Job(context.Background(), job.ID)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(ended.State)
	// Output:
	// cancelling <nil>
	// true
	// cancelled
}
