package workers

import (
	"math"
	"math/rand/v2"
	"time"
)

// RetryPolicy says how long a message stays invisible after a failed attempt.
type RetryPolicy interface {
	// Delay is called with the number of attempts so far, at least 1.
	Delay(attempts int64) time.Duration
}

// RetryFunc makes a policy of a function.
type RetryFunc func(attempts int64) time.Duration

// Delay implements RetryPolicy.
func (f RetryFunc) Delay(attempts int64) time.Duration { return f(attempts) }

// Fixed waits the same time after every failure. Fixed(0) tries again at once, which is the default, as in Azure Functions.
func Fixed(delay time.Duration) RetryPolicy {
	return RetryFunc(func(int64) time.Duration { return delay })
}

// Exponential waits first after the first failure, twice as long after each further one, never longer than limit, and
// spreads every wait by a random factor between 0.8 and 1.2 so that messages which failed together do not come back together.
func Exponential(first, limit time.Duration) RetryPolicy {
	return RetryFunc(func(attempts int64) time.Duration {
		d := float64(first) * math.Pow(2, float64(max(attempts, 1)-1))
		d = min(d, float64(limit)) * (0.8 + 0.4*rand.Float64())
		return time.Duration(min(d, float64(limit)))
	})
}
