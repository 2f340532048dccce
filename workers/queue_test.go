package workers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lazuli-storage/lazuli/internal/test/testlog"
)

// bench is an app on a fake account, inside a synctest bubble: time passes only when every goroutine waits.
type bench struct {
	*testing.T
	account *fakeAccount
	app     *App
	queue   *fakeQueue // "work"
	poison  *fakeQueue // "work-poison"
	log     *testlog.Buffer
}

func inBubble(t *testing.T, config Config, test func(b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		account := newFakeAccount()
		log := &testlog.Buffer{}
		config.Logger = slog.New(slog.NewTextHandler(log, nil))
		b := &bench{T: t, account: account, queue: account.queue("work"), poison: account.queue("work-poison"), log: log}
		b.app = b.newApp(config)
		test(b)
	})
}

func (b *bench) newApp(config Config) *App {
	config.Storage = &Storage{Local: true}
	app := New(config)
	app.openQueue = b.account.open
	return app
}

func (b *bench) start(app *App) {
	b.Helper()
	if err := app.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { b.stop(app) })
}

func (b *bench) stop(app *App) {
	b.Helper()
	if err := app.Stop(context.Background()); err != nil {
		b.Error(err)
	}
}

func (b *bench) stopBy(ctx context.Context) {
	b.Helper()
	if err := b.app.Stop(ctx); err != nil {
		b.Error(err)
	}
}

// after lets virtual time pass until everything that happens within d has happened.
func (b *bench) after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (b *bench) wantQueues(queue, poison []string) {
	b.Helper()
	if diff := cmp.Diff(map[string][]string{"queue": queue, "poison": poison},
		map[string][]string{"queue": b.queue.texts(), "poison": b.poison.texts()}); diff != "" {
		b.Errorf("queues want(-) got(+):\n%s\nlog:\n%s", diff, b.log)
	}
}

var none = []string{}

func TestSuccessDeletes(t *testing.T) {
	t.Parallel()
	inBubble(t, Config{}, func(b *bench) {
		var got []QueueMessage
		b.app.Queue("work", func(ctx context.Context, m QueueMessage) error {
			got = append(got, m)
			return nil
		}, WithBatchSize(1), WithNewBatchThreshold(0))
		b.queue.send(`{"n":1}`, "two")
		b.start(b.app)
		b.after(time.Second)
		b.wantQueues(none, none)
		if len(got) != 2 || string(got[0].Body) != `{"n":1}` || string(got[1].Body) != "two" || got[0].Id != "work-1" ||
			got[0].DequeueCount != 1 ||
			got[0].InsertionTime != "2000-01-01T00:00:00Z" || got[0].ExpirationTime != "2000-01-08T00:00:00Z" ||
			got[0].NextVisibleTime != "2000-01-01T00:01:00Z" || got[0].PopReceipt == "" {
			b.Errorf("handler got %+v", got)
		}
	})
}

// A failing message is tried five times without a pause and then found in the poison queue, body unchanged.
func TestFailureEndsInPoison(t *testing.T) {
	t.Parallel()
	inBubble(t, Config{}, func(b *bench) {
		var counts []int64
		b.app.Queue("work", func(ctx context.Context, m QueueMessage) error {
			counts = append(counts, m.DequeueCount)
			return errBoom
		})
		b.queue.send("bad")
		b.start(b.app)
		b.after(3 * time.Second)
		b.wantQueues(none, []string{"bad"})
		if want := []int64{1, 2, 3, 4, 5}; !slices.Equal(counts, want) {
			b.Errorf("attempts %v, want %v", counts, want)
		}
		if b.poison.creates != 1 {
			b.Errorf("the poison queue was created %d times, want once, on demand", b.poison.creates)
		}
		if s := b.app.Stats()[0]; s.Failed != 5 || s.Poisoned != 1 || s.InFlight != 0 || s.LastError == nil ||
			!errors.Is(s.LastError.Err, errBoom) {
			b.Errorf("stats %+v", s)
		}
	})
}

