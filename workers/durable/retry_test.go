package durable

import (
	"errors"
	"testing"
	"time"
)

// The pauses of policies, after each attempt that has failed. Histories have timers of these lengths.
func TestPauses(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	broken, fatal := errors.New("broken"), errors.New("fatal")
	for name, c := range map[string]struct {
		policy RetryPolicy
		since  time.Duration
		err    error
		want   []time.Duration // 0: no further attempt
	}{
		"one attempt by default": {RetryPolicy{InitialRetryInterval: ms}, 0, broken, []time.Duration{0}},
		"pauses of one length": {RetryPolicy{MaxAttempts: 3, InitialRetryInterval: ms}, 0,
			broken, []time.Duration{ms, ms, 0}},
		"longer ones": {RetryPolicy{MaxAttempts: 4, InitialRetryInterval: 1500 * time.Microsecond, BackoffCoefficient: 3}, 0,
			broken, []time.Duration{ms, 3 * ms, 9 * ms, 0}},
		"a bound": {RetryPolicy{MaxAttempts: 9, InitialRetryInterval: ms, BackoffCoefficient: 2, MaxRetryInterval: 3 * ms}, 0,
			broken, []time.Duration{ms, 2 * ms, 3 * ms, 3 * ms}},
		"less than a millisecond": {RetryPolicy{MaxAttempts: 9, InitialRetryInterval: ms / 2}, 0,
			broken, []time.Duration{0}},
		"in time": {RetryPolicy{MaxAttempts: 9, InitialRetryInterval: ms, RetryTimeout: ms}, ms,
			broken, []time.Duration{ms}},
		"too late": {RetryPolicy{MaxAttempts: 9, InitialRetryInterval: ms, RetryTimeout: ms}, ms + 1,
			broken, []time.Duration{0}},
		"an error that is not handled": {RetryPolicy{MaxAttempts: 9, InitialRetryInterval: ms,
			Handle: func(err error) bool { return !errors.Is(err, fatal) }}, 0, fatal, []time.Duration{0}},
	} {
		p, err := c.policy.withDefaults()
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for i, want := range c.want {
			if got, again := p.pause(i+1, c.since, c.err); got != want || again != (want > 0) {
				t.Errorf("%s: after attempt %d: %v, %v; want %v", name, i+1, got, again, want)
			}
		}
	}
	if _, err := (RetryPolicy{MaxAttempts: 2}).withDefaults(); err == nil {
		t.Error("a policy without a pause is valid")
	}
}
