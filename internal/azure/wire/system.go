package wire

import "context"

type systemKey struct{}

// WithSystem marks the requests made with ctx as the system's own: Storage Analytics writing its logs and metrics.
// They need no credential and may write where callers may only read. The mark is a value in memory: no request that
// comes over a connection can carry it.
func WithSystem(ctx context.Context) context.Context {
	return context.WithValue(ctx, systemKey{}, true)
}

// System reports whether the request is the system's own.
func (r *Request) System() bool { return r.HTTP.Context().Value(systemKey{}) != nil }
