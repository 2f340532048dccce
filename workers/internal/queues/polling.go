package queues

import (
	"net/http"
	"strconv"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/longpoll"
)

// MinPollingInterval is the minimum interval between polls of an empty queue.
const MinPollingInterval = 100 * time.Millisecond

// PollingBackOff computes the intervals between polls of an empty queue like the Azure Functions host (its
// RandomizedExponentialBackoffStrategy): the interval grows from MinPollingInterval to the maximum in random steps that
// double, and is reset when a message is received. The zero value with max set is ready to use.
type PollingBackOff struct {
	Max      time.Duration
	interval time.Duration
	exponent int
}

// Found resets the back-off after a poll that received messages.
func (b *PollingBackOff) Found() { b.interval, b.exponent = MinPollingInterval, 1 }

// Empty returns the interval after a poll that received none. random is in [0, 1).
func (b *PollingBackOff) Empty(random float64) time.Duration {
	if b.interval == b.Max {
		return b.interval
	}
	next := MinPollingInterval
	if b.exponent > 0 {
		step := (0.8 + 0.4*random) * float64(int64(1)<<(b.exponent-1)) * float64(MinPollingInterval)
		next += time.Duration(step)
	}
	if next < b.Max {
		b.interval = next
		b.exponent++
	} else {
		b.interval = b.Max
	}
	return b.interval
}

// LongWait is the duration of a long poll.
const LongWait = 30 * time.Second

// FeedHeader requests the changes after a position, with a long poll of most.
func FeedHeader(position string, most time.Duration) http.Header {
	h := http.Header{longpoll.AfterHeader: {position}}
	if most > 0 {
		h.Set(longpoll.WaitHeader, strconv.Itoa(max(int(most/time.Second), 1)))
	}
	return h
}
