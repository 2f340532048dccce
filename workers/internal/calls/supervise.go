package calls

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/lazuli-storage/lazuli/internal/sdk/sdkerr"
	"github.com/lazuli-storage/lazuli/workers/status"
)

// Supervision has the limits of a handler that has no message lease.
type Supervision struct {
	Clock   Clock
	Timeout time.Duration // 0: none
	Stuck   time.Duration
	Log     *slog.Logger
}

// Supervise calls a handler, converts a panic to an error, and cancels the handler's context when hard is done or after
// the timeout. It returns the handler's error, or ErrStuck if the handler does not return after the cancellation.
func Supervise(hard context.Context, s Supervision, call func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(hard))
	defer cancel(nil)
	returned := make(chan error, 1)
	go func() { returned <- WithCause(ctx, Contain(func() error { return call(ctx) })) }()

	limit, stuck := TimerOf(s.Clock, s.Timeout), Timer(Never{})
	defer func() { limit.Stop(); stuck.Stop() }()
	stopping := hard.Done()
	for {
		var cause error
		select {
		case err := <-returned:
			return err
		case <-stuck.C():
			DumpStuck(s.Log, context.Cause(ctx))
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
			stuck = TimerOf(s.Clock, s.Stuck)
		}
	}
}

// WithCause adds the cause of the cancellation (ErrTimeout, ErrLeaseLost or ErrStopping) to an error that is
// context.Canceled.
func WithCause(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	if !errors.Is(err, context.Canceled) || cause == nil || errors.Is(err, cause) {
		return err
	}
	return fmt.Errorf("%w: %w", cause, err)
}

// Contain converts a panic to a *PanicError.
func Contain(call func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &status.PanicError{Value: r, Stack: debug.Stack()}
		}
	}()
	return call()
}

// TimerOf returns a timer of the clock; for 0, a timer that never fires.
func TimerOf(c Clock, after time.Duration) Timer {
	if after <= 0 {
		return Never{}
	}
	return c.NewTimer(after)
}

// Never is a timer that never fires.
type Never struct{}

// C implements Timer.
func (Never) C() <-chan time.Time { return nil }

// Stop implements Timer.
func (Never) Stop() {}

// DumpStuck logs a handler that does not return, with all goroutines. Its goroutine keeps running, since Go cannot end
// it.
func DumpStuck(log *slog.Logger, cause error) {
	dump := make([]byte, 1<<20)
	dump = dump[:runtime.Stack(dump, true)]
	log.Error("the handler did not return after its context was cancelled; abandoning it", "cause", cause, "goroutines",
		string(dump))
}

// LogFailure logs a handler's error; for a panic, with its stack.
func LogFailure(log *slog.Logger, err error) {
	if errors.As(err, new(*loggedError)) {
		return
	}
	attrs := []any{"err", sdkerr.Short(err)}
	var panicked *status.PanicError
	if errors.As(err, &panicked) {
		attrs = append(attrs, "stack", string(panicked.Stack))
	}
	log.Warn("the handler failed", attrs...)
}
