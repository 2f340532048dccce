package store

import (
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/test/natscluster"
)

func TestGatheringWaitsForCallersThatWereAnswered(t *testing.T) {
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
		{"the last commit was slow", 16, 16, time.Second, 16, 0, maxGather},
		{"the last group was long ago", 32, 0, took, 1, took + 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var g gathering
			g.groupEnded(c.answered, c.queued, start.Add(-c.took), start)
			if got, _ := g.begin(c.now, start.Add(c.later)); got != c.want {
				t.Errorf("the leader waits %v, want %v", got, c.want)
			}
		})
	}
}

func TestGatheringEndsWhenTheCallsAreThere(t *testing.T) {
	t.Parallel()
	now := time.Now()
	var g gathering
	g.groupEnded(2, 1, now.Add(-time.Millisecond), now)
	_, full := g.begin(1, now)
	ended := func() bool {
		select {
		case <-full:
			return true
		default:
			return false
		}
	}
	if g.arrived(2); ended() {
		t.Error("the wait for three calls ended with two")
	}
	if g.arrived(3); !ended() {
		t.Error("the wait for three calls goes on with three")
	}
	g.arrived(4) // nobody waits any more
}

// Each wait without a result makes more groups begin without one, up to a limit; one with a result makes it few again.
func TestGatheringWithoutAResultBecomesRare(t *testing.T) {
	t.Parallel()
	now := time.Now()
	var g gathering
	// skipped returns the number of groups before the next one that waits, which has then got the given number of 16 calls.
	skipped := func(got int) (n int) {
		for ; ; n++ {
			g.groupEnded(8, 8, now.Add(-time.Millisecond), now)
			if limit, _ := g.begin(8, now); limit > 0 {
				g.end(got)
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

// A leader waits for the calls that came at the end of the last group, and they share an append.
func TestCallersThatWereAnsweredShareTheNextAppend(t *testing.T) {
	t.Parallel()
	c := natscluster.Start(t, 1)
	db := openAt(t, filepath.Join(t.TempDir(), "db"), Options{Log: openLog(t, c, 0, "shared")})
	const callers = 8
	now := time.Now()
	db.mu.Lock()
	db.gathering.limit = time.Hour
	db.gathering.groupEnded(callers, 0, now.Add(-time.Hour), now)
	db.mu.Unlock()
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			if err := increment(db, fmt.Sprint(i)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := db.replica.log.Status().Appends; got != 1 {
		t.Errorf("%d appends for %d calls, want 1", got, callers)
	}
}
