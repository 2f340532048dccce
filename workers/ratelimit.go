package workers

import (
	"encoding/json"
	"time"

	"github.com/lazuli-storage/lazuli/workers/internal/ratelimit"
	"github.com/lazuli-storage/lazuli/workers/internal/trigger"
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
	return queueOption(func(s *trigger.Settings) { s.Rate = (*ratelimit.Limit)(&r) })
}

// WithRateLimitPerKey is [WithRateLimit] for each key. key is called with the body, decoded from JSON as a T; messages
// whose body is not a T or whose key is empty are not limited. A function can have both limits.
//
// Each key has a row of the table. A message that could not begin within a second is put back until its turn may come,
// and does not count as an attempt: a full key keeps no other from being handled. It keeps its ID; messages of one key
// can change their order. Each message is put back at most once for each that begins, on average. Rows of keys that
// were not used for an hour are deleted.
func WithRateLimitPerKey[T any](key func(T) string, r Rate) QueueOption {
	return queueOption(func(s *trigger.Settings) {
		s.KeyRate = (*ratelimit.Limit)(&r)
		s.RateKey = nil
		if key != nil {
			s.RateKey = keyOf(key)
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