func TestRetryDelays(t *testing.T) {
	t.Parallel()
	inBubble(t, Config{}, func(b *bench) {
		start := time.Now()
		var at []time.Duration
		b.app.Queue("work", func(ctx context.Context, m QueueMessage) error {
			at = append(at, time.Since(start).Round(time.Second))
			if m.DequeueCount == 3 {
				return RetryAfter(errBoom, 100*time.Second)
			}
			return errBoom
		}, WithRetry(RetryFunc(func(n int64) time.Duration { return time.Duration(n) * 10 * time.Second })),
			WithMaxPollingInterval(100*time.Millisecond), WithMaxDequeueCount(4))
		b.queue.send("slow")
		b.start(b.app)
		b.after(time.Hour)
		if want := []time.Duration{0, 10 * time.Second, 30 * time.Second, 130 * time.Second}; !slices.Equal(at, want) {
			b.Errorf("attempts at %v, want %v", at, want)
		}
		b.wantQueues(none, []string{"slow"})
	})
}

func TestPermanentAndUndecodable(t *testing.T) {
	t.Parallel()
	inBubble(t, Config{}, func(b *bench) {
		var calls atomic.Int64
		b.app.Queue("work", func(ctx context.Context, m QueueMessage) error {
			calls.Add(1)
			return Permanent(errBoom)
		})
		b.queue.send("hopeless")
		_, _ = b.queue.Put(b.Context(), "not base64!", 0, time.Hour)
		b.start(b.app)
		b.after(time.Second)
		slices.Sort(b.poison.texts())
		got := b.poison.texts()
		slices.Sort(got)
		if want := []string{"hopeless", "not base64!"}; !slices.Equal(got, want) || len(b.queue.texts()) != 0 {
			b.Errorf("poison holds %v, want %v", got, want)
		}
		if calls.Load() != 1 {
			b.Errorf("%d calls, want 1: an undecodable message must not reach the handler", calls.Load())
		}
	})
}

func TestNoEncoding(t *testing.T) {
	t.Parallel()
	inBubble(t, Config{Defaults: []Option{WithMessageEncoding(NoEncoding)}}, func(b *bench) {
		var got string
		b.app.Queue("work", func(ctx context.Context, m QueueMessage) error { got = string(m.Body); return nil })
		b.queue.send()
		_, _ = b.queue.Put(b.Context(), "plain <text>", 0, time.Hour)
		b.start(b.app)
		b.after(time.Second)
		if got != "plain <text>" {
			b.Errorf("handler got %q", got)
		}
	})
}

// A snoozed message comes back later under a new id, as if never received, and keeps the end of its life.
func TestSnooze(t *testing.T) {
	t.Parallel()
	inBubble(t, Config{}, func(b *bench) {
		start := time.Now()
		var log []string
		b.app.Queue("work", func(ctx context.Context, m QueueMessage) error {
			log = append(log, fmt.Sprint(m.Id, " ", m.DequeueCount, " ", time.Since(start).Round(time.Minute), " ",
				m.ExpirationTime))
			if len(log) < 3 {
				return Snooze(time.Hour)
			}
			return nil
		}, WithMaxDequeueCount(1))
		b.queue.send("later")
		b.start(b.app)
		b.after(3 * time.Hour)
		want := []string{"work-1 1 0s 2000-01-08T00:00:00Z", "work-3 1 1h0m0s 2000-01-08T00:00:00Z",
			"work-5 1 2h0m0s 2000-01-08T00:00:00Z"}
		if diff := cmp.Diff(want, log); diff != "" {
			b.Errorf("calls want(-) got(+):\n%s", diff)
		}
		b.wantQueues(none, none)
	})
}

