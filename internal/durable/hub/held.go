package hub

import (
	"context"

	"github.com/lazuli-storage/lazuli/internal/durable/inflight"
	"github.com/lazuli-storage/lazuli/internal/durable/lease"
)

// giveBack makes messages visible to others.
func (b *Backend) giveBack(list []*inflight.Received) {
	ctx, cancel := context.WithTimeout(context.Background(), lease.ReleaseTimeout)
	defer cancel()
	for _, r := range list {
		if ctx.Err() != nil || r.Hide(ctx, 0, false) != nil {
			r.Release()
		}
	}
}
