package workers

import (
	"context"
	"log/slog"
	"runtime/debug"
)

// Recover is for goroutines that a handler starts, whose panics would otherwise end the process: deferred first, it logs a panic with its
// stack, and the goroutine ends. The default logger is used; give it a handler of NewLogHandler to have the invocation in the line.
func Recover(ctx context.Context) {
	if v := recover(); v != nil {
		logPanic(ctx, v, debug.Stack())
	}
}

// RecoverTo is Recover for a goroutine whose failure is the handler's: it also sets *err, to a *PanicError, unless there is an error already.
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
