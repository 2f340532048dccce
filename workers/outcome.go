package workers

import (
	"errors"
	"fmt"
	"time"
)

// ErrLeaseLost is the cause of a handler's cancelled context when its message may by now be with another instance.
var ErrLeaseLost = errors.New("workers: the lease on the message was lost")

// ErrStopping is the cause of a handler's cancelled context when the app stops and its drain timeout has passed.
var ErrStopping = errors.New("workers: the app is stopping")

// ErrTimeout is the cause of a handler's cancelled context when it ran longer than WithTimeout allows.
var ErrTimeout = errors.New("workers: the handler ran longer than its timeout")

// ErrStuck is the failure recorded for a handler that did not return after its context had been cancelled.
var ErrStuck = errors.New("workers: the handler did not return after its context was cancelled")

// PanicError is the failure recorded for a handler that panicked.
type PanicError struct {
	Value any
	// Stack is the stack of the goroutine that panicked.
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("workers: the handler panicked: %v", e.Value) }

// Unwrap returns the value that was panicked with, if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

type permanentError struct{ err error }

func (e *permanentError) Error() string { return e.err.Error() }
func (e *permanentError) Unwrap() error { return e.err }

// Permanent marks an error that trying again cannot mend: the message goes to the poison queue at once.
// Permanent(nil) is nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err}
}

type retryAfterError struct {
	err   error
	delay time.Duration
}

func (e *retryAfterError) Error() string { return e.err.Error() }
func (e *retryAfterError) Unwrap() error { return e.err }

// RetryAfter marks an error after which the message should be tried again no sooner than delay from now, whatever the retry
// policy says. The attempt counts. RetryAfter(nil, d) is nil.
func RetryAfter(err error, delay time.Duration) error {
	if err == nil {
		return nil
	}
	return &retryAfterError{err, delay}
}

type loggedError struct{ err error }

func (e *loggedError) Error() string { return e.err.Error() }
func (e *loggedError) Unwrap() error { return e.err }

// Logged marks an error that the handler has logged: the runtime treats it as any failure, but logs no line for it.
// Logged(nil) is nil.
func Logged(err error) error {
	if err == nil {
		return nil
	}
	return &loggedError{err}
}

type snoozeError struct{ delay time.Duration }

func (e *snoozeError) Error() string { return fmt.Sprintf("workers: snoozed for %v", e.delay) }

// Snooze is returned by a handler that finds it too early: the message comes back after delay, and the attempt does not
// count. A storage queue cannot lower a dequeue count, so the message is put again as a copy, under a new id and with
// the rest of its time to live, and the original is deleted; its count of earlier failures starts at zero again.
func Snooze(delay time.Duration) error { return &snoozeError{delay} }
