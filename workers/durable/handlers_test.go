package durable_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	azlease "github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/lease"

	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/lazulitest"
	"github.com/lazuli-storage/lazuli/tables"
	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/durable"
	"github.com/lazuli-storage/lazuli/workers/durable/entity"
)

const echo durable.Workflow[string, string] = "echo"

func registerEcho(app *workers.App) {
	durable.Register(app, echo, func(_ *durable.Context, in string) (string, error) { return in, nil })
}

// Handlers of every trigger have the client from their first call on: work that was waiting when the app started is not
// lost to failures.
func TestTriggersWaitForTheHub(t *testing.T) {
	t.Parallel()
	account := lazulitest.Start(t).Account(t)
	app := workers.New(workers.Config{Storage: account.Storage, Logger: slog.New(slog.DiscardHandler),
		Durable: durable.NewEngine(durable.Options{})})
	registerEcho(app)
	begin := func(ctx context.Context, id string) error {
		client, _ := durable.ClientFromContext(ctx)
		_, err := durable.Start(ctx, client, echo, id, durable.ID(id))
		return err
	}
	app.Queue("orders", func(ctx context.Context, m workers.QueueMessage) error { return begin(ctx, string(m.Body)) })
	app.Blob("uploads", func(ctx context.Context, _ *blob.Client) error { return begin(ctx, "blob") },
		workers.WithPath("uploads/{name}"))
	workers.Table(app, "rows", func(ctx context.Context, _ *workers.Change[tables.Entity]) error {
		return begin(ctx, "table")
	}, workers.WithTable("Rows"), workers.WithExisting(true))
	app.Timer("nightly", func(ctx context.Context, _ workers.TimerInfo) error { return begin(ctx, "timer") },
		workers.WithSchedule("0 0 0 * * *"), workers.WithRunOnStartup(true))
	ids := []string{"blob", "table", "timer"}
	for i := range 40 {
		id := fmt.Sprintf("order-%d", i)
		account.Put("orders", id)
		ids = append(ids, id)
	}
	account.PutBlob("uploads", "a.txt", "a")
	account.PutEntity("Rows", map[string]any{"PartitionKey": "p", "RowKey": "r"})
	account.Run(app)
	account.Drain()
	for _, s := range app.Stats() {
		if s.Failed > 0 {
			t.Errorf("%s has failed %d times: %v", s.Name, s.Failed, s.LastError.Err)
		}
	}
	client, err := clientOf(t, account)
	check.OK(t, err)
	for _, id := range ids {
		if out, err := durable.Result(t.Context(), client, echo, id); err != nil || out != id {
			t.Errorf("the workflow %q: %q, %v", id, out, err)
		}
	}
	account.RequireEmpty("orders-poison")
}

func clientOf(t *testing.T, account *lazulitest.Account) (*durable.Client, error) {
	return durable.NewClient(t.Context(), durable.Options{Storage: account.Storage})
}

// An app that has an engine and no workflows starts those of others.
func TestAppThatOnlyStartsWorkflows(t *testing.T) {
	t.Parallel()
	account := lazulitest.Start(t).Account(t)
	app := workers.New(workers.Config{Storage: account.Storage, Logger: slog.New(slog.DiscardHandler),
		Durable: durable.NewEngine(durable.Options{})})
	app.Queue("orders", func(ctx context.Context, m workers.QueueMessage) error {
		client, _ := durable.ClientFromContext(ctx)
		_, err := durable.Start(ctx, client, echo, "x", durable.ID(m.Id))
		return err
	})
	account.Put("orders", "x")
	account.Run(app)
	account.Drain()
	client, err := clientOf(t, account)
	check.OK(t, err)
	if page, _, err := client.Query(t.Context(), durable.Query{}); err != nil || len(page) != 1 ||
		page[0].Status != "Pending" {
		t.Errorf("got %+v, %v; want one instance, which nobody runs", page, err)
	}
}

func TestStartWithoutClient(t *testing.T) {
	t.Parallel()
	client, ok := durable.ClientFromContext(t.Context())
	if _, err := durable.Start(t.Context(), client, echo, "x"); ok || !errors.Is(err, durable.ErrNoClient) {
		t.Errorf("got %v, %v", ok, err)
	}
	if _, err := client.Start(t.Context(), "echo", durable.StartOptions{}); !errors.Is(err, durable.ErrNoClient) {
		t.Errorf("Client.Start: %v", err)
	}
	if _, err := durable.Result(t.Context(), client, echo, "x"); !errors.Is(err, durable.ErrNoClient) {
		t.Errorf("Result: %v", err)
	}
}

// An app whose workflows cannot run does not start, and says why.
func TestRefusedSetupEndsStart(t *testing.T) {
	t.Parallel()
	account := lazulitest.Start(t).Account(t)
	app := workers.New(workers.Config{Storage: account.Storage, Logger: slog.New(slog.DiscardHandler),
		Durable: durable.NewEngine(durable.Options{Hub: "x"})})
	registerEcho(app)
	var calls atomic.Int32
	app.Queue("orders", func(context.Context, workers.QueueMessage) error { calls.Add(1); return nil })
	account.Put("orders", "1")
	if err := app.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "hub name") || calls.Load() != 0 {
		t.Errorf("got %v after %d calls", err, calls.Load())
	}
	if err := app.Stop(t.Context()); err != nil {
		t.Errorf("the stop of an app that has not started: %v", err)
	}
}

