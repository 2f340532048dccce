package lease

import (
	"errors"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// The matrix of the reference, states across and events down.
// https://learn.microsoft.com/rest/api/storageservices/lease-blob#outcomes-of-lease-operations-on-blobs-by-lease-state
func TestLeaseMatrix(t *testing.T) {
	t.Parallel()
	const now = ticks.Ticks(1000 * time.Second / 100)
	const second = ticks.Ticks(time.Second / 100)
	var (
		available = Lease{}
		leasedA   = Lease{State: Leased, ID: "A", Duration: 30, Until: now + 20*second}
		breakingA = Lease{State: Breaking, ID: "A", Until: now + 10*second}
		brokenA   = Lease{State: Broken, ID: "A"}
		expiredA  = Lease{State: Leased, ID: "A", Duration: 30, Until: now - second}
	)
	states := []struct {
		name  string
		lease Lease
	}{{"available", available}, {"leased", leasedA}, {"breaking", breakingA}, {"broken", brokenA}, {"expired", expiredA}}
	fresh := func(id string) Lease { return leased(id, 30, now) }
	ok := func(l Lease) any { return l }
	breaking := func(seconds int64) any {
		return Lease{State: Breaking, ID: "A", Until: now + ticks.Ticks(seconds)*second}
	}
	broken := ok(brokenA)
	for _, row := range []struct {
		event string
		apply func(Lease) (Lease, error)
		want  [5]any
	}{
		{"acquire a new id", func(l Lease) (Lease, error) { return l.Acquire("X", 30, now) },
			[5]any{ok(fresh("X")), ErrPresent, ErrPresent, ok(fresh("X")), ok(fresh("X"))}},
		{"acquire A", func(l Lease) (Lease, error) { return l.Acquire("A", 30, now) },
			[5]any{ok(fresh("A")), ok(fresh("A")), ErrBreakingAcquire, ok(fresh("A")), ok(fresh("A"))}},
		{"break in 0", func(l Lease) (Lease, error) { l, _, err := l.breakIn(0, now); return l, err },
			[5]any{ErrNoLease, broken, broken, broken, broken}},
		{"break in 5", func(l Lease) (Lease, error) { l, _, err := l.breakIn(5, now); return l, err },
			[5]any{ErrNoLease, breaking(5), breaking(5), broken, broken}},
		{"break in 60, longer than is left", func(l Lease) (Lease, error) { l, _, err := l.breakIn(60, now); return l, err },
			[5]any{ErrNoLease, breaking(20), breaking(10), broken, broken}},
		{"break, no period", func(l Lease) (Lease, error) { l, _, err := l.breakIn(BreakPeriodDefault, now); return l, err },
			[5]any{ErrNoLease, breaking(20), breaking(10), broken, broken}},
		{"change A to B", func(l Lease) (Lease, error) { return l.change("A", "B", now) },
			[5]any{ErrNoLease, ok(Lease{State: Leased, ID: "B", Duration: 30, Until: now + 20*second}),
				ErrBreakingChange, ErrNoLease, ErrNoLease}},
		{"change B to A", func(l Lease) (Lease, error) { return l.change("B", "A", now) },
			[5]any{ErrNoLease, ok(leasedA), ErrBreakingChange,
				ErrNoLease, ErrNoLease}},
		{"change B to C", func(l Lease) (Lease, error) { return l.change("B", "C", now) },
			[5]any{ErrNoLease, ErrID, ErrID,
				ErrNoLease, ErrNoLease}},
		{"renew A", func(l Lease) (Lease, error) { return l.Renew("A", now) },
			[5]any{ErrID, ok(fresh("A")), ErrBroken,
				ErrBroken, ok(fresh("A"))}},
		{"renew B", func(l Lease) (Lease, error) { return l.Renew("B", now) },
			[5]any{ErrID, ErrID, ErrID,
				ErrID, ErrID}},
		{"release A", func(l Lease) (Lease, error) { return l.release("A", now) },
			[5]any{ErrID, ok(available), ok(available), ok(available), ok(available)}},
		{"release B", func(l Lease) (Lease, error) { return l.release("B", now) },
			[5]any{ErrID, ErrID, ErrID,
				ErrID, ErrID}},
		{"write with A", write("A", now),
			[5]any{OfBlob.NotPresent, ok(leasedA), ok(breakingA), OfBlob.Lost, OfBlob.Lost}},
		{"write with B", write("B", now),
			[5]any{OfBlob.NotPresent, OfBlob.Mismatch, OfBlob.Mismatch,
				OfBlob.Lost, OfBlob.Lost}},
		{"write without", write("", now),
			[5]any{ok(available), OfBlob.Missing, OfBlob.Missing, ok(available), ok(available)}},
		{"read with A", read("A", now),
			[5]any{OfBlob.NotPresent, ok(leasedA), ok(breakingA), OfBlob.Lost, OfBlob.Lost}},
		{"read with B", read("B", now), [5]any{OfBlob.NotPresent, OfBlob.Mismatch, OfBlob.Mismatch,
			OfBlob.Lost, OfBlob.Lost}},
		{"read without", read("", now), [5]any{ok(available), ok(leasedA), ok(breakingA), ok(brokenA), ok(expiredA)}},
	} {
		for i, state := range states {
			t.Run(row.event+"/"+state.name, func(t *testing.T) {
				got, err := row.apply(state.lease)
				switch want := row.want[i].(type) {
				case error:
					if !errors.Is(err, want) {
						t.Errorf("error %v, want %v", err, want)
					}
				case Lease:
					if err != nil || got != want {
						t.Errorf("got %+v, %v; want %+v", got, err, want)
					}
				}
			})
		}
	}
}

func write(id string, now ticks.Ticks) func(Lease) (Lease, error) {
	return func(l Lease) (Lease, error) {
		if err := l.CheckWrite(id, now, &OfBlob); err != nil {
			return l, err
		}
		return l.AfterWrite(now), nil
	}
}

func read(id string, now ticks.Ticks) func(Lease) (Lease, error) {
	return func(l Lease) (Lease, error) { return l, l.CheckRead(id, now, &OfBlob) }
}

func TestBreakOfInfiniteLease(t *testing.T) {
	t.Parallel()
	l := leased("A", Infinite, 0)
	if next, left, err := l.breakIn(BreakPeriodDefault, 5); err != nil || left != 0 || next.State != Broken {
		t.Errorf("no period: %+v, %d, %v; want broken at once", next, left, err)
	}
	if next, left, err := l.breakIn(7, 5); err != nil || left != 7 || next.State != Breaking {
		t.Errorf("7 s: %+v, %d, %v; want breaking for 7 s", next, left, err)
	}
	if l.At(1<<60).State != Leased {
		t.Error("an infinite lease expired")
	}
}

func TestBreakingEndsInBroken(t *testing.T) {
	t.Parallel()
	l, left, err := leased("A", 60, 0).breakIn(10, 0)
	if err != nil || left != 10 {
		t.Fatalf("left %d, %v", left, err)
	}
	second := ticks.Ticks(time.Second / 100)
	if got := l.At(10*second - 1).State; got != Breaking {
		t.Errorf("before the end: %v", got)
	}
	if got := l.At(10 * second).State; got != Broken {
		t.Errorf("at the end: %v", got)
	}
}
