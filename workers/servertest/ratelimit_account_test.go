package servertest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/lazulitest"
	"github.com/lazuli-storage/lazuli/workers"
)

// calls counts the calls of several instances by a clock that the test moves.
type calls struct {
	clock *lazulitest.Clock

	mu    sync.Mutex
	times []time.Time
	byKey map[string]int
	fail  func(key string) error
}

func (c *calls) add(key string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.times = append(c.times, c.clock.Now())
	c.byKey[key]++
	if c.fail != nil {
		return c.fail(key)
	}
	return nil
}

func (c *calls) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.times)
}

// limited starts instances of one app with the options on an account.
func limited(t *testing.T, n int, options ...workers.QueueOption) (*lazulitest.Account, *calls) {
	t.Helper()
	clock := lazulitest.NewClock()
	account := lazulitest.Start(t, lazulitest.WithFakeClock(clock)).Account(t)
	c := &calls{clock: clock, byKey: map[string]int{}}
	// The log says why a message was received once more.
	logger := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	for range n {
		app := workers.New(workers.Config{Storage: account.Storage, Clock: clock, Logger: logger, HostID: "limited"})
		// tick moves the clock by minutes in each second of the machine. A request that is held up must not cost a lease
		// meanwhile: the message would be handled again, and the tests count the calls.
		workers.Queue(app, "calls", func(_ context.Context, m *workers.Message[string]) error { return c.add(m.Body) },
			append([]workers.QueueOption{workers.WithQueueName("calls"), workers.WithLease(48 * time.Hour)}, options...)...)
		account.Run(app)
	}
	return account, c
}

// tick moves the clock until the condition holds, and after each step checks that the calls so far are allowed.
func (c *calls) tick(t *testing.T, step time.Duration, most func(sinceStart time.Duration) int, until func() bool) {
	t.Helper()
	began := c.clock.Now()
	for deadline := time.Now().Add(check.Patience); !until(); {
		if time.Now().After(deadline) {
			c.mu.Lock()
			defer c.mu.Unlock()
			t.Fatalf("%d calls after %v: %v", len(c.times), c.clock.Now().Sub(began), c.byKey)
		}
		if n, allowed := c.count(), most(c.clock.Now().Sub(began)); n > allowed {
			t.Fatalf("%d calls after %v, %d are allowed", n, c.clock.Now().Sub(began), allowed)
		}
		c.clock.Advance(step)
		time.Sleep(2 * time.Millisecond) // Gives the instances the processor; nothing depends on it.
	}
}

func sendCalls(t *testing.T, a *lazulitest.Account, bodies ...string) {
	t.Helper()
	for _, b := range bodies {
		check.OK(t, a.Enqueue(t.Context(), "calls", b))
	}
}

// Three instances together call no more than the limit allows, and none is left over.
func TestRateLimitOverInstances(t *testing.T) {
	t.Parallel()
	account, c := limited(t, 3, workers.WithRateLimit(workers.Rate{Calls: 10, Per: time.Second, Burst: 5}))
	for i := range 40 {
		sendCalls(t, account, fmt.Sprintf(`"%d"`, i))
	}
	c.tick(t, 20*time.Millisecond, func(d time.Duration) int { return 5 + int(d/(100*time.Millisecond)) },
		func() bool { return c.count() == 40 })
	// A message is deleted after its call.
	check.Eventually(t, func() bool { return len(account.Messages("calls")) == 0 }, "the queue is empty")
}

// A full key is put back and keeps no other from being called; a message that fails has all its attempts, however often
// it was put back.
func TestRateLimitPerKey(t *testing.T) {
	t.Parallel()
	account, c := limited(t, 2, workers.WithRateLimitPerKey(func(key string) string { return key },
		workers.Rate{Calls: 1, Per: 2 * time.Second}), workers.WithConcurrency(4), workers.WithMaxDequeueCount(2))
	c.fail = func(key string) error {
		if key == "full" {
			return errors.New("fails each time")
		}
		return nil
	}
	for range 6 {
		sendCalls(t, account, `"full"`)
	}
	for i := range 8 {
		sendCalls(t, account, fmt.Sprintf(`"other %d"`, i))
	}
	// Each of the six has two attempts.
	c.tick(t, 250*time.Millisecond, func(d time.Duration) int { return 9 + int(d/(2*time.Second)) },
		func() bool { return len(account.Messages("calls-poison")) == 6 })
	if c.byKey["full"] != 12 {
		t.Errorf("%d calls of the six messages that fail twice", c.byKey["full"])
	}
	check.Eventually(t, func() bool { return len(account.Messages("calls")) == 0 }, "the queue is empty")
	// No row of a message stays: those of nine keys do.
	check.Eventually(t, func() bool {
		rows := 0
		for pager := account.Tables.NewClient("lazuliratelimits").NewListEntitiesPager(nil); pager.More(); {
			page, err := pager.NextPage(t.Context())
			check.OK(t, err)
			rows += len(page.Entities)
		}
		return rows == 9
	}, "the rows of messages are deleted")
}