func TestSecondStartIsTheSame(t *testing.T) {
	t.Parallel()
	account := lazulitest.Start(t).Account(t)
	engine := durable.NewEngine(durable.Options{})
	app := workers.New(workers.Config{Storage: account.Storage, Logger: slog.New(slog.DiscardHandler), Durable: engine})
	registerEcho(app)
	const fail durable.Workflow[string, int] = "fail"
	durable.Register(app, fail, func(*durable.Context, string) (int, error) { return 0, errors.New("broken") })
	account.Run(app)
	client, err := engine.Client() // at once: Start has returned
	check.OK(t, err)
	for _, in := range []string{"first", "second", "third"} {
		id, err := durable.Start(t.Context(), client, echo, in, durable.ID("7"))
		check.OK(t, err)
		if out, err := durable.Result(t.Context(), client, echo, id); err != nil || out != "first" {
			t.Errorf("after the start with %q: %q, %v; want the first", in, out, err)
		}
	}
	if _, err := durable.Start(t.Context(), client, fail, "x", durable.ID("7")); !errors.Is(err,
		durable.ErrInstanceExists) {
		t.Errorf("another workflow with the ID: %v", err)
	}
	if _, err := durable.Result(t.Context(), client, fail, "7"); !errors.Is(err, durable.ErrBadRequest) {
		t.Errorf("the result as one of another workflow: %v", err)
	}
	if _, err := durable.Start(t.Context(), client, echo, "x", durable.ID("")); !errors.Is(err, durable.ErrBadRequest) {
		t.Errorf("an empty ID: %v", err)
	}
	id, err := durable.Start(t.Context(), client, fail, "x")
	check.OK(t, err)
	var failed *durable.FailedError
	if _, err := durable.Result(t.Context(), client, fail, id); !errors.As(err, &failed) ||
		failed.Instance.FailureMessage != "broken" {
		t.Errorf("the result of a failed workflow: %v", err)
	}
}

// outputs uses all that a handler's context has.
func outputs(ctx context.Context, key string) error {
	if _, ok := workers.StorageOf(ctx); !ok {
		return errors.New("no storage")
	}
	if _, ok := workers.FromContext(ctx); !ok {
		return errors.New("no invocation")
	}
	if _, ok := durable.ClientFromContext(ctx); !ok {
		return errors.New("no client")
	}
	return errors.Join(workers.Enqueue(ctx, "made", key),
		workers.Upsert(ctx, "Made", map[string]any{"PartitionKey": "p", "RowKey": key}),
		workers.Upload(ctx, "made", key, "content"))
}

func TestActivitiesAndEntitiesAreHandlers(t *testing.T) {
	t.Parallel()
	account := lazulitest.Start(t).Account(t)
	engine := durable.NewEngine(durable.Options{})
	app := workers.New(workers.Config{Storage: account.Storage, Logger: slog.New(slog.DiscardHandler), Durable: engine})
	var wrapped atomic.Int32
	app.Use(workers.MiddlewareFunc(func(next workers.Handler) workers.Handler {
		return func(ctx context.Context, mc *workers.MiddlewareContext) error {
			wrapped.Add(1)
			return next(ctx, mc)
		}
	}))
	workers.Activity(app, "write", func(ctx context.Context, key string) (string, error) {
		return key, outputs(ctx,
			key)
	})
	counter := new(entity.Kind[int])
	entity.Operation(counter, "add", func(ctx *entity.Context, state *int, n int) (int, error) {
		*state += n
		return *state, outputs(ctx.Context, "entity")
	})
	app.Entity("counter", counter)
	const both durable.Workflow[string, int] = "both"
	durable.Register(app, both, func(ctx *durable.Context, key string) (int, error) {
		if _, err := durable.Call[string](ctx, "write", key); err != nil {
			return 0, err
		}
		return durable.CallEntity[int](ctx, entity.ID("counter", "a"), "add", 3)
	})
	const direct durable.Workflow[string, int] = "direct"
	durable.Register(app, direct, func(*durable.Context, string) (int, error) {
		return 0, workers.Enqueue(t.Context(), "made", "by a workflow")
	})
	account.Run(app)
	client, err := engine.Client()
	check.OK(t, err)
	id, err := durable.Start(t.Context(), client, both, "activity")
	check.OK(t, err)
	if n, err := durable.Result(t.Context(), client, both, id); err != nil || n != 3 {
		t.Fatalf("got %d, %v", n, err)
	}
	for _, key := range []string{"activity", "entity"} {
		account.RequireEnqueued("made", key)
		account.RequireEntity("Made", "p", key, nil)
	}
	if wrapped.Load() != 2 {
		t.Errorf("the middleware ran %d times, want 2", wrapped.Load())
	}
	id, err = durable.Start(t.Context(), client, direct, "x")
	check.OK(t, err)
	if _, err := durable.Result(t.Context(), client, direct, id); err == nil ||
		!strings.Contains(err.Error(), "must be deterministic") {
		t.Errorf("an output in a workflow: %v", err)
	}
}