func TestPanicIsAFailureWithStack(t *testing.T) {
	t.Parallel()
	inBubble(t, Config{}, func(b *bench) {
		b.app.Queue("work", func(ctx context.Context, m QueueMessage) error { panic(errBoom) }, WithMaxDequeueCount(1))
		b.queue.send("bang")
		b.start(b.app)
		b.after(time.Second)
		b.wantQueues(none, []string{"bang"})
		var p *PanicError
		if last := b.app.Stats()[0].LastError; last == nil || !errors.As(last.Err, &p) || !errors.Is(p, errBoom) ||
			!strings.Contains(string(p.Stack), "TestPanicIsAFailureWithStack") {
			b.Errorf("last error is %+v", last)
		}
		if !strings.Contains(b.log.String(), "TestPanicIsAFailureWithStack") {
			b.Errorf("the stack is not in the log:\n%s", b.log)
		}
	})
}

// A handler much longer than the lease keeps its message, also from a second instance, and also while its app drains.
func TestLeaseIsRenewedAlsoWhileDraining(t *testing.T) {
	t.Parallel()
	inBubble(t, Config{}, func(b *bench) {
		var calls atomic.Int64
		handler := func(ctx context.Context, m QueueMessage) error {
			calls.Add(1)
			time.Sleep(10 * time.Minute)
			return ctx.Err()
		}
		other := b.newApp(Config{Logger: slog.New(slog.NewTextHandler(b.log, nil))})
		for _, app := range []*App{b.app, other} {
			app.Queue("work", handler, WithLease(10*time.Second))
		}
		b.queue.send("long")
		b.start(b.app)
		b.after(time.Second)
		b.start(other)
		b.after(2 * time.Minute)
		b.stop(b.app) // Waits for the remaining eight minutes.
		if calls.Load() != 1 {
			b.Errorf("%d calls, want 1", calls.Load())
		}
		b.wantQueues(none, none)
		if s := b.app.Stats()[0]; s.Succeeded != 1 || s.LeaseRenewals < 100 || s.LeaseLost != 0 {
			b.Errorf("stats %+v", s)
		}
	})
}

func TestLostLeaseCancelsHandler(t *testing.T) {
	t.Parallel()
	inBubble(t, Config{}, func(b *bench) {
		start := time.Now()
		var cause error
		var after time.Duration
		b.app.Queue("work", func(ctx context.Context, m QueueMessage) error {
			<-ctx.Done()
			cause, after = context.Cause(ctx), time.Since(start)
			return nil
		}, WithLease(20*time.Second))
		b.queue.send("contested")
		b.start(b.app)
		b.after(time.Second)
		b.queue.steal(time.Hour)
		b.after(time.Minute)
		if !errors.Is(cause, ErrLeaseLost) || after != 10*time.Second {
			b.Errorf("the handler's context ended with %v after %v, want %v at the renewal after 10s", cause, after,
				ErrLeaseLost)
		}
		b.wantQueues([]string{"contested"}, none) // The thief has it: nothing may be deleted.
		if s := b.app.Stats()[0]; s.LeaseLost != 1 {
			b.Errorf("stats %+v", s)
		}
	})
}

