package workers

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Rate is a limit of calls over time, of all instances together.
type Rate struct {
	// Calls may begin in any period of length Per; the calls are spread evenly over it. At least one in a day, and at
	// most 100,000 in a second.
	Calls int
	Per   time.Duration
	// Burst is the number of calls that may begin at once after a time without calls: up to Calls + Burst - 1 begin in
	// a period then. 0 is 1.
	Burst int
}

// WithRateLimit limits how often a function is called, over all instances of all processes with its HostID that use the
// same storage account. What is limited is calls: attempts count, and a call of [Batch] is one.
//
// The instances share a row of the table "lazuliratelimits", in which each reserves times for its calls before they
// begin, with the ETag as condition; one request reserves for all messages that have come meanwhile. A function
// receives no more messages than may begin within the next second, and a message that waits for its time keeps its
// lease. A call begins at its reserved time or at most 250 ms later; after that a new time is reserved. A process that
// dies with reservations leaves them unused. Without the table's answer no call begins.
//
// The times are those of the instance's clock; one that differs by more than two seconds from the service's is
// corrected. An instance whose clock is fast by s, up to those two seconds, can begin the calls of s earlier, once; one
// whose clock is slow begins later.
func WithRateLimit(r Rate) QueueOption {
	return queueOption(func(s *settings) { s.rate = &r })
}

// WithRateLimitPerKey is [WithRateLimit] for each key. key is called with the body, decoded from JSON as a T; messages
// whose body is not a T or whose key is empty are not limited. A function can have both limits.
//
// Each key has a row of the table. A message that could not begin within a second is put back until its turn may come,
// and does not count as an attempt: a full key keeps no other from being handled. It keeps its ID; messages of one key
// can change their order. Each message is put back at most once for each that begins, on average. Rows of keys that
// were not used for an hour are deleted.
func WithRateLimitPerKey[T any](key func(T) string, r Rate) QueueOption {
	return queueOption(func(s *settings) {
		s.keyRate = &r
		s.rateKey = nil
		if key != nil {
			s.rateKey = keyOf(key)
		}
	})
}

// keyOf returns the key of a body, which is empty if it is not a T.
func keyOf[T any](key func(T) string) func([]byte) string {
	return func(body []byte) string {
		var v T
		if json.Unmarshal(body, &v) != nil {
			return ""
		}
		return key(v)
	}
}

// validateRates checks the settings of WithRateLimit and WithRateLimitPerKey.
func (s settings) validateRates() error {
	if s.keyRate != nil && s.rateKey == nil {
		return errors.New("rate limit per key: the key function is nil")
	}
	return errors.Join(s.rate.validate(), s.keyRate.validate())
}

func (r *Rate) validate() error {
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
func (r Rate) interval() time.Duration {
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
func (b bucket) grant(r Rate, now time.Time, n int, horizon time.Duration) (after bucket, starts, waits []time.Time) {
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
func (b bucket) within(r Rate, now time.Time, horizon time.Duration) int {
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