// A stop lets activities run until the drain timeout, and those that it interrupts then run again: their workflows do
// not fail.
func TestStopDoesNotFailActivities(t *testing.T) {
	t.Parallel()
	account := lazulitest.Start(t).Account(t)
	const twice durable.Workflow[string, string] = "twice"
	newApp := func(activity func(ctx context.Context, in string) (string, error)) (*workers.App, *durable.Engine) {
		engine := durable.NewEngine(durable.Options{Visibility: 10 * time.Second, LeaseDuration: 15 * time.Second})
		app := workers.New(workers.Config{Storage: account.Storage, Logger: slog.New(slog.DiscardHandler), Durable: engine})
		workers.Activity(app, "work", activity)
		durable.Register(app, twice, func(ctx *durable.Context, in string) (string, error) {
			return durable.Call[string](ctx, "work", in)
		})
		return app, engine
	}
	begun, finish := make(chan string, 2), make(chan struct{})
	causes := make(chan error, 1)
	app, engine := newApp(func(ctx context.Context, in string) (string, error) {
		begun <- in
		if in == "interrupted" {
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return "", ctx.Err()
		}
		select {
		case <-finish:
			return in, nil
		case <-ctx.Done():
			return "", ctx.Err()
		}
	})
	check.OK(t, app.Start(t.Context()))
	client, err := engine.Client()
	check.OK(t, err)
	for _, in := range []string{"drained", "interrupted"} {
		_, err := durable.Start(t.Context(), client, twice, in, durable.ID(in))
		check.OK(t, err)
	}
	<-begun
	<-begun
	stop, interrupt := context.WithCancel(t.Context())
	stopped := make(chan error)
	go func() { stopped <- app.Stop(stop) }()
	check.Eventually(t, func() bool { return leasesAreFree(t, account) }, "the stop begins")
	select {
	case cause := <-causes:
		t.Fatalf("the activity was cancelled before the drain timeout: %v", cause)
	case finish <- struct{}{}:
	}
	interrupt()
	check.OK(t, <-stopped)
	if cause := <-causes; !errors.Is(cause, workers.ErrStopping) {
		t.Errorf("the cause is %v", cause)
	}
	if i, err := client.Get(t.Context(), "interrupted"); err != nil || i.Status != "Running" {
		t.Errorf("after the stop: %+v, %v", i, err)
	}
	again, engine := newApp(func(_ context.Context, in string) (string, error) { return in + " again", nil })
	account.Run(again)
	client, err = engine.Client()
	check.OK(t, err)
	for id, want := range map[string]string{"drained": "drained", "interrupted": "interrupted again"} {
		if out, err := durable.Result(t.Context(), client, twice, id); err != nil || out != want {
			t.Errorf("%s: %q, %v; want %q", id, out, err, want)
		}
	}
}

// leasesAreFree reports whether no process has a partition of the default hub.
func leasesAreFree(t *testing.T, account *lazulitest.Account) bool {
	t.Helper()
	for pager := account.Blobs.NewListBlobsFlatPager("default-leases", nil); pager.More(); {
		page, err := pager.NextPage(t.Context())
		check.OK(t, err)
		for _, b := range page.Segment.BlobItems {
			if s := b.Properties.LeaseState; s != nil && *s == azlease.StateTypeLeased {
				return false
			}
		}
	}
	return true
}

// An activity whose work item another process may have received is cancelled, and does not fail its workflow.
func TestActivityLosesItsLease(t *testing.T) {
	t.Parallel()
	account := lazulitest.Start(t).Account(t)
	engine := durable.NewEngine(durable.Options{Hub: "Lost", Visibility: time.Second})
	app := workers.New(workers.Config{Storage: account.Storage, Logger: slog.New(slog.DiscardHandler), Durable: engine})
	begun, causes := make(chan struct{}), make(chan error, 1)
	workers.Activity(app, "work", func(ctx context.Context, _ string) (string, error) {
		close(begun)
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return "", ctx.Err()
	})
	const one durable.Workflow[string, string] = "one"
	durable.Register(app, one, func(ctx *durable.Context, in string) (string, error) {
		return durable.Call[string](ctx, "work", in)
	})
	account.Run(app)
	client, err := engine.Client()
	check.OK(t, err)
	id, err := durable.Start(t.Context(), client, one, "x")
	check.OK(t, err)
	<-begun
	_, err = account.Queues.NewQueueClient("lost-workitems").ClearMessages(t.Context(), nil)
	check.OK(t, err)
	if cause := <-causes; !errors.Is(cause, workers.ErrLeaseLost) {
		t.Errorf("the cause is %v", cause)
	}
	check.Eventually(t, func() bool { return app.Stats()[0].Failed == 1 }, "the call ends")
	if i, err := client.Get(t.Context(), id); err != nil || i.Status != "Running" {
		t.Errorf("after the loss: %+v, %v", i, err)
	}
}