// Renewals that fail for a while are tried again, faster; failing until the lease's end they count as a lost lease.
func TestRenewalFailures(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		outage time.Duration
		lost   bool
	}{
		"passes in time": {outage: 17 * time.Second},
		"lasts":          {outage: time.Hour, lost: true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Config{}, func(b *bench) {
				start := time.Now()
				var mu sync.Mutex // guards tries and ended
				var tries []time.Duration
				b.queue.onUpdate = func(time.Duration) error {
					if at := time.Since(start); at < c.outage {
						mu.Lock()
						defer mu.Unlock()
						tries = append(tries, at)
						return errBoom
					}
					return nil
				}
				// One delivery only, to keep the picture simple.
				polls := 0
				b.queue.onReceive = func(context.Context) error {
					if polls++; polls > 1 {
						return errBoom
					}
					return nil
				}
				var ended time.Duration
				b.app.Queue("work", func(ctx context.Context, m QueueMessage) error {
					select {
					case <-ctx.Done():
						mu.Lock()
						defer mu.Unlock()
						ended = time.Since(start)
					case <-time.After(time.Minute):
					}
					return ctx.Err()
				}, WithLease(20*time.Second))
				b.queue.send("m")
				b.start(b.app)
				b.after(10 * time.Minute)
				mu.Lock()
				defer mu.Unlock()
				if want := []time.Duration{10 * time.Second, 15 * time.Second}; !slices.Equal(tries[:2], want) {
					b.Errorf("renewals tried at %v, want the first at %v", tries, want)
				}
				if c.lost != (ended > 0) || c.lost && ended != 20*time.Second {
					b.Errorf("context ended at %v, lost should be %v", ended, c.lost)
				}
			})
		})
	}
}

func TestHardStopGivesMessagesBack(t *testing.T) {
	t.Parallel()
	inBubble(t, Config{}, func(b *bench) {
		var cause error
		b.app.Queue("work", func(ctx context.Context, m QueueMessage) error {
			<-ctx.Done()
			cause = context.Cause(ctx)
			return ctx.Err()
		}, WithMaxDequeueCount(2))
		b.queue.send("first")
		b.start(b.app)
		b.after(time.Second)
		stopAfter := func(d time.Duration) {
			ctx, cancel := context.WithTimeout(context.Background(), d)
			defer cancel()
			begun := time.Now()
			if err := b.app.Stop(ctx); err != nil {
				b.Error(err)
			}
			if took := time.Since(begun); took != d {
				b.Errorf("Stop took %v, want %v", took, d)
			}
		}
		stopAfter(5 * time.Second)
		if !errors.Is(cause, ErrStopping) {
			b.Errorf("cause %v", cause)
		}
		b.wantQueues([]string{"first"}, none)
		if in := b.queue.visibleIn(); in[0] != 0 {
			b.Errorf("the message is hidden for another %v", in)
		}
		// Started and stopped again, it is on its last attempt: a copy is put, and no stop ever makes it poison.
		for range 4 {
			b.start(b.app)
			b.after(time.Second)
			stopAfter(time.Second)
			b.wantQueues([]string{"first"}, none)
		}
	})
}

// Messages that a poll brings after the stop began are given back untouched.
func TestStopDuringPollGivesBack(t *testing.T) {
	t.Parallel()
	inBubble(t, Config{}, func(b *bench) {
		var calls atomic.Int64
		b.app.Queue("work", func(ctx context.Context, m QueueMessage) error { calls.Add(1); return nil })
		b.queue.onReceive = func(context.Context) error { time.Sleep(10 * time.Second); return nil }
		b.queue.send("a", "b")
		b.start(b.app)
		b.after(time.Second)
		b.stop(b.app)
		if calls.Load() != 0 {
			b.Errorf("%d handlers were called", calls.Load())
		}
		b.wantQueues([]string{"a", "b"}, none)
		if in := b.queue.visibleIn(); in[0] != 0 || in[1] != 0 {
			b.Errorf("messages are hidden for another %v", in)
		}
	})
}

// A poll that hangs does not hold up a stop beyond its deadline.
func TestHardStopEndsHangingPoll(t *testing.T) {
	t.Parallel()
	inBubble(t, Config{}, func(b *bench) {
		b.app.Queue("work", func(ctx context.Context, m QueueMessage) error { return nil })
		b.queue.onReceive = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		b.start(b.app)
		b.after(time.Second)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		b.stopBy(ctx)
		b.wantLogged("poll failed; retrying", 0)
	})
}

