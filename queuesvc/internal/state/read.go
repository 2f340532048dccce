package state

import (
	"context"
	"errors"
)

// errSetAside: the message's record exists and cannot be read; it was set aside.
var errSetAside = errors.New("message cannot be read")

// read waits for the current record of a candidate and updates the index with it.
func (q *Queue) read(ctx context.Context, p pending, e entry) (stored, error) {
	current, err := p.stored(ctx, e.slot)
	if (errors.Is(err, errNoRecord) || err == nil && current.seq < e.seq) && q.store.replicated {
		current, err = q.readLeader(ctx, e) // the replica that answered may lag behind
	}
	var damaged unreadable
	switch {
	case errors.As(err, &damaged):
		q.setAside(e.slot, damaged.seq, err)
		return stored{}, errSetAside
	case errors.Is(err, errNoRecord) && q.knows(e.slot) && !q.purged(ctx, e.seq):
		// JetStream also returns this error if it cannot read the record's file.
		q.setAside(e.slot, e.seq, errDamaged)
		return stored{}, errSetAside
	case errors.Is(err, errNoRecord):
		q.mu.Lock()
		q.index.forget(e.slot, e.seq)
		q.mu.Unlock()
		return stored{}, ErrMessageNotFound
	case errors.Is(err, errNoStream) && q.streamless.Load() && !q.store.queueGone(ctx, q):
		return stored{}, ErrMessageNotFound
	case errors.Is(err, errNoStream):
		return stored{}, q.streamMissing(ctx)
	case err != nil:
		return stored{}, err
	}
	q.mu.Lock()
	q.applyLocked(e.slot, current.seq, q.recordSize(len(current.body)), &current.record)
	void := current.seq < q.floor
	q.mu.Unlock()
	if current.kind != recordMessage || void {
		return stored{}, ErrMessageNotFound
	}
	return current, nil
}

// readLeader reads a slot's current record from the stream's leader: it is not older than e's record. While leaders change, a deposed leader may
// answer with an older state; then it is asked again.
func (q *Queue) readLeader(ctx context.Context, e entry) (stored, error) {
	for attempt := 1; ; attempt++ {
		current, err := q.store.client.leaderRecord(ctx, q.stream, q.subject(e.slot), e.slot)
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

// knows reports whether the index has a message in a slot, readable or not.
func (q *Queue) knows(s slot) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.index.occupied(s)
}

// purged reports whether the stream begins after a record: then the record no longer exists.
func (q *Queue) purged(ctx context.Context, seq uint64) bool {
	stream, err := q.store.lookupStream(ctx, q.stream)
	return err == nil && stream.CachedInfo().State.FirstSeq > seq
}
