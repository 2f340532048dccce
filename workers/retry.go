package workers

import (
	"math"
	"math/rand/v2"
	"time"
)

// RetryPolicy determines how long a message stays invisible after a failed attempt.
type RetryPolicy interface {
	// Delay is called with the number of attempts so far, at least 1.
	Delay(attempts int64) time.Duration
}

// RetryFunc is a function that implements RetryPolicy.
type RetryFunc func(attempts int64) time.Duration

// Delay implements RetryPolicy.
func (f RetryFunc) Delay(attempts int64) time.Duration { return f(attempts) }

// Fixed returns a policy with the same delay after every failure. Fixed(0), which retries at once, is the default, as
// in Azure Functions.
func Fixed(delay time.Duration) RetryPolicy {
	return RetryFunc(func(int64) time.Duration { return delay })
}

// Exponential returns a policy whose delay is first after the first failure, doubles with each further failure, and is
// at most limit. A random factor between 0.8 and 1.2 spreads the delays of messages that failed together.
func Exponential(first, limit time.Duration) RetryPolicy {
	return RetryFunc(func(attempts int64) time.Duration {
		d := float64(first) * math.Pow(2, float64(max(attempts, 1)-1))
		d = min(d, float64(limit)) * (0.8 + 0.4*rand.Float64())
		return time.Duration(min(d, float64(limit)))
	})
}
