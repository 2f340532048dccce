package ratelimit

import (
	"fmt"
	"time"
)

// Limit is a Rate.
type Limit struct {
	Calls int
	Per   time.Duration
	Burst int
}

// Validate returns an error for a limit out of bounds. Nil is valid.
func (r *Limit) Validate() error {
	const day = 24 * time.Hour
	switch {
	case r == nil:
		return nil
	case r.Calls < 1 || r.Per <= 0:
		return fmt.Errorf("rate limit: %d calls per %v are not a rate", r.Calls, r.Per)
	case r.Per > day*time.Duration(r.Calls) || r.interval() < 10*time.Microsecond:
		return fmt.Errorf("rate limit: %d calls per %v are not within one a day and 100,000 a second", r.Calls, r.Per)
	case r.Burst < 0 || r.Burst > 1_000_000:
		return fmt.Errorf("rate limit: a burst of %d is not within 0 to 1,000,000", r.Burst)
	}
	return nil
}

// interval is the time between two calls, rounded up to what a table can hold: no rounding passes the limit.
func (r Limit) interval() time.Duration {
	unit := time.Duration(r.Calls) * tablePrecision
	return (r.Per + unit - 1) / unit * tablePrecision
}

// bucket is the state of a limit: a virtual schedule, one time for each call, as in the generic cell rate algorithm
// (ITU-T I.371, annex A).
//
//	next  the time of the next call. A call may begin at its time or later; after a pause the next times lie up to
//	      burst - 1 intervals in the past, and as many calls begin at once.
//	line  when the last message that was put back comes again. Those that come while all times of the next second are
//	      taken are lined up behind it, an interval apart, so that they come as they can begin.
//
// Both only grow, so that the latest of several copies is the one with the greatest next.
type bucket struct{ next, line time.Time }

// grant reserves the times of n calls, those that come before horizon. The others are lined up: waits are the times at
// which they come again. A zero horizon grants all.
func (b bucket) grant(r Limit, now time.Time, n int, horizon time.Duration) (after bucket, starts, waits []time.Time) {
	interval := r.interval()
	if first := now.Add(-interval * time.Duration(max(r.Burst, 1)-1)); b.next.Before(first) {
		b.next = first
	}
	for range n {
		if horizon == 0 || !b.next.After(now.Add(horizon)) {
			starts = append(starts, b.next)
			b.next = b.next.Add(interval)
			continue
		}
		if b.line = b.line.Add(interval); b.line.Before(b.next) {
			b.line = b.next
		}
		waits = append(waits, b.line)
	}
	return b, starts, waits
}

// within returns how many calls could begin before the horizon, at least 0.
func (b bucket) within(r Limit, now time.Time, horizon time.Duration) int {
	interval := r.interval()
	first := now.Add(-interval * time.Duration(max(r.Burst, 1)-1))
	if b.next.After(first) {
		first = b.next
	}
	left := now.Add(horizon).Sub(first)
	if left < 0 {
		return 0
	}
	return int(left/interval) + 1
}
