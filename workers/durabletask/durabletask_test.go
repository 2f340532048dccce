package durabletask_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/microsoft/durabletask-go/task"

	"github.com/lazuli-storage/lazuli/lazulitest"
	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/durable"
	"github.com/lazuli-storage/lazuli/workers/durabletask"
)

func helloCities(ctx *task.OrchestrationContext) (any, error) {
	var all []string
	for _, city := range []string{"Tokyo", "London"} {
		var hello string
		if err := ctx.CallActivity("SayHello", task.WithActivityInput(city)).Await(&hello); err != nil {
			return nil, err
		}
		all = append(all, hello)
	}
	return all, nil
}

func sayHello(_ context.Context, city string) (string, error) { return "Hello, " + city + "!", nil }

// A queue handler starts an orchestration with the client from its context, as programs for Azure Functions do.
func TestHandlerStartsOrchestration(t *testing.T) {
	t.Parallel()
	account := lazulitest.Start(t).Account(t)
	app := workers.New(workers.Config{Storage: account.Storage, Logger: slog.New(slog.DiscardHandler),
		Durable: durable.NewEngine(durable.Options{})})
	app.Use(durabletask.Middleware(
		durabletask.WithOrchestrator("HelloCities", helloCities),
		durabletask.WithActivity("SayHello", sayHello),
	))
	done := make(chan *durabletask.OrchestrationStatus, 1)
	app.Queue("start", func(ctx context.Context, m workers.QueueMessage) error {
		client, ok := durabletask.ClientFromContext(ctx)
		if !ok {
			return workers.RetryAfter(context.Canceled, time.Second) // The hub is not open yet.
		}
		id, err := client.ScheduleNewOrchestration(ctx, "HelloCities", nil)
		if err != nil {
			return err
		}
		status, err := client.WaitForCompletion(ctx, id)
		if err == nil {
			done <- status
		}
		return err
	})
	account.Run(app)
	account.Put("start", "go")
	select {
	case s := <-done:
		if s.RuntimeStatus != "Completed" || s.Output != `["Hello, Tokyo!","Hello, London!"]` {
			t.Errorf("the status is %+v", s)
		}
	case <-time.After(time.Minute):
		t.Fatal("the orchestration did not end within a minute")
	}
}

func TestActivityOfAnotherShapePanics(t *testing.T) {
	t.Parallel()
	for name, fn := range map[string]any{
		"nil": nil, "no context": func(string) error { return nil }, "no error": func(context.Context) string { return "" },
		"three":    func(context.Context, int, int) error { return nil },
		"variadic": func(context.Context, ...int) error { return nil },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: accepted", name)
				}
			}()
			durabletask.WithActivity("a", fn)(durabletask.Middleware())
		}()
	}
}
