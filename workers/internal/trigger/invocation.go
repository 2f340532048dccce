package trigger

import (
	"context"
	"time"
)

// Invocation is one call of a handler.
type Invocation struct {
	ID        string
	MessageID string // empty without a message
	// retryCount is 0 for the first attempt; maxRetryCount is that of the last one.
	RetryCount, MaxRetryCount int32
	Metadata                  map[string]string // see InvocationContext.TriggerMetadata
	TraceParent               string            // of the message
	began                     time.Time         // of the handler; guarded by the mutex of the function's stats
}

type currentKey struct{}

// WithInvocation returns a context whose requests name the invocation.
func WithInvocation(ctx context.Context, i *Invocation) context.Context {
	return context.WithValue(ctx, currentKey{}, i)
}

// InvocationOf returns the invocation of a context, or nil.
func InvocationOf(ctx context.Context) *Invocation {
	i, _ := ctx.Value(currentKey{}).(*Invocation)
	return i
}
