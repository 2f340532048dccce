package console

import (
	"context"
	"errors"
	"fmt"
	"syscall"
)

// UsageError is a mistake in what the user asked for, as opposed to a failure in doing it.
type UsageError struct{ error }

func (e UsageError) Unwrap() error { return e.error }

// Usage returns err as a mistake of the user.
func Usage(err error) error { return UsageError{err} }

// Usagef returns a mistake of the user, as fmt.Errorf makes it.
func Usagef(format string, args ...any) error { return UsageError{fmt.Errorf(format, args...)} }

// InterruptedError is the error of work that ended early because the process got a signal.
type InterruptedError struct {
	advice string // what became of the work, or what to do; "" for nothing
	Signal syscall.Signal
	error
}

func (e *InterruptedError) Error() string {
	if e.advice == "" {
		return "interrupted"
	}
	return "interrupted: " + e.advice
}

func (e *InterruptedError) Unwrap() error { return e.error }

// Signalled is the cause with which a signal cancels the context of the verbs.
type Signalled struct{ syscall.Signal }

func (s Signalled) Error() string { return s.String() }

// Interrupted returns the error of work whose context is ctx: err itself, unless the work ended because ctx is done.
func Interrupted(ctx context.Context, err error, advice string) error {
	if err == nil || !errors.Is(ctx.Err(), context.Canceled) || errors.As(err, new(*InterruptedError)) {
		return err
	}
	s := Signalled{Signal: syscall.SIGINT}
	errors.As(context.Cause(ctx), &s)
	return &InterruptedError{advice, s.Signal, err}
}
