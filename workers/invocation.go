package workers

import (
	"context"
	"log/slog"
)

// InvocationContext describes one call of a handler. Its fields are those of the Azure Functions worker for Go.
type InvocationContext struct {
	// InvocationID is unique to the call. All log records of the runtime about the call have it.
	InvocationID string
	// FunctionID is the app's HostID, a slash, and the function's name.
	FunctionID string
	// FunctionName is the name under which the handler is registered.
	FunctionName string
	// TriggerType is "QueueTrigger", "TimerTrigger", "BlobTrigger" or "TableTrigger".
	TriggerType string
	// TraceContext is the trace that the message names, if it names one.
	TraceContext TraceContext
	RetryContext RetryContext
	// TriggerMetadata holds what Azure Functions calls binding data, such as "DequeueCount", by name. "ReceivedOrder"
	// numbers the messages that a function of this process received, from 1.
	TriggerMetadata map[string]string
	// OutboundTraceAttributes are attributes that the handler adds to the call's span, for compatibility with Azure
	// Functions.
	OutboundTraceAttributes map[string]string

	messageID string
	// call calls the function's handler with the trigger's value. It is the innermost handler of the middleware chain.
	call func(ctx context.Context) error
}

// TraceContext is a trace in the notation of W3C Trace Context.
type TraceContext struct {
	// TraceParent and TraceState are the headers of these names; empty without a trace.
	TraceParent, TraceState string
	// Attributes and Baggage exist for compatibility with Azure Functions; they are empty.
	Attributes, Baggage map[string]string
}

// RetryContext counts attempts.
type RetryContext struct {
	// RetryCount is 0 for the first attempt.
	RetryCount int32
	// MaxRetryCount is the last attempt's RetryCount.
	MaxRetryCount int32
}

// MiddlewareContext is the argument of middleware.
type MiddlewareContext struct {
	*InvocationContext
}

type invocationKey struct{}

// NewContext returns a context that carries an invocation. The runtime calls it for every invocation; tests of handlers
// can.
func NewContext(parent context.Context, ic *InvocationContext) context.Context {
	return context.WithValue(parent, invocationKey{}, ic)
}

// FromContext returns the invocation that ctx belongs to. The boolean is false outside of a handler's context.
func FromContext(ctx context.Context) (*InvocationContext, bool) {
	ic, ok := ctx.Value(invocationKey{}).(*InvocationContext)
	return ic, ok
}

// NewLogHandler returns a slog.Handler that adds invocation_id, function_name and trigger_type to records that are
// logged with a handler's context, and passes all records to next.
func NewLogHandler(next slog.Handler) slog.Handler { return logHandler{next} }

type logHandler struct{ slog.Handler }

func (h logHandler) Handle(ctx context.Context, r slog.Record) error {
	if ic, ok := FromContext(ctx); ok {
		r = r.Clone()
		r.AddAttrs(slog.String("invocation_id", ic.InvocationID), slog.String("function_name", ic.FunctionName),
			slog.String("trigger_type", ic.TriggerType))
	}
	return h.Handler.Handle(ctx, r)
}

func (h logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return logHandler{h.Handler.WithAttrs(attrs)}
}

func (h logHandler) WithGroup(name string) slog.Handler { return logHandler{h.Handler.WithGroup(name)} }
