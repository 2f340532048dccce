package durable

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"time"
)

// RetryPolicy says when and how often a failed activity or workflow is called again.
type RetryPolicy struct {
	// MaxAttempts is the number of attempts, the first one included. Default 1.
	MaxAttempts int
	// InitialRetryInterval is the pause before the second attempt. It must be positive.
	InitialRetryInterval time.Duration
	// BackoffCoefficient is the factor by which each pause is longer than the last. Default 1.
	BackoffCoefficient float64
	// MaxRetryInterval bounds the pauses. Default: no bound.
	MaxRetryInterval time.Duration
	// RetryTimeout is the time from the call on after which no attempt begins. Default: none.
	RetryTimeout time.Duration
	// Handle says for which errors to try again. Default: all. It must be deterministic, as the workflow.
	Handle func(error) bool
}

func (p RetryPolicy) withDefaults() (RetryPolicy, error) {
	if p.InitialRetryInterval <= 0 {
		return p, errors.New("durable: InitialRetryInterval must be greater than 0")
	}
	p.MaxAttempts = max(p.MaxAttempts, 1)
	if p.BackoffCoefficient <= 0 {
		p.BackoffCoefficient = 1
	}
	// The largest duration stands for no bound, so that pause has no special case.
	p.MaxRetryInterval = cmp.Or(max(p.MaxRetryInterval, 0), math.MaxInt64)
	p.RetryTimeout = cmp.Or(max(p.RetryTimeout, 0), math.MaxInt64)
	if p.Handle == nil {
		p.Handle = func(error) bool { return true }
	}
	return p, nil
}

// pause returns the time between an attempt, counted from 1, that has failed and the next one. It is false if there is
// no next one. Histories have the timers that it leads to: the result for the same arguments must not change.
func (p RetryPolicy) pause(attempt int, since time.Duration, err error) (time.Duration, bool) {
	if attempt >= p.MaxAttempts || !p.Handle(err) || since > p.RetryTimeout {
		return 0, false
	}
	// In whole milliseconds, as durabletask-go computes it: timers of histories that it has begun must be the same.
	ms := float64(p.InitialRetryInterval.Milliseconds()) * math.Pow(p.BackoffCoefficient, float64(attempt-1))
	if ms >= float64(p.MaxRetryInterval.Milliseconds()) {
		return p.MaxRetryInterval, true
	}
	// A pause of less than a millisecond ends the attempts.
	d := time.Duration(int64(ms)) * time.Millisecond
	return d, d > 0
}

// retried is a task with a policy. The first attempt begins with the task, the others within Await.
type retried struct {
	ctx      *Context
	policy   RetryPolicy
	begin    func() Task
	last     Task // the attempt that was made last
	began    time.Time
	attempts int // that have failed
	over     bool
}

// Ended implements Task.
func (t *retried) Ended() bool { return t.last.Ended() }

// Await implements Task.
func (t *retried) Await(v any) error {
	for {
		err := t.last.Await(v)
		if err == nil || t.over {
			return err
		}
		t.attempts++
		pause, again := t.policy.pause(t.attempts, t.ctx.CurrentTimeUtc.Sub(t.began), err)
		if !again {
			t.over = true // A second Await returns the same error.
			return err
		}
		// The timer is a task of the history, so that a replay finds the same attempts.
		if err2 := t.ctx.CreateTimer(pause).Await(nil); err2 != nil {
			return fmt.Errorf("%w %w", err2, err)
		}
		t.last = t.begin()
	}
}
