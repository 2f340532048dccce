package budget

import (
	"context"
	"errors"
	"testing"
	"time"
)

// clock is a clock that a test sets.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

func start(ctx context.Context, limit time.Duration) (*Work, *clock) {
	c := &clock{at: time.Unix(1e9, 0)}
	return newWork(ctx, limit, c.now), c
}

func TestWorkEnds(t *testing.T) {
	t.Parallel()
	w, c := start(t.Context(), time.Second)
	steps := 0
	for ; steps < 1000; steps++ {
		c.at = c.at.Add(50 * time.Millisecond)
		if err := w.Spend(step); err != nil {
			if !errors.Is(err, ErrExhausted) {
				t.Fatal(err)
			}
			break
		}
	}
	if steps != 20 {
		t.Errorf("a second of work is spent after %d steps of 50 ms", steps)
	}
}

func TestSmallWorkDoesNotLookAtTheClock(t *testing.T) {
	t.Parallel()
	w, c := start(t.Context(), time.Second)
	c.at = c.at.Add(time.Hour)
	if err := w.Spend(step - 1); err != nil {
		t.Error(err)
	}
}

// A step that waited for a processor, which takes long although it does little, does not end a request.
func TestLongStepsAreChargedInPart(t *testing.T) {
	t.Parallel()
	w, c := start(t.Context(), time.Second)
	for range 9 {
		c.at = c.at.Add(time.Minute)
		if err := w.Spend(step); err != nil {
			t.Fatal(err)
		}
	}
}

func TestUnitsHaveACost(t *testing.T) {
	t.Parallel()
	w, _ := start(t.Context(), time.Second)
	if err := w.Spend(1 << 29); err != nil {
		t.Error(err)
	}
	if err := w.Spend(1 << 29); !errors.Is(err, ErrExhausted) {
		t.Errorf("after 2^30 units in no time: %v", err)
	}
}

func TestContentAddsTime(t *testing.T) {
	t.Parallel()
	w, c := start(t.Context(), 0)
	if err := w.Read(1 << 20); err != nil {
		t.Fatal(err)
	}
	c.at = c.at.Add(50 * time.Millisecond)
	if err := w.Check(); err != nil {
		t.Error(err)
	}
	for range 20 {
		c.at = c.at.Add(50 * time.Millisecond)
		_ = w.Check()
	}
	if err := w.Check(); !errors.Is(err, ErrExhausted) {
		t.Errorf("after more than PerMiB: %v", err)
	}
}

func TestWaitingIsNotCharged(t *testing.T) {
	t.Parallel()
	w, c := start(t.Context(), 10*time.Millisecond)
	for range 100 {
		err := w.Wait(func() error { c.at = c.at.Add(time.Minute); return nil })
		if err == nil {
			err = w.Check()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestWorkEndsWithItsContext(t *testing.T) {
	t.Parallel()
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	w, _ := start(ctx, time.Hour)
	cancel(gone)
	for name, err := range map[string]error{"Spend": w.Spend(step), "Check": w.Check(), "Read": w.Read(1)} {
		if !errors.Is(err, gone) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNilIsNotLimited(t *testing.T) {
	t.Parallel()
	var w *Work
	if err := errors.Join(w.Spend(1<<40), w.Check(), w.Read(1), w.Wait(func() error { return nil })); err != nil {
		t.Error(err)
	}
}

func BenchmarkSpend(b *testing.B) {
	w := New(b.Context(), time.Hour)
	for b.Loop() {
		if err := w.Spend(1); err != nil {
			b.Fatal(err)
		}
	}
}
