package state

import (
	"context"
	"time"
)

// Free slots keep their last record, a tombstone, until a new message takes the slot. That is not only thrift. JetStream
// writes down that a record was replaced only by the replacing record: were the replacing one removed, then after a
// crash, when JetStream reads its files again, the replaced one would be back, and a message that was deleted with it.
// So no record of a queue is ever removed singly; JetStream's own expiry is not used either. What can be done is to
// cut off the stream's old end, with all that lies in it: everything older than the oldest message that exists.
//
// A queue has as many free slots as it once had messages more than now. When they are many, the old end is cut off.
const (
	// trimLeast is the number of free slots below which no trim is tried.
	trimLeast = 4096
	// trimTimeout bounds one trim.
	trimTimeout = time.Minute
	// trimQuiet is longer than any front-end tries to make a change. Where others write, a tombstone stays for at least
	// that long: a Put whose answer was lost is sent again, and must not find its slot empty because its message was
	// got, deleted and trimmed away meanwhile.
	trimQuiet = time.Minute
)

// mark is how far a stream had been followed at a time.
type mark struct {
	at  time.Time
	seq uint64
}

// settled is up to where the stream had been followed trimQuiet ago or earlier. The lock is held.
func (q *Queue) settled() uint64 {
	for _, m := range []mark{q.marks[1], q.marks[0]} {
		if time.Since(m.at) >= q.store.quiet {
			return m.seq
		}
	}
	return 0
}

// maybeTrim starts a trim if there are many free slots, and more than messages.
func (q *Queue) maybeTrim() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.trimming || q.gone || q.loading != loaded || q.index.free < q.trimAt || q.index.free < q.index.live {
		return
	}
	q.trimming = true
	go func() {
		removed := q.trim()
		q.mu.Lock()
		defer q.mu.Unlock()
		q.trimming = false
		// Where an old message keeps the old end, try again only when it pays more.
		q.trimAt = max(trimLeast, 2*q.index.free)
		if removed {
			q.trimAt = max(trimLeast, q.index.free+trimLeast)
		}
	}()
}

// trim cuts off the stream before its oldest message and reports whether that removed anything. No change is on its way
// meanwhile, so that the index knows all messages but those that others have put; and these are newer than all that has
// been followed. Nothing is removed that was not followed trimQuiet ago.
func (q *Queue) trim() bool {
	q.changing.Lock()
	defer q.changing.Unlock()
	q.mu.Lock()
	oldest, newest := q.index.lowest()
	before := oldest
	if oldest == 0 {
		before = newest + 1
	}
	if q.store.shared {
		before = min(before, q.settled()+1)
	}
	known := q.index.free
	q.mu.Unlock()
	if before <= 1 {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), trimTimeout)
	defer cancel()
	if err := q.store.purge(ctx, q.stream, before); err != nil {
		q.logger().Warn("the old end of a queue's stream could not be cut off", "err", err)
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.index.clear(before)
	return q.index.free < known
}
