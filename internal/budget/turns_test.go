package budget

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// waitFor waits until n requests wait for a turn.
func (t *Turns) waitFor(tb testing.TB, n int) {
	tb.Helper()
	check.Eventually(tb, func() bool {
		t.mu.Lock()
		defer t.mu.Unlock()
		have := 0
		for _, list := range t.waiting {
			have += len(list)
		}
		return have == n
	}, "%d requests wait", n)
}

// An account with one request does not wait for all requests of an account with many.
func TestAccountsTakeTurns(t *testing.T) {
	t.Parallel()
	turns := newTurns(1)
	if err := turns.take(t.Context(), "noisy"); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var order []string
	var done sync.WaitGroup
	begin := func(account string) {
		done.Go(func() {
			if err := turns.take(t.Context(), account); err != nil {
				t.Error(err)
			}
			mu.Lock()
			order = append(order, account)
			mu.Unlock()
			turns.give()
		})
	}
	for range 10 {
		begin("noisy")
	}
	turns.waitFor(t, 10)
	begin("quiet")
	turns.waitFor(t, 11)
	begin("third")
	turns.waitFor(t, 12)
	turns.give()
	done.Wait()
	if got := strings.Join(order[:3], " "); got != "noisy quiet third" {
		t.Errorf("the first turns are of %s", got)
	}
	if turns.free != 1 || turns.contended() || len(turns.waiting) != 0 {
		t.Errorf("at the end: %+v", turns)
	}
}

func TestWaitingForATurnEndsWithTheClient(t *testing.T) {
	t.Parallel()
	turns := newTurns(1)
	_ = turns.take(t.Context(), "a")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- turns.take(ctx, "b") }()
	turns.waitFor(t, 1)
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	turns.give()
	if turns.free != 1 || turns.contended() {
		t.Errorf("at the end: %+v", turns)
	}
}

// A request takes a processor once it has computed for some time, lets others have it, and gives it back at its end and
// while it waits.
func TestWorkTakesTurns(t *testing.T) {
	t.Parallel()
	turns := newTurns(1)
	w, c := start(t.Context(), time.Hour)
	w.Share(turns, "a")
	step := func() {
		t.Helper()
		c.at = c.at.Add(4 * time.Millisecond)
		if err := w.Check(); err != nil {
			t.Fatal(err)
		}
	}
	step()
	if turns.free != 1 {
		t.Error("a short request takes a processor")
	}
	step()
	if turns.free != 0 {
		t.Error("a long request takes no processor")
	}
	w.Pause()
	if turns.free != 1 {
		t.Error("a request keeps its processor while it sends its answer")
	}
	step()
	_ = w.Wait(func() error {
		if turns.free != 1 {
			t.Error("a request keeps its processor while it waits")
		}
		return nil
	})
	step()
	if turns.free != 0 {
		t.Error("a request that has waited takes no processor")
	}
	other := make(chan error, 1)
	go func() { other <- turns.take(t.Context(), "b") }()
	turns.waitFor(t, 1)
	gave := make(chan struct{})
	go func() { // b gives it back as soon as it has it
		if err := <-other; err != nil {
			t.Error(err)
		}
		turns.give()
		close(gave)
	}()
	for range 3 {
		step()
	}
	<-gave
	w.Done()
	w.Done()
	if turns.free != 1 {
		t.Errorf("%d processors are free at the end", turns.free)
	}
}

func BenchmarkSpendInTurns(b *testing.B) {
	w := New(b.Context(), time.Hour)
	w.Share(newTurns(2), "a")
	defer w.Done()
	for b.Loop() {
		if err := w.Spend(1); err != nil {
			b.Fatal(err)
		}
	}
}

