package durable

import (
	"context"

	"github.com/lazuli-storage/lazuli/internal/durable/hub"
)

// ActivityInfo says which activity a context belongs to.
type ActivityInfo struct {
	Instance, Execution, Name string
	Task                      int32
}

// Key is the same in every attempt of the activity, and different for every other: for effects that must not happen
// twice.
func (i ActivityInfo) Key() string { return hub.ActivityInfo(i).Key() }

// InfoFromContext returns the activity that runs with the context.
func InfoFromContext(ctx context.Context) (ActivityInfo, bool) {
	i, ok := hub.InfoFromContext(ctx)
	return ActivityInfo(i), ok
}
