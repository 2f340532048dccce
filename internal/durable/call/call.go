// Package call says in a context which step of a workflow a handler is called for: the engine knows it, and the runtime
// of handlers, which links no engine, writes it into the log.
package call

import "context"

// Call is one call of an activity.
type Call struct {
	// Instance is the workflow's instance, Task the number of the activity in it.
	Instance string
	Task     int32
	// Attempt counts how often the work item was received, from 1. An attempt by a retry policy is a task of its own.
	Attempt int64
}

type key struct{}

// With returns a context for a call.
func With(ctx context.Context, c Call) context.Context { return context.WithValue(ctx, key{}, c) }

// Of returns the call that a context is for. It is false outside of activities.
func Of(ctx context.Context) (Call, bool) {
	c, ok := ctx.Value(key{}).(Call)
	return c, ok
}
