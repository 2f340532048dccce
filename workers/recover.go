package workers

import (
	"context"
	"log/slog"
	"runtime/debug"
)

// Recover recovers from a panic in a goroutine that a handler started, which would otherwise end the process, and logs
// it with its stack to the default logger. It must be the first deferred call of the goroutine. With NewLogHandler the
// record has the invocation's ID.
func Recover(ctx context.Context) {
	if v := recover(); v != nil {
		logPanic(ctx, v, debug.Stack())
	}
}

// RecoverTo is Recover for a goroutine whose failure is to be the handler's error: it also sets *err to a *PanicError,
// unless *err is set.
//
//	group.Go(func() (err error) {
//		defer workers.RecoverTo(ctx, &err)
//		return ship(part)
//	})
func RecoverTo(ctx context.Context, err *error) {
	if v := recover(); v != nil {
		stack := debug.Stack()
		logPanic(ctx, v, stack)
		if *err == nil {
			*err = &PanicError{Value: v, Stack: stack}
		}
	}
}

func logPanic(ctx context.Context, v any, stack []byte) {
	slog.ErrorContext(ctx, "a goroutine of the handler panicked", "panic", v, "stack", string(stack))
}
