package functions

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/lazuli-storage/lazuli/functions/internal/expression"
	"github.com/lazuli-storage/lazuli/internal/durable/call"
	"github.com/lazuli-storage/lazuli/workers"
)

// newInvocation makes an invocation that has not begun. The trigger of package workers that calls the function, if one
// does, has put its ID and its trace into the context.
func (h *Host) newInvocation(ctx context.Context, f *function, reason string) *invocation {
	inv := &invocation{id: uuid.NewString(), function: f, reason: reason, began: time.Now(),
		bytes: h.project.worker != nil, kept: &invocationPast{}}
	inv.data = expression.Data{Began: inv.began, Function: f.name}
	if ic, ok := workers.FromContext(ctx); ok {
		inv.id, inv.trace = ic.InvocationID, ic.TraceContext
		if ic.TriggerType == "queueTrigger" {
			inv.about = ic.TriggerMetadata["Id"]
		} else if c, ok := call.Of(ctx); ok {
			inv.about = c.Instance
		}
		// A span that middleware has begun is the parent of what the function does, and not the span of the message.
		if parent := workers.TraceParent(ctx); parent != "" {
			inv.trace.TraceParent = parent
		}
	}
	inv.log = slog.New(keeper{h.config.Logger.Handler().WithAttrs([]slog.Attr{slog.String("function", f.name),
		slog.String("invocation_id", inv.id)}), inv.kept})
	return inv
}

// wrap does what package workers does for its own triggers: it puts the middleware around an invocation.
func (h *Host) wrap(ctx context.Context, inv *invocation, do func(context.Context) error) error {
	handler := workers.Handler(func(ctx context.Context, _ *workers.MiddlewareContext) error {
		if parent := workers.TraceParent(ctx); parent != "" {
			inv.trace.TraceParent = parent
		}
		inv.beginTrace()
		return do(ctx)
	})
	// Backward, so that the first in the list is the outermost, as for the triggers of package workers.
	for _, m := range slices.Backward(h.config.Middleware) {
		handler = m.Wrap(handler)
	}
	ic := &workers.InvocationContext{
		InvocationID: inv.id, FunctionID: h.project.hostID() + "/" + inv.function.name, FunctionName: inv.function.name,
		TriggerType: inv.function.trigger.kind, TraceContext: inv.trace, TriggerMetadata: map[string]string{},
	}
	return handler(workers.NewContext(ctx, ic), &workers.MiddlewareContext{InvocationContext: ic})
}

// logExecuting and logExecuted log the lines of the Functions host about an invocation, which tools look for.
func (h *Host) logExecuting(ctx context.Context, inv *invocation) {
	h.past.begin(inv.function.name, inv.kept, InvocationStatus{ID: inv.id, Reason: inv.reason, Began: inv.began})
	h.logAt(ctx, inv, slog.LevelInfo,
		fmt.Sprintf("Executing 'Functions.%s' (Reason='%s', Id=%s)", inv.function.name, inv.reason, inv.id))
}

func (h *Host) logExecuted(ctx context.Context, inv *invocation, err error, attrs ...any) {
	level, result := slog.LevelInfo, "Succeeded"
	if err != nil {
		level, result, attrs = slog.LevelError, "Failed", append(attrs, "err", err)
	}
	h.logAt(ctx, inv, level, fmt.Sprintf("Executed 'Functions.%s' (%s, Id=%s, Duration=%dms)", inv.function.name, result,
		inv.id, time.Since(inv.began).Milliseconds()), attrs...)
	h.past.end(inv.function.name, inv.kept, err)
}

// logAt logs of an invocation if host.json wants it.
func (h *Host) logAt(ctx context.Context, inv *invocation, level slog.Level, message string, attrs ...any) {
	if h.project.host.levels.enabled("Function."+inv.function.name, level) {
		inv.log.Log(ctx, level, message, attrs...)
	}
}

// limit gives a context the app's functionTimeout.
func (h *Host) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	if h.project.host.timeout == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, h.project.host.timeout, workers.ErrTimeout)
}
