package blob

import (
	"errors"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/state/blob/lease"
)

// A finite lease that was acquired while the clock was a day ahead keeps others out for its duration at most, from the
// first request on that it refuses, and not for a day. Of two clients that then acquire it, one succeeds.
func TestLeaseOfAClockThatWasAhead(t *testing.T) {
	t.Parallel()
	for _, container := range []bool{false, true} {
		for _, broken := range []bool{false, true} {
			r := newRig(t, Policy{})
			r.put("b", "x")
			right := r.now
			ask := func(at time.Time, q *lease.Request) error {
				r.now = at
				if container {
					_, err := r.s.Containers.Lease(&ContainerWrite{Account: "a", Container: "box", Now: at, Policy: r.policy}, q)
					return err
				}
				w := r.write("b")
				w.Now = at
				_, err := r.s.Blobs.Lease(w, q)
				return err
			}
			acquire := func(id string) *lease.Request {
				return &lease.Request{Action: lease.Acquire, Proposed: id, Duration: 60}
			}
			ahead := right.Add(24 * time.Hour)
			if err := ask(ahead, acquire("old")); err != nil {
				t.Fatal(err)
			}
			if broken {
				if err := ask(ahead, &lease.Request{Action: lease.Break, Period: 30}); err != nil {
					t.Fatal(err)
				}
			}
			for after, want := range []error{0: lease.ErrPresent, 1: lease.ErrPresent, 2: nil, 3: lease.ErrPresent} {
				at := right.Add(time.Duration([]int{0, 59, 61, 120}[after]) * time.Second)
				if err := ask(at, acquire("new"+string(rune('0'+after)))); !errors.Is(err, want) {
					t.Errorf("container %v, broken %v: acquired at %v: %v, want %v", container, broken, at.Sub(right), err, want)
				}
			}
		}
	}
}
