package workers

import "time"

// minPollingInterval is the minimum interval between polls of an empty queue.
const minPollingInterval = 100 * time.Millisecond

// pollingBackOff computes the intervals between polls of an empty queue like the Azure Functions host (its
// RandomizedExponentialBackoffStrategy): the interval grows from minPollingInterval to the maximum in random steps that
// double, and is reset when a message is received. The zero value with max set is ready to use.
type pollingBackOff struct {
	max      time.Duration
	interval time.Duration
	exponent int
}

// found resets the back-off after a poll that received messages.
func (b *pollingBackOff) found() { b.interval, b.exponent = minPollingInterval, 1 }

// empty returns the interval after a poll that received none. random is in [0, 1).
func (b *pollingBackOff) empty(random float64) time.Duration {
	if b.interval == b.max {
		return b.interval
	}
	next := minPollingInterval
	if b.exponent > 0 {
		step := (0.8 + 0.4*random) * float64(int64(1)<<(b.exponent-1)) * float64(minPollingInterval)
		next += time.Duration(step)
	}
	if next < b.max {
		b.interval = next
		b.exponent++
	} else {
		b.interval = b.max
	}
	return b.interval
}
