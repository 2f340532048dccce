package hub

import (
	"context"
	"fmt"

	"github.com/lazuli-storage/lazuli/internal/durable/inflight"
	"github.com/lazuli-storage/lazuli/internal/durable/record"
)

// Idle reports whether this process has no work in progress and no queue of the hub has a visible message. It is for
// tests: if other processes use the hub, the result can be out of date.
func (b *Backend) Idle(ctx context.Context) (bool, error) {
	if !b.quiet() {
		return false, nil
	}
	defer b.polls.Exclude()() // A message that was just received is neither visible nor known here.
	queues := append([]inflight.Queue{b.workItems}, b.control...)
	if b.apps != nil && b.apps.isOneOf() {
		queues = append(queues, b.shared)
	}
	for i, q := range queues {
		got, err := q.Client.PeekMessage(ctx, nil)
		if err != nil && !record.IsNotFound(err) {
			return false, fmt.Errorf("durable: check for messages: %w", err)
		}
		if len(got.Messages) > 0 {
			if partition := i - 1; partition >= 0 && partition < len(b.control) && !b.leases.Owns(partition) {
				b.leases.BalanceEarly()
			}
			return false, nil
		}
	}
	return b.quiet(), nil
}

// quiet reports whether this process has no work in progress.
func (b *Backend) quiet() bool {
	b.activities.mu.Lock()
	running := len(b.activities.running)
	b.activities.mu.Unlock()
	return !b.late.Hurry() && b.sessions.Len() == 0 && running == 0 && b.deleting.Count.Load() == 0
}
