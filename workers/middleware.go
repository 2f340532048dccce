package workers

import (
	"context"
	"errors"
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
