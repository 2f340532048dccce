package wire

import "context"

type systemKey struct{}

// WithSystem marks requests with ctx as requests of the server itself: Storage Analytics writes its logs and metrics.
// They need no credential and may write where callers may only read. The mark is a value in memory: a request that
// arrives over a connection cannot have it.
func WithSystem(ctx context.Context) context.Context {
	return context.WithValue(ctx, systemKey{}, true)
}

// IsSystem reports whether ctx has the mark of [WithSystem].
func IsSystem(ctx context.Context) bool { return ctx.Value(systemKey{}) != nil }

// System reports whether the server itself sends the request.
func (r *Request) System() bool { return IsSystem(r.HTTP.Context()) }

type hereKey struct{}

// WithHere marks requests with ctx as requests that this process serves itself, although another node of a cluster may
// be the one for them: another node has passed them on, or they are parts of a request that is served here. The mark is
// a value in memory: a request that arrives over a connection cannot have it.
func WithHere(ctx context.Context) context.Context {
	return context.WithValue(ctx, hereKey{}, true)
}

// Here reports whether the request has the mark of [WithHere].
func (r *Request) Here() bool { return r.HTTP.Context().Value(hereKey{}) != nil }
