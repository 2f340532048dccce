package state

import (
	"context"
	"errors"
	"fmt"
)

// errUnreadable means that JetStream does not deliver a record which nobody has removed: it says "not found" also where
// reading its file failed.
var errUnreadable = fmt.Errorf("%w: a record cannot be read", ErrUnavailable)

// read waits for the current record of a candidate and brings the index up to date with it.
func (q *Queue) read(ctx context.Context, p pending, e entry) (stored, error) {
	current, err := p.stored(ctx)
	if (errors.Is(err, errNoRecord) || err == nil && current.seq < e.seq) && q.store.replicated {
		current, err = q.readLeader(ctx, e) // the replica that answered may lag behind
	}
	switch {
	case errors.Is(err, errNoRecord) && q.knows(e.slot) && !q.purged(ctx, e.seq):
		return stored{}, errUnreadable
	case errors.Is(err, errNoRecord):
		q.mu.Lock()
		q.index.forget(e.slot, e.seq)
		q.mu.Unlock()
		return stored{}, ErrMessageNotFound
	case errors.Is(err, errNoStream) && q.streamless.Load() && !q.store.queueGone(ctx, q):
		return stored{}, ErrMessageNotFound
	case errors.Is(err, errNoStream):
		return stored{}, q.vanished(ctx)
	case err != nil:
		return stored{}, err
	}
	q.apply(e.slot, current.seq, &current.record)
	if current.kind != recordMessage || current.seq < q.clearedBefore() {
		return stored{}, ErrMessageNotFound
	}
	return current, nil
}

func (q *Queue) clearedBefore() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.cleared
}

// readLeader reads a slot's current record from the stream's leader: not one older than e's, nor none instead. While
// leaders change, one may answer that is behind, having been deposed; it is asked again then.
func (q *Queue) readLeader(ctx context.Context, e entry) (stored, error) {
	for attempt := 1; ; attempt++ {
		current, err := q.store.client.leaderRecord(ctx, q.stream, q.subject(e.slot))
		if err == nil && current.seq >= e.seq || e.seq == 0 || !q.store.replicated || err != nil && !errors.Is(err, errNoRecord) {
			return current, err
		}
		if err != nil && (!q.knows(e.slot) || q.purged(ctx, e.seq)) {
			return stored{}, errNoRecord
		}
		if attempt == staleRounds {
			return stored{}, errUndecided
		}
		q.store.pause(ctx)
	}
}

// knows reports whether the index has a message in a slot.
func (q *Queue) knows(s slot) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.index.get(s) != nil
}

// purged reports whether the stream begins after a record: then the record is gone, whoever says so.
func (q *Queue) purged(ctx context.Context, seq uint64) bool {
	stream, err := q.store.js.Stream(ctx, q.stream)
	return err == nil && stream.CachedInfo().State.FirstSeq > seq
}