// Jobs of one key, which wait for their turn in the queue: those that are put back are jobs that wait, hold their
// unique keys and can be cancelled. Only calls count as attempts, and a cancelled job has none.
func TestRateLimitOfJobs(t *testing.T) {
	t.Parallel()
	account, c := limited(t, 2, workers.WithRateLimitPerKey(func(string) string { return "one" },
		workers.Rate{Calls: 1, Per: 2 * time.Second}), workers.WithConcurrency(4), workers.WithMaxDequeueCount(2))
	c.fail = func(body string) error {
		if body == "fails" {
			return errors.New("fails each time")
		}
		return nil
	}
	enqueue := func(body string) workers.Enqueued {
		e, err := account.EnqueueJob(t.Context(), "calls", strconv.Quote(body), workers.Unique(body), workers.Keep(time.Hour))
		check.OK(t, err)
		return e
	}
	ids := map[string]string{}
	for _, body := range []string{"fails", "a", "b", "c", "d"} {
		ids[body] = enqueue(body).ID
	}
	start := c.clock.Now()
	most := func(time.Duration) int { return 1 + int(c.clock.Now().Sub(start)/(2*time.Second)) }
	c.tick(t, 250*time.Millisecond, most, func() bool { return c.count() == 1 })

	// The clock stands: no other call begins.
	cancelled := ""
	for _, body := range []string{"a", "b", "c"} {
		if c.byKey[body] > 0 || cancelled != "" {
			continue
		}
		if e := enqueue(body); !e.Duplicate || e.ID != ids[body] {
			t.Errorf("beside the job that waits: %+v", e)
		}
		if state, err := account.CancelJob(t.Context(), ids[body]); state != workers.JobCancelled || err != nil {
			t.Errorf("cancelled: %v, %v", state, err)
		}
		cancelled = body
	}
	c.tick(t, 250*time.Millisecond, most, func() bool { return c.count() == 5 && len(account.Messages("calls")) == 0 })
	for body, id := range ids {
		want, attempts := workers.JobDone, 1
		switch body {
		case "fails":
			want, attempts = workers.JobPoisoned, 2
		case cancelled:
			want, attempts = workers.JobCancelled, 0
		}
		j, err := account.Job(t.Context(), id)
		if err != nil || j.State != want || j.Attempt != int64(attempts) || c.byKey[body] != attempts {
			t.Errorf("%s: %+v, %v, %d calls; want %s after %d", body, j, err, c.byKey[body], want, attempts)
		}
	}
}

// A crash at each step, which an error stands for here: the limit holds, and every message is handled.
func TestRateLimitCrashesAtEveryStep(t *testing.T) {
	for _, point := range fault.PointsOf("rates") {
		t.Run(point, func(t *testing.T) {
			stop := fault.Activate(fault.NewPlan(fault.Rule{Point: fault.Name(point), On: 2,
				Do: fault.Fail(errors.New("a crash"))}))
			defer stop()
			account, c := limited(t, 2, workers.WithRateLimitPerKey(func(string) string { return "all" },
				workers.Rate{Calls: 1, Per: time.Second}), workers.WithMaxDequeueCount(1), workers.WithLease(10*time.Second))
			for i := range 6 {
				sendCalls(t, account, fmt.Sprintf(`"%d"`, i))
			}
			c.tick(t, 200*time.Millisecond, func(d time.Duration) int { return 1 + int(d/time.Second) },
				func() bool { return c.count() == 6 })
			for body, n := range c.byKey {
				if n != 1 {
					t.Errorf("%s was called %d times", body, n)
				}
			}
			account.RequireEmpty("calls-poison")
		})
	}
}

// A limit of both kinds, and one of calls for a batch.
func TestRateLimitOfBatches(t *testing.T) {
	t.Parallel()
	clock := lazulitest.NewClock()
	account := lazulitest.Start(t, lazulitest.WithFakeClock(clock)).Account(t)
	c := &calls{clock: clock, byKey: map[string]int{}}
	handled := 0
	app := workers.New(workers.Config{Storage: account.Storage, Clock: clock, Logger: quiet})
	workers.Batch(app, "calls", func(_ context.Context, batch []*workers.BatchMessage[int]) error {
		handled += len(batch)
		return c.add("")
	}, workers.WithRateLimit(workers.Rate{Calls: 1, Per: time.Second}), workers.WithBatchSize(8),
		workers.WithNewBatchThreshold(0))
	for i := range 32 {
		sendCalls(t, account, fmt.Sprint(i))
	}
	account.Run(app)
	c.tick(t, 100*time.Millisecond, func(d time.Duration) int { return 1 + int(d/time.Second) },
		func() bool { c.mu.Lock(); defer c.mu.Unlock(); return handled == 32 })
	if n := c.count(); n != 4 {
		t.Errorf("%d calls for 32 messages in batches of 8", n)
	}
}
