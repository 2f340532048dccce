package ratelimit

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// Whatever instances ask for, and whenever, no period has more calls than its rate and burst allow. With a horizon, of
// those that come each is put back at most once for one that begins.
func TestRateGrants(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		rate := Limit{Calls: 1 + random.IntN(50), Per: time.Duration(1+random.IntN(5000)) * time.Millisecond,
			Burst: random.IntN(8)}
		if rate.Validate() != nil {
			continue
		}
		horizon := []time.Duration{0, time.Second}[random.IntN(2)]
		now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		var b bucket
		var begun []time.Time
		returning := map[int64]int{} // messages that were put back, by when they come again
		putBack, fresh := 0, 0
		for range 300 {
			n := random.IntN(4)
			fresh += n
			for at, k := range returning {
				if !time.Unix(0, at).After(now) {
					n += k
					delete(returning, at)
				}
			}
			room := b.within(rate, now, time.Second)
			after, starts, waits := b.grant(rate, now, n, horizon)
			if horizon > 0 && len(starts) != min(n, room) || len(starts)+len(waits) != n {
				t.Fatalf("%+v: %d start and %d wait of %d, with room for %d", rate, len(starts), len(waits), n, room)
			}
			b = after
			for _, at := range starts {
				begun = append(begun, later(at, now))
			}
			for _, at := range waits {
				if !at.After(now) {
					t.Fatalf("a message comes again at %v, now is %v", at, now)
				}
				putBack++
				returning[at.UnixNano()]++
			}
			now = now.Add(time.Duration(random.Int64N(int64(rate.interval()) * 4)))
		}
		slices.SortFunc(begun, time.Time.Compare)
		for i, first := range begun {
			in := 0
			for in < len(begun)-i && begun[i+in].Before(first.Add(rate.Per)) {
				in++
			}
			if most := rate.Calls + max(rate.Burst, 1) - 1; in > most {
				t.Fatalf("%+v: %d calls in a period, at most %d are allowed", rate, in, most)
			}
		}
		if putBack > fresh+len(begun) {
			t.Errorf("%+v: %d put back of %d, %d began", rate, putBack, fresh, len(begun))
		}
	}
}

// A pause gives the burst, and no more.
func TestRateBurst(t *testing.T) {
	t.Parallel()
	rate := Limit{Calls: 60, Per: time.Minute, Burst: 3}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	_, starts, _ := bucket{next: now.Add(-time.Hour)}.grant(rate, now, 5, 0)
	for i, want := range []time.Duration{-2, -1, 0, 1, 2} {
		if got := starts[i].Sub(now); got != want*time.Second {
			t.Errorf("call %d at %v, want %v s", i, got, int(want))
		}
	}
}

func TestRateClockOffset(t *testing.T) {
	t.Parallel()
	date := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, c := range []struct{ before, after, want time.Duration }{
		{0, 100 * time.Millisecond, 0},
		{-2 * time.Second, -2 * time.Second, 0},
		{2900 * time.Millisecond, 3 * time.Second, 0},
		{-time.Minute - time.Second, -time.Minute, time.Minute},       // slow by a minute
		{time.Hour, time.Hour + time.Second, time.Second - time.Hour}, // fast by an hour
		{-time.Hour, time.Hour, 0},                                    // a slow answer says nothing
	} {
		if got := clockOffset(date.Add(c.before), date.Add(c.after), date); got != c.want {
			t.Errorf("%v to %v: %v, want %v", c.before, c.after, got, c.want)
		}
	}
}
