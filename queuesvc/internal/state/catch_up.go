package state

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lazuli-storage/lazuli/internal/storage/natsserver"
)

// catchUpWait is how long catchUp waits for records that the stream's leader has. After kickAfter it suspects the consumer.
const (
	catchUpWait = 8 * time.Second
	kickAfter   = 500 * time.Millisecond
)

// catchUp returns once the index has every record that was in the stream at the time of the call. Without that, "no message" and a count could be
// answers about the past: the consumer that feeds the index may be on a replica that lags, or on a server that was lost a moment ago. If only
// this process writes to the stream, there is nothing to wait for.
//
// Errors: [ErrUnavailable], [ErrQueueNotFound].
func (q *Queue) catchUp(ctx context.Context) error {
	if !q.store.shared || q.streamless.Load() {
		return nil
	}
	end, err := q.end(ctx)
	if err != nil || end.Messages == 0 {
		return err
	}
	suspect, limit := time.NewTimer(kickAfter), time.NewTimer(catchUpWait)
	defer suspect.Stop()
	defer limit.Stop()
	for {
		q.mu.Lock()
		reached, err := q.followed >= end.Seq, q.loadErr
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
			return fmt.Errorf("%w: records up to %d have not been received", ErrUnavailable, end.Seq)
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ErrUnavailable, context.Cause(ctx))
		}
	}
}

// endTimeout is the time limit of one attempt to confirm the end of a stream, and endPause the pause before the next one.
const (
	endTimeout = time.Second
	endPause   = 50 * time.Millisecond
)

// end returns the end of the stream. On a node of a cluster a majority of the stream's servers has confirmed it, unless other nodes run a release that
// does not answer. An external NATS offers no such confirmation.
func (q *Queue) end(ctx context.Context) (end natsserver.StreamEnd, err error) {
	if q.store.end == nil {
		return q.unconfirmedEnd(ctx)
	}
	limited, cancel := context.WithTimeout(ctx, catchUpWait)
	defer cancel()
	for {
		attempt, cancel := context.WithTimeout(limited, endTimeout)
		end, err = q.store.end(attempt, q.stream)
		cancel()
		if err == nil {
			return end, nil
		}
		if errors.Is(err, natsserver.ErrFormerRelease) {
			return q.unconfirmedEnd(ctx)
		}
		if q.store.queueGone(ctx, q) {
			return end, ErrQueueNotFound
		}
		select {
		case <-limited.Done():
			return end, fmt.Errorf("%w: %w", ErrUnavailable, err)
		case <-time.After(endPause):
		}
	}
}

// unconfirmedEnd is what a server says that leads the stream, or that was cut off some seconds ago and believes that it does.
func (q *Queue) unconfirmedEnd(ctx context.Context) (end natsserver.StreamEnd, err error) {
	stream, err := q.store.lookupStream(ctx, q.stream)
	if err != nil {
		return end, q.streamError(ctx, err)
	}
	state := stream.CachedInfo().State
	return natsserver.StreamEnd{Seq: state.LastSeq, Messages: state.Msgs}, nil
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
