package workers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/workers/internal/locks"
)

type keyed struct {
	Key string
	N   int
}

// Messages of one key are handled one after another, in order; those of others go on meanwhile.
func TestConcurrencyPerKey(t *testing.T) {
	t.Parallel()
	inBubble(t, Config{}, func(b *bench) {
		var order []string
		var mu sync.Mutex // guards both
		inWork := map[string]int{}
		Queue(b.app, "work", func(ctx context.Context, m *Message[keyed]) error {
			mu.Lock()
			if inWork[m.Body.Key]++; m.Body.Key != "" && inWork[m.Body.Key] > 1 {
				b.Errorf("%d messages of %s are in work", inWork[m.Body.Key], m.Body.Key)
			}
			mu.Unlock()
			time.Sleep(10 * time.Second)
			mu.Lock()
			defer mu.Unlock()
			inWork[m.Body.Key]--
			order = append(order, fmt.Sprint(m.Body.Key, m.Body.N))
			return nil
		}, ConcurrencyPerKey(func(k keyed) string { return k.Key }, 1), WithConcurrency(32), WithLease(15*time.Second))
		for n := range 4 {
			b.queue.send(fmt.Sprintf(`{"Key":"a","N":%d}`, n))
		}
		b.queue.send(`{"Key":"b","N":0}`, `{"Key":"","N":1}`, `{"Key":"","N":2}`)
		b.start(b.app)
		b.after(11 * time.Second)
		handled := func() []string {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(order)
		}
		if got := slices.Sorted(slices.Values(handled())); !slices.Equal(got, []string{"1", "2", "a0", "b0"}) {
			b.Errorf("after one round: %q", got)
		}
		b.after(31 * time.Second) // Longer than the leases of those that wait.
		if got := handled()[4:]; !slices.Equal(got, []string{"a1", "a2", "a3"}) {
			b.Errorf("in order: %q", got)
		}
		b.wantQueues(none, none)
		if stats := b.app.Stats()[0]; stats.Failed != 0 || stats.LeaseLost != 0 {
			b.Errorf("%+v", stats)
		}
	})
}

// At a stop those that wait for their turn are given back at once; the time limit begins with the turn.
func TestConcurrencyPerKeyStops(t *testing.T) {
	t.Parallel()
	inBubble(t, Config{}, func(b *bench) {
		var handled []string
		Queue(b.app, "work", func(ctx context.Context, m *Message[keyed]) error {
			select {
			case <-time.After(20 * time.Second):
				handled = append(handled, fmt.Sprint(m.Body.N))
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}, ConcurrencyPerKey(func(k keyed) string { return k.Key }, 1), WithTimeout(30*time.Second))
		b.queue.send(`{"Key":"a","N":0}`, `{"Key":"a","N":1}`, `{"Key":"a","N":2}`)
		b.start(b.app)
		b.after(25 * time.Second) // The second has waited for 20 s, and its limit is 30.
		go b.stop(b.app)
		b.after(time.Second)
		if got := b.queue.visibleIn(); len(got) != 2 || slices.Max(got) == 0 || slices.Min(got) != 0 {
			b.Errorf("the one that waits is not given back: visible in %v", got)
		}
		b.after(time.Minute)
		if !slices.Equal(handled, []string{"0", "1"}) {
			b.Errorf("handled %q", handled)
		}
		b.wantQueues([]string{`{"Key":"a","N":2}`}, none)
		if stats := b.app.Stats()[0]; stats.Failed != 0 || stats.Released != 1 {
			b.Errorf("%+v", stats)
		}
	})
}

func TestConcurrencyPerKeyMistakes(t *testing.T) {
	t.Parallel()
	for says, o := range map[string]QueueOption{
		"less than 1":         ConcurrencyPerKey(func(keyed) string { return "" }, 0),
		"key function is nil": ConcurrencyPerKey[keyed](nil, 1),
	} {
		app := New(Config{})
		app.Queue("work", func(context.Context, QueueMessage) error { return nil }, o)
		if err := app.Start(t.Context()); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
}

// A timer's failed run is tried again by its retry policy, and then the schedule goes on.
func TestTimerRetries(t *testing.T) {
	t.Parallel()
	inBubble(t, Config{}, func(b *bench) {
		host := newFakeHost()
		b.app.openHost = func(*Storage) (locks.Store, error) { return host, nil }
		began := time.Now()
		var runs []string
		fail := 0
		b.app.Timer("tick", func(ctx context.Context, _ TimerInfo) error {
			ic, _ := FromContext(ctx)
			runs = append(runs, fmt.Sprint(time.Since(began), " ", ic.RetryContext.RetryCount, "/",
				ic.RetryContext.MaxRetryCount))
			if fail++; fail <= 5 {
				return errors.New("not yet")
			}
			return nil
		}, WithSchedule("0 0 * * * *"), WithRetry(Fixed(time.Minute)), WithMaxRetryCount(2))
		b.start(b.app)
		b.after(3*time.Hour + time.Minute)
		want := []string{"1h0m0s 0/2", "1h1m0s 1/2", "1h2m0s 2/2", "2h0m0s 0/2", "2h1m0s 1/2", "2h2m0s 2/2", "3h0m0s 0/2"}
		if !slices.Equal(runs, want) {
			b.Errorf("runs at %q, want %q", runs, want)
		}
		// Paused, its runs are left out.
		if err := b.app.Pause("tick"); err != nil {
			b.Fatal(err)
		}
		b.after(2 * time.Hour)
		if len(runs) != len(want) {
			b.Errorf("a paused timer runs: %q", runs[len(want):])
		}
	})
	app := New(Config{})
	app.Timer("tick", func(context.Context, TimerInfo) error { return nil }, WithSchedule("0 0 * * * *"),
		WithMaxRetryCount(-2))
	if err := app.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "less than -1") {
		t.Error(err)
	}
}
