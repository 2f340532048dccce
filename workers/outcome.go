package workers

import (
	"errors"
	"fmt"
	"time"
)

// ErrLeaseLost is the cause of a cancelled handler context when another instance may have received the message.
var ErrLeaseLost = errors.New("workers: the lease on the message was lost")

// ErrStopping is the cause of a cancelled handler context when the app stops and the drain timeout has passed.
var ErrStopping = errors.New("workers: the app is stopping")

// ErrTimeout is the cause of a cancelled handler context when the handler exceeded WithTimeout.
var ErrTimeout = errors.New("workers: the handler ran longer than its timeout")

// ErrStuck is the error recorded for a handler that did not return after its context was cancelled.
var ErrStuck = errors.New("workers: the handler did not return after its context was cancelled")

// PanicError is the error recorded for a handler that panicked.
type PanicError struct {
	Value any
	// Stack is the stack of the goroutine that panicked.
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("workers: the handler panicked: %v", e.Value) }

// Unwrap returns the value of the panic if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

type permanentError struct{ err error }

func (e *permanentError) Error() string { return e.err.Error() }
func (e *permanentError) Unwrap() error { return e.err }

// Permanent marks an error that a retry cannot fix: the message is moved to the poison queue at once.
// Permanent(nil) is nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err}
}

// IsPermanent reports whether an error, or one inside it, was marked by [Permanent].
func IsPermanent(err error) bool {
	var p *permanentError
	return errors.As(err, &p)
}

type retryAfterError struct {
	err   error
	delay time.Duration
}

func (e *retryAfterError) Error() string { return e.err.Error() }
func (e *retryAfterError) Unwrap() error { return e.err }

// RetryAfter marks an error after which the message becomes visible again after delay, instead of the delay of the
// retry policy. The attempt counts. RetryAfter(nil, d) is nil.
func RetryAfter(err error, delay time.Duration) error {
	if err == nil {
		return nil
	}
	return &retryAfterError{err, delay}
}

type loggedError struct{ err error }

func (e *loggedError) Error() string { return e.err.Error() }
func (e *loggedError) Unwrap() error { return e.err }

// Logged marks an error that the handler has logged. The runtime treats it like any other error, but does not log it.
// Logged(nil) is nil.
func Logged(err error) error {
	if err == nil {
		return nil
	}
	return &loggedError{err}
}

type snoozeError struct{ delay time.Duration }

func (e *snoozeError) Error() string { return fmt.Sprintf("workers: snoozed for %v", e.delay) }

// Snooze returns an error that postpones a message: it becomes visible again after delay, and the attempt does not
// count. Since a queue cannot lower a dequeue count, the runtime puts a copy with a new ID and the remaining time to
// live, and deletes the original. The count of earlier failures restarts at zero.
func Snooze(delay time.Duration) error { return &snoozeError{delay} }
