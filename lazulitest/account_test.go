package lazulitest_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"

	"github.com/lazuli-storage/lazuli/lazulitest"
	"github.com/lazuli-storage/lazuli/workers"
)

var quiet = slog.New(slog.DiscardHandler)

type order struct {
	ID    int
	Item  string
	Tries int `json:",omitempty"`
}

// A chain of functions, drained: queue to queue to table to blob.
func TestDrain(t *testing.T) {
	t.Parallel()
	a := lazulitest.Start(t).Account(t)
	app := workers.New(workers.Config{Storage: a.Storage, Logger: quiet})
	workers.Queue(app, "orders", func(ctx context.Context, m *workers.Message[order]) error {
		a.Put("invoices", m.Body)
		return nil
	})
	workers.Queue(app, "invoices", func(ctx context.Context, m *workers.Message[order]) error {
		a.PutEntity("Shipped", map[string]any{"PartitionKey": "eu", "RowKey": fmt.Sprint(m.Body.ID), "Item": m.Body.Item,
			"Sum": int64(1) << 40})
		return nil
	})
	a.PutEntity("Shipped", map[string]any{"PartitionKey": "eu", "RowKey": "0"})
	app.Table("Shipped", func(ctx context.Context, c workers.TableChange) error {
		a.PutBlob("labels", c.RowKey+".txt", "label "+c.RowKey)
		return nil
	}, workers.WithExisting(true))
	a.PutBlob("labels", "0.txt", "")
	var printed atomic.Int64
	app.Blob("print", func(ctx context.Context, b *blob.Client) error {
		printed.Add(1)
		a.Put("printed", strings.TrimPrefix(b.URL(), a.Blobs.URL()))
		return nil
	}, workers.WithPath("labels/{id}.txt"))
	a.Run(app)
	for i := 1; i <= 20; i++ {
		a.Put("orders", order{ID: i, Item: "lapis"})
	}
	a.Drain()
	a.RequireEmpty("orders")
	a.RequireEmpty("invoices")
	a.RequireEmpty("never-made")
	for i := range 21 {
		a.RequireBlob("labels", fmt.Sprint(i, ".txt"), fmt.Sprint("label ", i))
	}
	a.RequireEntity("Shipped", "eu", "20", map[string]any{"Item": "lapis", "Sum": int64(1) << 40})
	a.RequireEntity("Shipped", "eu", "0", nil)
	a.RequireNoEntity("Shipped", "eu", "21")
	a.RequireNoEntity("Nowhere", "eu", "21")
	a.RequireNoEntity("Shipped", "", "")
	a.RequireEnqueued("printed", "/labels/7.txt")
	if n := printed.Load(); n < 21 {
		t.Errorf("%d labels were printed", n)
	}
}

// On a clock of the test's own a retry with a delay, a lease and a timer come when the test says so, be it a day later.
func TestFakeClock(t *testing.T) {
	t.Parallel()
	clock := lazulitest.NewClock()
	a := lazulitest.Start(t, lazulitest.WithFakeClock(clock)).Account(t)
	app := workers.New(workers.Config{Storage: a.Storage, Logger: quiet, Clock: clock})
	var attempts, ticks atomic.Int64
	app.Queue("slow", func(ctx context.Context, m workers.QueueMessage) error {
		if attempts.Add(1) < 3 {
			return errors.New("not yet")
		}
		return nil
	}, workers.WithRetry(workers.Fixed(12*time.Hour)))
	app.Timer("tick", func(ctx context.Context, _ workers.TimerInfo) error { ticks.Add(1); return nil },
		workers.WithSchedule("0 0 * * * *"), workers.WithMonitor(false))
	a.Run(app)
	a.Put("slow", "m")
	for day := range int64(3) {
		a.Drain()
		if n, runs := attempts.Load(), ticks.Load(); n != day+1 || runs != day {
			t.Fatalf("%d attempts and %d runs after %d half days", n, runs, day)
		}
		if day < 2 {
			a.RequireEnqueued("slow", "m")
			clock.Advance(12*time.Hour + time.Second)
		}
	}
	a.RequireEmpty("slow")
	// The account's key is good however far the clock is ahead.
	clock.Advance(365 * 24 * time.Hour)
	a.Put("other", "a year later")
	a.RequireEnqueued("other", "a year later")
}

// Accounts of one Lazuli do not see each other.
func TestAccountsAreApart(t *testing.T) {
	t.Parallel()
	l := lazulitest.Start(t)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			a := l.Account(t)
			a.Put("same", fmt.Sprint(i))
			if got := a.Messages("same"); len(got) != 1 || got[0] != fmt.Sprint(i) {
				t.Errorf("account %s has %q, want %d alone", a.Name, got, i)
			}
		})
	}
	wg.Wait()
	l.Default(t).RequireEmpty("same")
}

