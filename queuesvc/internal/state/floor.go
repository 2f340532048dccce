package state

import (
	"context"
	"fmt"
)

// Each queue has a floor, a sequence of its stream: records before it are void. It is raised when messages are cleared, and before the stream's
// old end is cut off. It is stored in the catalog, durable before a caller gets the result, and known before the first answer, since the catalog
// is read before any queue. So the records that JetStream finds in its files after a crash do not matter: a removed block may reappear, and a
// purge may have removed some blocks and not others.

// raiseFloor makes a floor durable, unless it is already as high. From then on the records before it are void.
func (q *Queue) raiseFloor(ctx context.Context, floor uint64) error {
	if q.store.nats.InMemory() {
		q.takeFloor(floor)
		return nil
	}
	current := true
	err := q.store.edit(ctx, q.Account, q.Name, func(e *catalogEntry) *catalogEntry {
		if current = streamName(q.Account, q.Name, e.Incarnation) == q.stream; current {
			e.Floor = max(e.Floor, floor)
		}
		return e
	})
	if err == nil && !current {
		err = ErrQueueNotFound
	}
	if err == nil {
		q.takeFloor(floor)
	}
	return err
}

// takeFloor applies a floor that is durable.
func (q *Queue) takeFloor(floor uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if floor > q.floor {
		q.floor = floor
		q.index.void(floor)
	}
}

// isVoid reports whether a record is before the floor.
func (q *Queue) isVoid(seq uint64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return seq < q.floor
}

// prepareFloor makes sure, once, that the stream's next record is above the floor. That is the case unless files of the stream were lost; then
// the used sequences are skipped.
func (q *Queue) prepareFloor(ctx context.Context) error {
	if q.prepared.Load() {
		return nil
	}
	q.mu.Lock()
	floor := q.floor
	q.mu.Unlock()
	if floor > 0 && !q.streamless.Load() {
		stream, err := q.store.lookupStream(ctx, q.stream)
		if err != nil {
			return q.streamError(ctx, err)
		}
		if last := stream.CachedInfo().State.LastSeq; last+1 < floor {
			q.logger().Error("the queue's stream ends before records that are known to have been there", "last", last, "floor", floor)
			if err := q.store.purge(ctx, q.stream, floor); err != nil {
				return fmt.Errorf("%w: %w", ErrUnavailable, err)
			}
		}
	}
	q.prepared.Store(true)
	return nil
}