func TestTimeoutAndStuckHandler(t *testing.T) {
	t.Parallel()
	inBubble(t, Config{StuckTimeout: 5 * time.Second}, func(b *bench) {
		release := make(chan struct{})
		var causes []error
		b.app.Queue("work", func(ctx context.Context, m QueueMessage) error {
			if string(m.Body) == "stuck" {
				<-release
				return nil
			}
			<-ctx.Done()
			causes = append(causes, context.Cause(ctx))
			return ctx.Err()
		}, WithTimeout(time.Minute), WithBatchSize(1), WithNewBatchThreshold(0), WithMaxDequeueCount(1))
		b.queue.send("slow", "stuck", "slow")
		b.start(b.app)
		b.after(4 * time.Minute)
		if len(causes) != 2 || !errors.Is(causes[0], ErrTimeout) {
			b.Errorf("causes %v, want two timeouts: the stuck handler's slot must be free again", causes)
		}
		b.wantQueues(none, []string{"slow", "stuck", "slow"})
		if err := b.app.Stop(context.Background()); !errors.Is(err, ErrStuck) {
			b.Errorf("Stop returned %v, want %v", err, ErrStuck)
		}
		if !strings.Contains(b.log.String(), "goroutine") {
			b.Error("no dump of goroutines in the log")
		}
		close(release)
	})
}

// A handler that returns while its lease is being renewed is not taken for a stuck one, also if the renewal takes
// longer than it may take.
func TestHandlerThatReturnsDuringARenewalIsNotStuck(t *testing.T) {
	t.Parallel()
	inBubble(t, Config{StuckTimeout: 5 * time.Second}, func(b *bench) {
		b.app.Queue("work", func(ctx context.Context, m QueueMessage) error {
			<-ctx.Done()
			time.Sleep(3 * time.Second)
			return ctx.Err()
		}, WithLease(time.Minute), WithTimeout(58*time.Second), WithBatchSize(16), WithMaxDequeueCount(1))
		began := time.Now()
		b.queue.onUpdate = func(visibleIn time.Duration) error {
			// the second renewal, between the timeout and StuckTimeout after it
			if visibleIn > 0 && time.Since(began) > 50*time.Second {
				time.Sleep(10 * time.Second)
			}
			return nil
		}
		for range 12 { // it would be taken for stuck every other time
			b.queue.send("slow")
		}
		b.start(b.app)
		b.after(4 * time.Minute)
		b.stop(b.app)
	})
}

func TestConcurrencyBound(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		options []QueueOption
		want    int64
	}{
		"one at a time":    {[]QueueOption{WithBatchSize(1), WithNewBatchThreshold(0)}, 1},
		"batch and a half": {[]QueueOption{WithBatchSize(8), WithNewBatchThreshold(4)}, 12},
		"concurrency 7":    {[]QueueOption{WithConcurrency(7)}, 7},
		"concurrency 100":  {[]QueueOption{WithConcurrency(100)}, 100},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Config{}, func(b *bench) {
				var now, most, done atomic.Int64
				b.app.Queue("work", func(ctx context.Context, m QueueMessage) error {
					n := now.Add(1)
					for seen := most.Load(); n > seen && !most.CompareAndSwap(seen, n); seen = most.Load() {
					}
					time.Sleep(time.Duration(n) * time.Second)
					now.Add(-1)
					done.Add(1)
					return nil
				}, c.options...)
				for i := range 300 {
					b.queue.send(fmt.Sprint(i))
				}
				b.start(b.app)
				b.after(time.Hour)
				if most.Load() != c.want || done.Load() != 300 {
					b.Errorf("%d at once and %d done, want %d at once and 300 done", most.Load(), done.Load(), c.want)
				}
			})
		})
	}
}

