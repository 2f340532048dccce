package workers

import (
	"context"
	"log/slog"
)

// InvocationContext tells a handler about the call it serves. Its fields are those of the Azure Functions worker for Go.
type InvocationContext struct {
	// InvocationID is unique to this call; it is in every log line of the call.
	InvocationID string
	// FunctionName is the name under which the handler is registered.
	FunctionName string
	// TriggerType is "queueTrigger", "timerTrigger" or "blobTrigger".
	TriggerType  string
	RetryContext RetryContext
	// TriggerMetadata holds what Azure Functions calls binding data, such as "DequeueCount", by name.
	TriggerMetadata map[string]string
}

// RetryContext says which attempt this is.
type RetryContext struct {
	// RetryCount is 0 at the first attempt.
	RetryCount int32
	// MaxRetryCount is the last attempt's RetryCount.
	MaxRetryCount int32
}

// MiddlewareContext is the invocation as middleware sees it.
type MiddlewareContext struct {
	*InvocationContext
}

type invocationKey struct{}

// NewContext returns a context that carries an invocation. The runtime does this for every call; tests of handlers may.
func NewContext(parent context.Context, ic *InvocationContext) context.Context {
	return context.WithValue(parent, invocationKey{}, ic)
}

// FromContext returns the invocation that ctx belongs to. The boolean is false outside of a handler's context.
func FromContext(ctx context.Context) (*InvocationContext, bool) {
	ic, ok := ctx.Value(invocationKey{}).(*InvocationContext)
	return ic, ok
}

// NewLogHandler returns a slog.Handler that adds invocation_id, function and trigger to every record that is logged with a
// handler's context, and passes all records on to next.
func NewLogHandler(next slog.Handler) slog.Handler { return logHandler{next} }

type logHandler struct{ slog.Handler }

func (h logHandler) Handle(ctx context.Context, r slog.Record) error {
	if ic, ok := FromContext(ctx); ok {
		r = r.Clone()
		r.AddAttrs(slog.String("invocation_id", ic.InvocationID), slog.String("function", ic.FunctionName), slog.String("trigger", ic.TriggerType))
	}
	return h.Handler.Handle(ctx, r)
}

func (h logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return logHandler{h.Handler.WithAttrs(attrs)}
}

func (h logHandler) WithGroup(name string) slog.Handler { return logHandler{h.Handler.WithGroup(name)} }
