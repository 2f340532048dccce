package state

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/lazuli-storage/lazuli/internal/storage/natsserver"
)

// countWait is how long ApproximateCount waits for the index to be loaded, and to catch up with what other processes have written.
const countWait = time.Second

// ApproximateCount returns the number of messages in the queue, visible or not. It may be higher if the index lags or is being loaded, and is not
// lower: a caller may take 0 for the end of the work.
//
// https://learn.microsoft.com/rest/api/storageservices/get-queue-metadata#response-headers
func (q *Queue) ApproximateCount(ctx context.Context, now time.Time) (int, error) {
	if err := q.loss(); err != nil {
		return 0, err
	}
	if err := q.load(); err != nil {
		return 0, err
	}
	waiting, cancel := context.WithTimeout(ctx, countWait)
	defer cancel()
	if q.loadedWithin(waiting) && q.catchUp(waiting) == nil {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.index.sweep(now.UnixNano(), int64(sweepPause))
		q.compactIfDue()
		return q.index.live + q.index.aside, q.loadErr
	}
	var confirmed natsserver.StreamEnd
	if q.store.end != nil {
		var err error
		if confirmed, err = q.end(ctx); err != nil {
			return 0, err
		}
	}
	stream, err := q.store.lookupStream(ctx, q.stream) // includes free slots
	if err == nil && stream.CachedInfo().State.LastSeq < confirmed.Seq {
		err = errors.New("the stream's former leader has answered")
	}
	if err != nil {
		return 0, q.streamError(ctx, err)
	}
	return int(stream.CachedInfo().State.NumSubjects), nil
}

// loadedWithin waits until the index is loaded. It returns false if ctx ends before that.
func (q *Queue) loadedWithin(ctx context.Context) bool {
	for {
		q.mu.Lock()
		done, progress := q.loading != loading, q.progress
		q.mu.Unlock()
		if done {
			return true
		}
		select {
		case <-progress:
		case <-ctx.Done():
			return false
		}
	}
}

// MaxVisible is the highest result of [Queue.Visible].
const MaxVisible = 10_000

// Visible returns the number of known messages that are visible, up to MaxVisible.
func (q *Queue) Visible(now time.Time) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.index.visible(now.UnixNano(), MaxVisible)
}

// SetAside returns the number of known messages that cannot be read.
func (q *Queue) SetAside() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.index.aside
}

// Damage returns the number of messages that were set aside, in the queues that have been used since the start, and of queues that are not used
// because records of them, or of the catalog about them, were lost.
func (s *Store) Damage() (messages, queues int) {
	s.mu.Lock()
	open := slices.Collect(maps.Values(s.queues))
	s.mu.Unlock()
	for _, q := range open {
		messages += q.SetAside()
	}
	for _, stream := range s.nats.LostStreams() {
		if stream != catalogStream {
			queues++
		}
	}
	return messages, queues + s.catalog.damagedQueues()
}

// NextVisible returns the time after now at which the queue's next hidden message becomes visible, as far as this process knows: 0 if a message
// is visible, and an hour or more if the queue has no messages. It is a hint when to poll again.
func (q *Queue) NextVisible(now time.Time) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.index.heap) == 0 {
		return time.Hour
	}
	first := *q.index.entries.at(q.index.heap[0])
	return max(0, time.Duration(first.visible-now.UnixNano()))
}