// A message of a poison queue that fails for good stays, hidden until its lease ends.
func TestPoisonQueueHasNoPoisonQueue(t *testing.T) {
	t.Parallel()
	inBubble(t, Config{}, func(b *bench) {
		var calls atomic.Int64
		b.app.Queue("rescue", func(ctx context.Context, m QueueMessage) error { calls.Add(1); return Permanent(errBoom) },
			WithQueueName("work-poison"), WithLease(10*time.Minute))
		b.poison.send("worst")
		b.start(b.app)
		b.after(9 * time.Minute)
		b.wantQueues(none, []string{"worst"})
		if calls.Load() != 1 || b.poison.visibleIn()[0] == 0 {
			b.Errorf("%d calls, visible in %v: want one call and the message hidden", calls.Load(), b.poison.visibleIn())
		}
		if exists := b.account.queue("work-poison-poison").exists; exists {
			b.Error("a poison queue of a poison queue was made")
		}
	})
}

// If the process dies between the copy to the poison queue and the delete, or the delete fails, the message is in both:
// it comes back and is poisoned again. Duplicated, never lost.
func TestPoisonIsAtLeastOnce(t *testing.T) {
	t.Parallel()
	inBubble(t, Config{}, func(b *bench) {
		b.app.Queue("work", func(ctx context.Context, m QueueMessage) error { return errBoom }, WithMaxDequeueCount(1),
			WithLease(10*time.Second))
		failures := 1
		b.queue.onDelete = func() error {
			if failures--; failures >= 0 {
				return errBoom
			}
			return nil
		}
		b.queue.send("twice")
		b.start(b.app)
		b.after(5 * time.Second)
		b.wantQueues([]string{"twice"}, []string{"twice"})
		b.after(10 * time.Second)
		b.wantQueues(none, []string{"twice", "twice"})
	})
}

func TestQueueThatAppearsLaterAndWake(t *testing.T) {
	t.Parallel()
	inBubble(t, Config{}, func(b *bench) {
		var at time.Time
		b.app.Queue("work", func(ctx context.Context, m QueueMessage) error { at = time.Now(); return nil },
			WithMaxPollingInterval(time.Hour))
		b.start(b.app)
		b.after(3 * time.Hour)
		b.wantLogged("level=ERROR", 0)
		b.queue.send("now")
		sent := time.Now()
		b.app.Wake("work")
		b.after(time.Millisecond)
		if at.Sub(sent) != 0 {
			b.Errorf("handled %v after the put, want at once", at.Sub(sent))
		}
		b.app.Wake("other") // No function listens: harmless.
	})
}

func TestPollingOutageIsLoggedOnce(t *testing.T) {
	t.Parallel()
	inBubble(t, Config{}, func(b *bench) {
		b.app.Queue("work", func(ctx context.Context, m QueueMessage) error { return nil })
		var down atomic.Bool
		down.Store(true)
		b.queue.onReceive = func(context.Context) error {
			if down.Load() {
				return errBoom
			}
			return nil
		}
		b.queue.send("m")
		b.start(b.app)
		b.after(time.Minute)
		down.Store(false)
		b.after(time.Minute)
		b.wantQueues(none, none)
		if log := b.log.String(); strings.Count(log, "poll failed; retrying") != 1 || strings.Count(log, "works again") != 1 {
			b.Errorf("log:\n%s", log)
		}
	})
}

func TestTypedHandler(t *testing.T) {
	t.Parallel()
	type order struct{ ID int }
	inBubble(t, Config{}, func(b *bench) {
		var got []order
		Queue(b.app, "work", func(ctx context.Context, m *Message[order]) error {
			got = append(got, m.Body)
			return nil
		})
		b.queue.send(`{"ID":7}`, `{"ID":"seven"}`)
		b.start(b.app)
		b.after(time.Second)
		if diff := cmp.Diff([]order{{7}}, got); diff != "" {
			b.Errorf("orders want(-) got(+):\n%s", diff)
		}
		b.wantQueues(none, []string{`{"ID":"seven"}`})
	})
}