// A fault plan concerns every app of the process, so no other test may run at the same time. The clock is the test's
// own: the failed message comes back when the test says so.
func TestFaults(t *testing.T) {
	hits := lazulitest.Faults(t, "workers/before-delete-message=error@1")
	clock := lazulitest.NewClock()
	a := lazulitest.Start(t, lazulitest.WithFakeClock(clock)).Account(t)
	app := workers.New(workers.Config{Storage: a.Storage, Logger: quiet, Clock: clock})
	var calls atomic.Int64
	app.Queue("work", func(ctx context.Context, m workers.QueueMessage) error { calls.Add(1); return nil },
		workers.WithLease(time.Hour))
	a.Run(app)
	a.Put("work", "m")
	for deliveries := 1; deliveries <= 2; deliveries++ {
		a.Drain()
		if n := hits("workers/before-delete-message"); n != deliveries || calls.Load() != int64(deliveries) {
			t.Fatalf("delivery %d: %d hits, %d calls", deliveries, n, calls.Load())
		}
		clock.Advance(time.Hour + time.Second)
	}
	a.RequireEmpty("work")
}

// Faults refuses a parallel test: other tests would pass the fault points too.
func TestFaultsRefusesParallelTests(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("a parallel test has a fault plan")
		}
	}()
	lazulitest.Faults(t, "workers/before-delete-message=error@1")
}

// failing is a testing.TB that notes its failure instead of failing.
type failing struct {
	testing.TB
	said string
}

func (f *failing) Helper() {}
func (f *failing) Fatalf(format string, args ...any) {
	f.said = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// What is required and not there fails the test.
func TestRequireFails(t *testing.T) {
	t.Parallel()
	l := lazulitest.Start(t)
	for says, check := range map[string]func(a *lazulitest.Account){
		`has no message`:       func(a *lazulitest.Account) { a.RequireEnqueued("queue", order{ID: 2}) },
		`has no message other`: func(a *lazulitest.Account) { a.RequireEnqueued("queue", "other") },
		`is not empty`:         func(a *lazulitest.Account) { a.RequireEmpty("queue") },
		`N is 1, want 2`:       func(a *lazulitest.Account) { a.RequireEntity("Things", "p", "r", map[string]any{"N": 2}) },
		`ResourceNotFound`:     func(a *lazulitest.Account) { a.RequireEntity("Other", "p", "r", nil) },
		`is there`:             func(a *lazulitest.Account) { a.RequireNoEntity("Things", "p", "r") },
		`are not "y"`:          func(a *lazulitest.Account) { a.RequireBlob("box", "b", "y") },
		`are not "long"`:       func(a *lazulitest.Account) { a.RequireBlob("box", "b", "long") },
		`without Run`:          func(a *lazulitest.Account) { a.Drain() },
		`the body`:             func(a *lazulitest.Account) { a.Put("queue", func() {}) },
		`put to NO`:            func(a *lazulitest.Account) { a.Put("NO", "m") },
	} {
		f := &failing{TB: t}
		done := make(chan struct{})
		go func() {
			defer close(done)
			a := l.Account(f)
			a.Put("queue", order{ID: 1})
			a.PutEntity("Things", map[string]any{"PartitionKey": "p", "RowKey": "r", "N": 1})
			a.PutBlob("box", "b", "x")
			a.RequireEnqueued("queue", map[string]any{"ID": 1})
			check(a)
		}()
		<-done
		if !strings.Contains(f.said, says) {
			t.Errorf("want a failure that says %q, got %q", says, f.said)
		}
	}
}

// BenchmarkStart measures how long a test waits for its Lazuli.
func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		l := lazulitest.Start(b)
		l.Stop(b)
	}
}

// What is put right after Run reaches a table trigger, on a clock that stands still, too, and also if the put creates
// the table.
func TestDrainLosesNoChange(t *testing.T) {
	t.Parallel()
	type item struct {
		PartitionKey, RowKey string
		N                    int64
	}
	for _, inOrder := range []bool{false, true} {
		for _, exists := range []bool{false, true} {
			t.Run(fmt.Sprintf("in order %v, table exists %v", inOrder, exists), func(t *testing.T) {
				t.Parallel()
				clock := lazulitest.NewClock()
				l := lazulitest.Start(t, lazulitest.WithFakeClock(clock))
				for i := range 20 {
					a := l.Account(t)
					if exists {
						a.PutEntity("Items", item{"p", "before", 1})
					}
					var handled atomic.Int64
					app := workers.New(workers.Config{Storage: a.Storage, Clock: clock, Logger: slog.New(slog.DiscardHandler)})
					options := []workers.TableOption{workers.WithTable("Items")}
					if inOrder {
						options = append(options, workers.InOrder())
					}
					workers.Table(app, "items", func(ctx context.Context, c *workers.Change[item]) error {
						handled.Add(c.Entity.N)
						return nil
					}, options...)
					a.Run(app)
					a.PutEntity("Items", item{"p", "after", 1 << 40})
					a.Drain()
					if got := handled.Load(); got != 1<<40 {
						t.Fatalf("run %d: handled %d", i, got)
					}
				}
			})
		}
	}
}
