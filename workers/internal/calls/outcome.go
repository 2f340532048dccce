package calls

import (
	"errors"
	"fmt"
	"time"
)

// ErrNotBegun means that the app stopped before the handler of a message that waited for its key was called.
var ErrNotBegun = errors.New("workers: the app stopped before the handler was called")

// The causes of cancelled handler contexts, and the error of a handler that was abandoned.
var (
	ErrLeaseLost = errors.New("workers: the lease on the message was lost")
	ErrStopping  = errors.New("workers: the app is stopping")
	ErrTimeout   = errors.New("workers: the handler ran longer than its timeout")
	ErrStuck     = errors.New("workers: the handler did not return after its context was cancelled")
	ErrCancelled = errors.New("workers: the job was cancelled")
)

// PermanentError is the error that Permanent returns.
type PermanentError struct{ err error }

// Error implements error.
func (e *PermanentError) Error() string { return e.err.Error() }

// Unwrap returns the marked error.
func (e *PermanentError) Unwrap() error { return e.err }

// Permanent marks an error that a retry cannot fix. Permanent(nil) is nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &PermanentError{err}
}

// IsPermanent reports whether an error, or one inside it, was marked by Permanent.
func IsPermanent(err error) bool {
	var p *PermanentError
	return errors.As(err, &p)
}

// RetryAfterError is the error that RetryAfter returns.
type RetryAfterError struct {
	err   error
	Delay time.Duration
}

// Error implements error.
func (e *RetryAfterError) Error() string { return e.err.Error() }

// Unwrap returns the marked error.
func (e *RetryAfterError) Unwrap() error { return e.err }

// RetryAfter marks an error after which the next attempt follows after delay. RetryAfter(nil, d) is nil.
func RetryAfter(err error, delay time.Duration) error {
	if err == nil {
		return nil
	}
	return &RetryAfterError{err, delay}
}

type loggedError struct{ err error }

func (e *loggedError) Error() string { return e.err.Error() }

func (e *loggedError) Unwrap() error { return e.err }

// Logged marks an error that needs no record of its own in the log. Logged(nil) is nil.
func Logged(err error) error {
	if err == nil {
		return nil
	}
	return &loggedError{err}
}

// SnoozeError is the error that Snooze returns.
type SnoozeError struct{ Delay time.Duration }

// Error implements error.
func (e *SnoozeError) Error() string { return fmt.Sprintf("workers: snoozed for %v", e.Delay) }

// Snooze returns an error that postpones a message without counting the attempt.
func Snooze(delay time.Duration) error { return &SnoozeError{delay} }

// PutBackError means that a message could not begin within the limit of its key.
type PutBackError struct {
	Until time.Time // of the service
	Count int64     // with this one
}

// Error implements error.
func (e *PutBackError) Error() string {
	return "workers: put back: the rate limit of its key is reached"
}
