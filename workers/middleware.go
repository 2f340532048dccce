package workers

import (
	"context"
	"errors"
)

// Handler is what middleware wraps: one invocation. Its error is the invocation's.
type Handler func(ctx context.Context, mc *MiddlewareContext) error

// Middleware adds behaviour around every invocation of an app. Wrap is called once per function at start; the handler that
// it returns may act before and after next, give it another context, turn its error into another, or not call it.
type Middleware interface {
	Wrap(next Handler) Handler
}

// MiddlewareFunc makes a Middleware of a function.
type MiddlewareFunc func(next Handler) Handler

// Wrap implements Middleware.
func (f MiddlewareFunc) Wrap(next Handler) Handler { return f(next) }

// Use adds middleware. The first one added is the outermost. It must be called before Start; nil is ignored. An [Extension] also registers
// its functions.
func (a *App) Use(m Middleware) {
	if m == nil {
		return
	}
	a.middleware = append(a.middleware, m)
	if x, ok := m.(Extension); ok {
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
