package gather

import (
	"testing"
	"time"
)

func TestWaitForCallersThatWereAnswered(t *testing.T) {
	t.Parallel()
	start := time.Unix(1_800_000_000, 0)
	const took = 3 * time.Millisecond
	for _, c := range []struct {
		name             string
		answered, queued int           // at the end of the last group
		took             time.Duration // by its commit
		now              int           // calls in the queue of the next leader
		later            time.Duration // since the last group
		want             time.Duration
	}{
		{"one client", 1, 0, took, 1, 0, 0},
		{"no group before", 0, 0, 0, 1, 0, 0},
		{"two groups that take turns", 16, 16, took, 16, 0, took},
		{"all were answered", 32, 0, took, 1, 0, took},
		{"all have come", 16, 16, took, 32, 0, 0},
		{"the last commit was slow", 16, 16, time.Second, 16, 0, maxWait},
		{"the last group was long ago", 32, 0, took, 1, took + 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var g Gatherer
			g.Committed(c.answered, c.queued, start.Add(-c.took), start)
			if got, _ := g.Begin(c.now, start.Add(c.later)); got != c.want {
				t.Errorf("the leader waits %v, want %v", got, c.want)
			}
		})
	}
}

func TestWaitEndsWhenTheCallsAreThere(t *testing.T) {
	t.Parallel()
	now := time.Now()
	var g Gatherer
	g.Committed(2, 1, now.Add(-time.Millisecond), now)
	_, full := g.Begin(1, now)
	ended := func() bool {
		select {
		case <-full:
			return true
		default:
			return false
		}
	}
	if g.Arrived(2); ended() {
		t.Error("the wait for three calls ended with two")
	}
	if g.Arrived(3); !ended() {
		t.Error("the wait for three calls goes on with three")
	}
	g.Arrived(4) // no caller waits any more
}

// Each wait without a result makes more groups begin without one, up to a limit; one with a result makes it few again.
func TestWaitWithoutAResultBecomesRare(t *testing.T) {
	t.Parallel()
	now := time.Now()
	var g Gatherer
	// skipped returns the number of groups before the next one that waits, which has then got the given number of 16
	// calls.
	skipped := func(got int) (n int) {
		for ; ; n++ {
			g.Committed(8, 8, now.Add(-time.Millisecond), now)
			if limit, _ := g.Begin(8, now); limit > 0 {
				g.End(got)
				return n
			}
		}
	}
	for i, want := range []int{0, 1, 2, 4, 8, 16, 32, 64, 64} {
		if got := skipped(12); got != want { // three quarters
			t.Fatalf("wait %d: %d groups began without one, want %d", i, got, want)
		}
	}
	if got := skipped(14); got != 64 {
		t.Errorf("%d groups, want 64", got)
	}
	for i, want := range []int{0, 1, 2} {
		if got := skipped(12); got != want {
			t.Errorf("wait %d after one with a result: %d groups began without one, want %d", i, got, want)
		}
	}
}

// A client is alone after some groups of one call, until there is another call.
func TestAlone(t *testing.T) {
	t.Parallel()
	now := time.Now()
	var g Gatherer
	for range 2 {
		for i := range aloneAfter {
			if g.Alone() {
				t.Errorf("alone after %d groups, want %d", i, aloneAfter)
			}
			g.Committed(1, 0, now, now)
		}
		if !g.Alone() {
			t.Errorf("not alone after %d groups", aloneAfter)
		}
		if g.Committed(1, 1, now, now); g.Alone() {
			t.Error("alone while another call waits")
		}
		if g.Committed(2, 0, now, now); g.Alone() {
			t.Error("alone after a group of two calls")
		}
	}
}