func TestMiddlewareAndLogging(t *testing.T) {
	t.Parallel()
	inBubble(t, Config{}, func(b *bench) {
		var order []string
		layer := func(name string) Middleware {
			return MiddlewareFunc(func(next Handler) Handler {
				return func(ctx context.Context, mc *MiddlewareContext) error {
					order = append(order, name+" before "+mc.FunctionName)
					err := next(ctx, mc)
					order = append(order, fmt.Sprint(name, " after ", err))
					return nil // Swallowed: the message counts as done.
				}
			})
		}
		b.app.Use(layer("outer"))
		b.app.Use(nil)
		b.app.Use(layer("inner"))
		handlerLog := &testlog.Buffer{}
		logger := slog.New(NewLogHandler(slog.NewTextHandler(handlerLog, nil)))
		var ic *InvocationContext
		b.app.Queue("work", func(ctx context.Context, m QueueMessage) error {
			ic, _ = FromContext(ctx)
			logger.With("a", 1).InfoContext(ctx, "from the handler")
			return errBoom
		})
		b.queue.send("m")
		b.start(b.app)
		b.after(time.Second)
		if want := []string{"outer before work", "inner before work", "inner after boom",
			"outer after <nil>"}; !slices.Equal(order, want) {
			b.Errorf("order %v, want %v", order, want)
		}
		b.wantQueues(none, none)
		if ic == nil || ic.InvocationID == "" || ic.TriggerType != "queueTrigger" ||
			ic.TriggerMetadata["DequeueCount"] != "1" || ic.RetryContext != (RetryContext{0, 4}) {
			b.Errorf("invocation %+v", ic)
		}
		if log := handlerLog.String(); !strings.Contains(log,
			"invocation_id="+ic.InvocationID+" function_name=work trigger_type=queueTrigger") {
			b.Errorf("handler's log: %s", log)
		}
	})
}

func TestRegistrationErrors(t *testing.T) {
	t.Parallel()
	ok := func(context.Context, QueueMessage) error { return nil }
	for says, register := range map[string]func(*App){
		"no functions":                func(*App) {},
		"has no name":                 func(a *App) { a.Queue(" ", ok, WithQueueName("work")) },
		`two functions`:               func(a *App) { a.Queue("work", ok); a.Queue("work", ok) },
		"handler is nil":              func(a *App) { a.Queue("work", nil) },
		"batch size 33":               func(a *App) { a.Queue("work", ok, WithBatchSize(33)) },
		"threshold -2":                func(a *App) { a.Queue("work", ok, WithNewBatchThreshold(-2)) },
		"dequeue count 0":             func(a *App) { a.Queue("work", ok, WithMaxDequeueCount(0)) },
		"polling interval 1ms":        func(a *App) { a.Queue("work", ok, WithMaxPollingInterval(time.Millisecond)) },
		"lease 1.5s":                  func(a *App) { a.Queue("work", ok, WithLease(1500*time.Millisecond)) },
		"lease 200h":                  func(a *App) { a.Queue("work", ok, WithLease(200*time.Hour)) },
		`encoding "rot13"`:            func(a *App) { a.Queue("work", ok, WithMessageEncoding("rot13")) },
		"retry policy is nil":         func(a *App) { a.Queue("work", ok, WithRetry(nil)) },
		"timeout -1s":                 func(a *App) { a.Queue("work", ok, WithTimeout(-time.Second)) },
		`queue name "Work"`:           func(a *App) { a.Queue("Work", ok) },
		`queue name "a--b"`:           func(a *App) { a.Queue("a--b", ok) },
		`queue name "ab-"`:            func(a *App) { a.Queue("ab-", ok) },
		`queue name "ab"`:             func(a *App) { a.Queue("ab", ok) },
		`connection "LAZULI_NO_SUCH"`: func(a *App) { a.Queue("work", ok, WithConnection("LAZULI_NO_SUCH")) },
	} {
		t.Run(says, func(t *testing.T) {
			app := New(Config{ConnectionString: "UseDevelopmentStorage=true",
				Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
			register(app)
			if err := app.Start(context.Background()); err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("Start returned %v, want an error saying %q", err, says)
			}
			if err := app.Stop(context.Background()); err != nil {
				t.Errorf("Stop without Start returned %v", err)
			}
		})
	}
}

func TestRunDrainsWithinTimeout(t *testing.T) {
	t.Parallel()
	inBubble(t, Config{DrainTimeout: 20 * time.Second}, func(b *bench) {
		b.app.Queue("work", func(ctx context.Context, m QueueMessage) error { <-ctx.Done(); return ctx.Err() })
		b.queue.send("m")
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		begun := time.Now()
		if err := b.app.Run(ctx); err != nil {
			b.Error(err)
		}
		if took := time.Since(begun); took != 80*time.Second {
			b.Errorf("Run took %v, want a minute and the drain timeout of 20 s", took)
		}
		b.wantQueues([]string{"m"}, none)
	})
}

func TestStartTwiceAndStopTwice(t *testing.T) {
	t.Parallel()
	inBubble(t, Config{}, func(b *bench) {
		b.app.Queue("work", func(ctx context.Context, m QueueMessage) error { return nil })
		b.start(b.app)
		if err := b.app.Start(b.Context()); !errors.Is(err, errStarted) {
			b.Errorf("second Start returned %v", err)
		}
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() { b.stop(b.app) })
		}
		wg.Wait()
		b.start(b.app)
		b.queue.send("again")
		b.after(time.Minute)
		b.wantQueues(none, none)
	})
}

