package workers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/lazuli-storage/lazuli/internal/sdk/sdkerr"
)

// supervision has the limits of a handler that has no message lease.
type supervision struct {
	clock   Clock
	timeout time.Duration // 0: none
	stuck   time.Duration
	log     *slog.Logger
}

// supervise calls a handler, converts a panic to an error, and cancels the handler's context when hard is done or after
// the timeout. It returns the handler's error, or ErrStuck if the handler does not return after the cancellation.
func supervise(hard context.Context, s supervision, call func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(hard))
	defer cancel(nil)
	returned := make(chan error, 1)
	go func() { returned <- withCause(ctx, contain(func() error { return call(ctx) })) }()

	limit, stuck := timerOf(s.clock, s.timeout), Timer(never{})
	defer func() { limit.Stop(); stuck.Stop() }()
	stopping := hard.Done()
	for {
		var cause error
		select {
		case err := <-returned:
			return err
		case <-stuck.C():
			dumpStuck(s.log, context.Cause(ctx))
			return ErrStuck
		case <-limit.C():
			cause = ErrTimeout
		case <-stopping:
			stopping = nil
			cause = ErrStopping
			if errors.Is(context.Cause(hard), ErrLeaseLost) {
				cause = ErrLeaseLost
			}
		}
		if ctx.Err() == nil {
			cancel(cause)
			stuck = timerOf(s.clock, s.stuck)
		}
	}
}

// withCause adds the cause of the cancellation (ErrTimeout, ErrLeaseLost or ErrStopping) to an error that is
// context.Canceled.
func withCause(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	if !errors.Is(err, context.Canceled) || cause == nil || errors.Is(err, cause) {
		return err
	}
	return fmt.Errorf("%w: %w", cause, err)
}

// contain converts a panic to a *PanicError.
func contain(call func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &PanicError{Value: r, Stack: debug.Stack()}
		}
	}()
	return call()
}

// timerOf returns a timer of the clock; for 0, a timer that never fires.
func timerOf(c Clock, after time.Duration) Timer {
	if after <= 0 {
		return never{}
	}
	return c.NewTimer(after)
}

type never struct{}

func (never) C() <-chan time.Time { return nil }
func (never) Stop()               {}

// dumpStuck logs a handler that does not return, with all goroutines. Its goroutine keeps running, since Go cannot end
// it.
func dumpStuck(log *slog.Logger, cause error) {
	dump := make([]byte, 1<<20)
	dump = dump[:runtime.Stack(dump, true)]
	log.Error("the handler did not return after its context was cancelled; abandoning it", "cause", cause, "goroutines",
		string(dump))
}

// logFailure logs a handler's error; for a panic, with its stack.
func logFailure(log *slog.Logger, err error) {
	if errors.As(err, new(*loggedError)) {
		return
	}
	attrs := []any{"err", sdkerr.Short(err)}
	var panicked *PanicError
	if errors.As(err, &panicked) {
		attrs = append(attrs, "stack", string(panicked.Stack))
	}
	log.Warn("the handler failed", attrs...)
}
