package sidecar_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/lazulitest"
	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/durable"
	"github.com/lazuli-storage/lazuli/workers/durabletask"
	"github.com/lazuli-storage/lazuli/workers/durabletask/task"
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
	case <-time.After(check.Patience):
		t.Fatal("the orchestration did not end")
	}
}

// An orchestrator counts with an entity; the test has the clock, and waits for nothing.
func TestEntity(t *testing.T) {
	t.Parallel()
	clock := lazulitest.NewClock()
	account := lazulitest.Start(t, lazulitest.WithFakeClock(clock)).Account(t)
	engine := durable.NewEngine(durable.Options{})
	app := workers.New(workers.Config{Storage: account.Storage, Logger: slog.New(slog.DiscardHandler), Clock: clock,
		Durable: engine})
	type counter struct{ Value int }
	id := durabletask.EntityID("Counter", "one")
	app.Use(durabletask.Middleware(
		durabletask.WithEntity("counter", durabletask.Operation(durabletask.NewEntity[counter](), "add",
			func(_ *durabletask.EntityContext, s *counter, n int) (int, error) {
				s.Value += n
				return s.Value, nil
			})),
		durabletask.WithOrchestrator("count", func(ctx *task.OrchestrationContext) (any, error) {
			unlock, err := durabletask.LockEntities(ctx, id)
			if err != nil {
				return nil, err
			}
			defer unlock()
			if err := ctx.CreateTimer(time.Hour).Await(nil); err != nil {
				return nil, err
			}
			return durabletask.CallEntity[int](ctx, id, "add", 2)
		})))
	var client *durabletask.Client
	app.Queue("clients", func(ctx context.Context, _ workers.QueueMessage) error {
		client, _ = durabletask.ClientFromContext(ctx)
		return client.SignalEntity(ctx, id, "add", 1)
	})
	account.Run(app)
	account.Drain()
	account.Put("clients", "go")
	account.Drain()
	instance, err := client.ScheduleNewOrchestration(t.Context(), "count", nil)
	if err != nil {
		t.Fatal(err)
	}
	account.Drain()
	clock.Advance(time.Hour)
	// The jump ended leases: a message that was received meanwhile is hidden for a while, and Drain does not wait for it.
	check.Eventually(t, func() bool {
		clock.Advance(time.Second)
		account.Drain()
		s, err := client.GetStatus(t.Context(), instance)
		check.OK(t, err)
		return s.Output == "3"
	}, "the workflow returns what the entity has")
	var state counter
	if ok, err := client.GetEntityState(t.Context(), id, &state); err != nil || !ok || state.Value != 3 {
		t.Errorf("the state is %+v, %v, %v", state, ok, err)
	}
	if ok, err := client.GetEntityState(t.Context(), durabletask.EntityID("counter", "none"), &state); err != nil || ok {
		t.Errorf("an entity that is not there: %v, %v", ok, err)
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