// Many starts and stops against two instances and real goroutines: nothing is lost, nothing leaks, the race detector is
// content.
func TestStartStopStress(t *testing.T) {
	t.Parallel()
	account := newFakeAccount()
	queue := account.queue("work")
	var handled sync.Map
	const messages = 500
	apps := make([]*App, 2)
	for i := range apps {
		app := New(Config{Storage: &Storage{Local: true}, Logger: slog.New(slog.DiscardHandler)})
		app.openQueue = account.open
		app.Queue("work", func(ctx context.Context, m QueueMessage) error {
			handled.Store(string(m.Body), true)
			return nil
		}, WithMaxDequeueCount(1), WithMaxPollingInterval(100*time.Millisecond))
		apps[i] = app
	}
	for i := range messages {
		queue.send(fmt.Sprint(i))
	}
	var wg sync.WaitGroup
	for _, app := range apps {
		wg.Go(func() {
			for i := 0; len(queue.texts()) > 0 || i < 50; i++ {
				ctx, cancel := context.WithCancel(context.Background())
				if err := app.Start(ctx); err != nil {
					t.Error(err)
				}
				stop, kill := context.WithCancel(context.Background())
				switch i % 3 {
				case 0:
					cancel()
				case 1:
					kill()
				}
				if err := app.Stop(stop); err != nil {
					t.Error(err)
				}
				cancel()
				kill()
			}
		})
	}
	wg.Wait()
	for i := range messages {
		if _, ok := handled.Load(fmt.Sprint(i)); !ok {
			t.Errorf("message %d was never handled", i)
		}
	}
	if poison := account.queue("work-poison").texts(); len(poison) > 0 {
		t.Errorf("stops alone poisoned %v", poison)
	}
}

func BenchmarkEmptyHandlerFake(b *testing.B) {
	account := newFakeAccount()
	queue := account.queue("work")
	queue.send()
	app := New(Config{Storage: &Storage{Local: true}, Logger: slog.New(slog.DiscardHandler)})
	app.openQueue = account.open
	done := make(chan struct{}, 1024)
	app.Queue("work", func(context.Context, QueueMessage) error { done <- struct{}{}; return nil },
		WithMaxPollingInterval(100*time.Millisecond))
	if err := app.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	go func() {
		for range b.N {
			queue.send("x")
			app.Wake("work")
		}
	}()
	for range b.N {
		<-done
	}
	_ = app.Stop(context.Background())
}
