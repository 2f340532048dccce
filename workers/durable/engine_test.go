package durable_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/durable/hub"
	"github.com/lazuli-storage/lazuli/internal/durable/record"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/lazulitest"
	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/durable"
)

type order struct{ Item string }

// A workflow that waits a month for an approval, in no time.
func TestAppOnFakeClock(t *testing.T) {
	t.Parallel()
	clock := lazulitest.NewClock()
	account := lazulitest.Start(t, lazulitest.WithFakeClock(clock)).Account(t)
	engine := durable.NewEngine(durable.Options{Hub: "Orders"})
	app := workers.New(workers.Config{Storage: account.Storage, Clock: clock, Logger: slog.New(slog.DiscardHandler),
		Durable: engine})
	var calls, wrapped atomic.Int32
	app.Use(workers.MiddlewareFunc(func(next workers.Handler) workers.Handler {
		return func(ctx context.Context, mc *workers.MiddlewareContext) error {
			wrapped.Add(1)
			return next(ctx, mc)
		}
	}))
	durable.Register(app, "order", func(ctx *durable.Context, o order) (string, error) {
		reserved, err := durable.Call[string](ctx, "reserve", o)
		if err != nil {
			return "", err
		}
		if err := ctx.Sleep(30 * 24 * time.Hour); err != nil {
			return "", err
		}
		return reserved + " kept for a month", nil
	})
	workers.Activity(app, "reserve", func(_ context.Context, o order) (string, error) {
		calls.Add(1)
		return o.Item, nil
	})
	account.Run(app)
	account.Drain()
	client, err := engine.Client()
	if err != nil {
		t.Fatal(err)
	}
	id := start(t, client.Hub(), "order", hub.StartOptions{Input: `{"Item":"tea"}`})
	account.Drain()
	if i, err := client.Get(t.Context(), id); err != nil || i.Status != "Running" {
		t.Fatalf("before the month is over: %+v, %v", i, err)
	}
	for range 29 {
		clock.Advance(24 * time.Hour)
		account.Drain()
	}
	if i, err := client.Get(t.Context(), id); err != nil || i.Status != "Running" {
		t.Fatalf("a day before the month is over: %+v, %v", i, err)
	}
	clock.Advance(24 * time.Hour)
	// The jump ended leases: a message that was received meanwhile is hidden for a while, and Drain does not wait for it.
	check.Eventually(t, func() bool {
		account.Drain()
		i, err := client.Get(t.Context(), id)
		check.OK(t, err)
		if !i.Done() {
			clock.Advance(time.Second)
		}
		return i.Done()
	}, "the workflow ends")
	if i := ended(t, client.Hub(), id, "Completed"); i.Output != `"tea kept for a month"` {
		t.Errorf("the output is %s", i.Output)
	}
	if calls.Load() != 1 || wrapped.Load() != 1 {
		t.Errorf("the activity ran %d times, its middleware %d times; want once", calls.Load(), wrapped.Load())
	}
	if err := app.Pause("order"); !errors.Is(err, workers.ErrNotPausable) {
		t.Errorf("pausing an orchestration: %v", err)
	}
}

func TestAppWithoutEngineIsRefused(t *testing.T) {
	t.Parallel()
	app := workers.New(workers.Config{Logger: slog.New(slog.DiscardHandler)})
	workers.Activity(app, "a", func(context.Context, int) (int, error) { return 0, nil })
	if err := app.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "Config.Durable") {
		t.Errorf("got %v", err)
	}
}

// refusing is a transport that refuses the first Get Messages of each queue.
type refusing struct {
	next *http.Client
	seen sync.Map // of paths
}

// Do implements policy.Transporter.
func (x *refusing) Do(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/messages") && !r.URL.Query().Has("peekonly") {
		if _, again := x.seen.LoadOrStore(r.URL.Path, true); !again {
			return nil, context.Canceled
		}
	}
	return x.next.Do(r)
}

// A request that has failed is repeated although a test's clock stands still.
func TestFailedRequestOnFakeClock(t *testing.T) {
	t.Parallel()
	clock := lazulitest.NewClock()
	lazuli := lazulitest.Start(t, lazulitest.WithFakeClock(clock))
	account := lazuli.Account(t)
	storage, err := workers.OpenStorage(account.ConnectionString(),
		workers.WithTransport(&refusing{next: lazuli.Client()}))
	check.OK(t, err)
	engine := durable.NewEngine(durable.Options{Storage: storage})
	app := workers.New(workers.Config{Storage: account.Storage, Clock: clock, Logger: slog.New(slog.DiscardHandler),
		Durable: engine})
	durable.Register(app, "nothing", func(*durable.Context, any) (any, error) { return nil, nil })
	account.Run(app)
	account.Drain()
	client, err := engine.Client()
	check.OK(t, err)
	id := start(t, client.Hub(), "nothing", hub.StartOptions{})
	check.Eventually(t, func() bool {
		account.Drain() // A message whose request was cancelled is hidden, and not waited for.
		i, err := client.Get(t.Context(), id)
		check.OK(t, err)
		if !i.Done() {
			clock.Advance(time.Second)
		}
		return i.Done()
	}, "the workflow ends")
	ended(t, client.Hub(), id, "Completed")
}

// An ID that cannot be stored is a bad request, for a program that has no other name for it.
func TestABadIDIsABadRequest(t *testing.T) {
	t.Parallel()
	h := newHub(t, lazulitest.Start(t), nil)
	c := h.run(registry(t, nil, nil))
	for _, id := range []string{"@x", strings.Repeat("x", 257), "a\x00"} {
		_, err := c.Get(t.Context(), id)
		if !errors.Is(err, durable.ErrBadRequest) || !errors.Is(err, record.ErrBadInstanceID) {
			t.Errorf("%.10q: %v", id, err)
		}
	}
}