// While another account sends requests, those of an account that computes more at a time than there are processors take
// turns before they compute; alone, and with no more requests than processors, only once they are long.
func TestCrowdTakesTurnsBesideAnotherAccount(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		requests int
		other    time.Duration // since a request of another account came; 0 for no other account
		taken    bool
	}{
		{"alone", 3, 0, false},
		{"beside another, a request for each processor", 2, time.Millisecond, false},
		{"beside another, more", 3, time.Millisecond, true},
		{"beside one that sent its last request long ago", 3, 2 * time.Second, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			turns := newTurns(2)
			var all []*Work
			for range c.requests {
				w, clock := start(t.Context(), time.Hour)
				if c.other > 0 {
					turns.Arrived("quiet", clock.at.Add(-c.other))
				}
				turns.Arrived("noisy", clock.at)
				w.Share(turns, "noisy")
				all = append(all, w)
			}
			for _, w := range all {
				if err := w.Spend(1); err != nil { // the first of its work
					t.Fatal(err)
				}
			}
			if got := turns.free < 2; got != c.taken {
				t.Errorf("%d processors are free; taken %v, want %v", turns.free, got, c.taken)
			}
			for _, w := range all {
				w.Done()
			}
			if turns.free != 2 || len(turns.working) != 0 {
				t.Errorf("at the end: %d processors are free, %v compute", turns.free, turns.working)
			}
		})
	}
}

// The requests of a crowd wait for the first ones, and another account's goes between them.
func TestQuietAccountGoesBetweenACrowd(t *testing.T) {
	t.Parallel()
	turns := newTurns(1)
	begun := make(chan *Work, 8)
	var done sync.WaitGroup
	at := time.Now()
	turns.Arrived("noisy", at)
	turns.Arrived("quiet", at)
	for range 4 { // the crowd
		w := newWork(t.Context(), time.Hour, func() time.Time { return at })
		w.Share(turns, "noisy")
		w.counted = true
		turns.begin("noisy")
		done.Go(func() {
			if err := w.Check(); err != nil {
				t.Error(err)
			}
			begun <- w
		})
	}
	first := <-begun
	turns.waitFor(t, 3)
	quiet := newWork(t.Context(), time.Hour, func() time.Time { return at })
	quiet.Share(turns, "quiet")
	if err := quiet.Check(); err != nil { // it does not wait
		t.Fatal(err)
	}
	quiet.Done()
	first.Done()
	for range 3 {
		(<-begun).Done()
	}
	done.Wait()
	if turns.free != 1 || turns.contended() || len(turns.working) != 0 {
		t.Errorf("at the end: %+v", turns.working)
	}
}

// A crowd leaves one of two processors to short requests while those of another account come, and takes it when they no
// longer do.
func TestCrowdLeavesAProcessor(t *testing.T) {
	t.Parallel()
	turns := newTurns(2)
	at := time.Now()
	turns.now = func() time.Time { return at }
	turns.Arrived("quiet", at)
	turns.Arrived("noisy", at)
	for range 3 {
		turns.begin("noisy")
	}
	taken := make(chan error, 3)
	for range 3 {
		go func() { taken <- turns.take(t.Context(), "noisy") }()
	}
	check.OK(t, <-taken)
	turns.waitFor(t, 2)
	if turns.free != 1 {
		t.Errorf("beside another account %d processors are free, want 1", turns.free)
	}
	turns.give()
	check.OK(t, <-taken)
	turns.waitFor(t, 1)

	at = at.Add(2 * presentFor)
	turns.give() // both processors
	check.OK(t, <-taken)
	if turns.free != 1 || turns.contended() {
		t.Errorf("alone a request waits while %d processors are free", turns.free)
	}
	turns.give()
	for range 3 {
		turns.end("noisy")
	}
	if turns.free != 2 || turns.crowds != 0 {
		t.Errorf("at the end %d processors are free, %d accounts are crowds", turns.free, turns.crowds)
	}
}

// The turn that a request takes before its first step costs no work: a page whose work is short still has an item.
func TestTurnBeforeTheFirstStepIsFree(t *testing.T) {
	t.Parallel()
	turns := newTurns(1)
	at := time.Now()
	turns.Arrived("noisy", at)
	turns.Arrived("quiet", at)
	w := newWork(t.Context(), time.Nanosecond, func() time.Time { return at })
	w.Share(turns, "noisy")
	defer w.Done()
	check.OK(t, w.Spend(1))
	if err := w.Spend(step); !errors.Is(err, ErrExhausted) {
		t.Errorf("the first step ends with %v, want %v", err, ErrExhausted)
	}
}
