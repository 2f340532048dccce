package workers

import (
	"context"
	"errors"

	"github.com/lazuli-storage/lazuli/workers/internal/locks"
	"github.com/lazuli-storage/lazuli/workers/internal/queues"
	"github.com/lazuli-storage/lazuli/workers/internal/trigger"
)

// Handler is the function that middleware wraps. It runs one invocation and returns its error.
type Handler func(ctx context.Context, mc *MiddlewareContext) error

// Middleware adds behaviour around every invocation of an app. Wrap is called once per function when the app starts.
// The handler that it returns can act before and after next, call it with a derived context, replace its error, or not
// call it.
type Middleware interface {
	Wrap(next Handler) Handler
}

// MiddlewareFunc is a function that implements Middleware.
type MiddlewareFunc func(next Handler) Handler

// Wrap implements Middleware.
func (f MiddlewareFunc) Wrap(next Handler) Handler { return f(next) }

// Use adds middleware. The first one added is the outermost. Use must be called before Start; nil is ignored. If m
// has a method Register(*App), Use calls it: so middleware can have functions of its own.
func (a *App) Use(m Middleware) {
	if m == nil {
		return
	}
	a.middleware = append(a.middleware, m)
	if x, ok := m.(interface{ Register(a *App) }); ok {
		x.Register(a)
	}
}

// compose returns the middleware around the call of an invocation.
func (a *App) compose() Handler {
	h := Handler(callHandler)
	for i := len(a.middleware) - 1; i >= 0; i-- {
		h = a.middleware[i].Wrap(h)
	}
	return h
}

var errNoInvocation = errors.New("workers: middleware passed on another invocation than the one it was given")

func callHandler(ctx context.Context, mc *MiddlewareContext) error {
	if mc == nil || mc.InvocationContext == nil || mc.call == nil {
		return errNoInvocation
	}
	return mc.call(ctx)
}

// environment returns what the listener of a function has of the app and of its account.
func (a *App) environment(f *Function, s *Storage) *trigger.Environment {
	c := &a.config
	return &trigger.Environment{HostID: c.HostID, Log: c.Logger.With("function", f.core.Name), Clock: c.Clock,
		Stuck: c.StuckTimeout, LockPeriod: c.LockPeriod, Local: s.Local, Queues: s.Queues, Blobs: s.Blobs, Tables: s.Tables,
		OpenQueue: func(name string) (queues.Client, error) { return a.openQueue(s, name) },
		OpenHost:  func() (locks.Store, error) { return a.openHost(s) },
		Wake:      a.Wake, Invoke: a.invoker(f, s)}
}

// invoker returns what calls the middleware around the calls of a function's handler.
func (a *App) invoker(f *Function, s *Storage) trigger.Invoke {
	wrapped := a.compose()
	return func(ctx context.Context, i *trigger.Invocation, call func(ctx context.Context) error) error {
		// Made for each call: middleware may keep it and change it, and the runtime reads none of it again.
		ic := &InvocationContext{InvocationID: i.ID, FunctionID: a.config.HostID + "/" + f.core.Name,
			FunctionName: f.core.Name, TriggerType: f.core.Trigger, TraceContext: TraceContext{TraceParent: i.TraceParent},
			RetryContext:    RetryContext{RetryCount: i.RetryCount, MaxRetryCount: i.MaxRetryCount},
			TriggerMetadata: i.Metadata, messageID: i.MessageID, call: call}
		// Without tracing middleware, messages that the handler sends belong to the trace of this message.
		ctx = WithTraceParent(bind(NewContext(ctx, ic), a, s), i.TraceParent)
		return wrapped(ctx, &MiddlewareContext{ic})
	}
}
