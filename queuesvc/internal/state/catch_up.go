package state

import (
	"context"
	"fmt"
	"time"
)

// catchUpWait is how long catchUp waits for records that the stream's leader has. After kickAfter it suspects the consumer.
const (
	catchUpWait = 8 * time.Second
	kickAfter   = 500 * time.Millisecond
)

// catchUp returns once the index has every record that was in the stream at the time of the call, as the stream's leader says. Without that, "no
// message" and a count could be answers about the past: the consumer that feeds the index may be on a replica that lags, or on a server that was
// lost a moment ago. If only this process writes to the stream, there is nothing to wait for.
//
// Errors: [ErrUnavailable], [ErrQueueNotFound].
func (q *Queue) catchUp(ctx context.Context) error {
	if !q.store.shared || q.streamless.Load() {
		return nil
	}
	stream, err := q.store.lookupStream(ctx, q.stream)
	if err != nil {
		return q.streamError(ctx, err)
	}
	state := stream.CachedInfo().State
	if state.Msgs == 0 {
		return nil
	}
	suspect, limit := time.NewTimer(kickAfter), time.NewTimer(catchUpWait)
	defer suspect.Stop()
	defer limit.Stop()
	for {
		q.mu.Lock()
		reached, err := q.followed >= state.LastSeq, q.loadErr
		next, f := q.followedNext(), q.follower
		q.mu.Unlock()
		if reached || err != nil {
			return err
		}
		select {
		case <-next:
		case <-suspect.C:
			if f != nil {
				f.suspect()
			}
		case <-limit.C:
			return fmt.Errorf("%w: records up to %d have not been received", ErrUnavailable, state.LastSeq)
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ErrUnavailable, context.Cause(ctx))
		}
	}
}

// followedNext returns a channel that is closed when another record has been followed. The caller must hold the lock.
func (q *Queue) followedNext() <-chan struct{} {
	if q.onFollowed == nil {
		q.onFollowed = make(chan struct{})
	}
	return q.onFollowed
}

// noteFollowed records that all records up to one have been followed. The caller must hold the lock.
func (q *Queue) noteFollowed(seq uint64) {
	q.followed = max(q.followed, seq)
	if q.onFollowed != nil {
		close(q.onFollowed)
		q.onFollowed = nil
	}
}
