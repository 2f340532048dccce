package workers

import (
	"github.com/lazuli-storage/lazuli/workers/internal/trigger"
)

// ConcurrencyPerKey limits the number of messages with the same key that one instance handles at the same time to n.
// With n = 1, messages with the same key are handled one after another, in the order in which they were received. key
// is called with the body, decoded from JSON as a T, before the handler; it must be fast. Messages whose body is not a
// T or whose key is empty are not limited.
//
// A message that waits for its key is in flight: its lease is renewed, and it counts towards the limit of
// WithConcurrency, which should be high enough for several keys. Its timeout starts when its handler is called. When
// the app stops, it is released, and the attempt does not count as failed. The limit applies to each instance
// separately.
func ConcurrencyPerKey[T any](key func(T) string, n int) QueueOption {
	return queueOption(func(s *trigger.Settings) {
		s.PerKey = n
		s.Key = nil
		if key != nil {
			s.Key = keyOf(key)
		}
	})
}
