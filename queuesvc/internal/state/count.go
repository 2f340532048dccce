package state

import (
	"context"
	"time"
)

// ApproximateCount is how many messages the queue has, visible or not.
func (q *Queue) ApproximateCount(ctx context.Context, now time.Time) (int, error) {
	if q.lost != nil {
		return 0, q.lost
	}
	if err := q.load(); err != nil {
		return 0, err
	}
	q.mu.Lock()
	if q.loading != loading {
		defer q.mu.Unlock()
		q.index.sweep(now.UnixNano(), int64(sweepPause))
		q.compactIfDue()
		return q.index.live + q.index.aside, q.loadErr
	}
	q.mu.Unlock()
	stream, err := q.store.js.Stream(ctx, q.stream) // includes free slots: an approximation, as the name says
	if err != nil {
		return 0, q.streamError(ctx, err)
	}
	return int(stream.CachedInfo().State.NumSubjects), nil
}

// SetAside is how many messages are known that cannot be read.
func (q *Queue) SetAside() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.index.aside
}

// NextVisible returns how long after now the next of the queue's hidden messages becomes visible, as far as this process knows: 0 if
// one is visible, and an hour, or more, if there is none. It is a hint of when to look again.
func (q *Queue) NextVisible(now time.Time) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.index.heap) == 0 {
		return time.Hour
	}
	first := *q.index.entries.at(q.index.heap[0])
	return max(0, time.Duration(first.visible-now.UnixNano()))
}
