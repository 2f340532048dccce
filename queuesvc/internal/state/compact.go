package state

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
)

// A queue's stream is append-only: each change appends a record, and the last record of a slot counts. JetStream does not store the removal of a
// record durably, so that a removed record may reappear after a crash. Therefore only the old end of a stream is ever removed, and only once
//
//   - the current record of each message is behind the cut,
//   - these records are on disk, and
//   - the catalog has the floor (floor.go): all records before it are void, whether they exist, do not exist, or reappear.
//
// On an embedded server with files the cut is made between two blocks, so that JetStream removes whole files and writes none.
//
// Messages that stay for long would keep the old end. When the stream is much larger than its messages, those in the oldest block are copied to
// the new end, with the number of their receipt. So a stream takes at most about twice the size of its messages, plus compactSlack, and each
// byte is written at most about three times. Copying runs in the background, for a limited share of the time.
//
// In memory JetStream keeps only a slot's last record, and nothing has to survive: there the old end is cut off when many slots are free.
const (
	// compactSlack is the number of bytes by which a stream may be larger than twice its messages.
	compactSlack = 16 << 20
	// freeLeast is the number of free slots from which a stream in memory is cut.
	freeLeast = 4096
	// copyBatch is the number of messages that are copied at once.
	copyBatch = 32
	// copyRest is the pause between two batches, as a multiple of the time that a batch took.
	copyRest = 4
	// compactTimeout is the time limit for one cut.
	compactTimeout = time.Minute
	// compactQuiet is longer than any front-end retries a change. If other processes write, a tombstone stays for at least that long: a Put
	// whose answer was lost is sent again, and must not find its slot empty because its message was received, deleted and cut off meanwhile.
	compactQuiet = time.Minute
)

// mark is a time, and the sequence up to which the stream had been followed then.
type mark struct {
	at  time.Time
	seq uint64
}

// followedBefore returns the sequence up to which the stream had been followed compactQuiet ago or earlier. The caller must hold the lock.
func (q *Queue) followedBefore() uint64 {
	for _, m := range []mark{q.marks[1], q.marks[0]} {
		if time.Since(m.at) >= q.store.quiet {
			return m.seq
		}
	}
	return 0
}

// oversized reports whether the stream is too large. The caller must hold the lock.
func (q *Queue) oversized() bool {
	if q.store.nats.InMemory() {
		return q.index.free >= freeLeast && q.index.free >= q.index.live
	}
	return q.logBytes > 2*q.index.bytes+q.store.slack
}

// compactIfDue starts a compaction if the stream is too large. The caller must hold the lock.
func (q *Queue) compactIfDue() {
	if !q.compacting && !q.gone && q.loading == loaded && q.logBytes >= q.compactAt && q.oversized() {
		q.startCompaction()
	}
}

// compactNow starts a compaction after many records became void at once.
func (q *Queue) compactNow() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.compacting && !q.gone && q.loading == loaded {
		q.startCompaction()
	}
}

func (q *Queue) startCompaction() {
	q.compacting = true
	q.store.background.Go(func() {
		err := q.compact(q.store.working)
		q.mu.Lock()
		defer q.mu.Unlock()
		q.compacting = false
		// Work that failed now is retried once the stream has grown.
		q.compactAt = q.logBytes + q.store.slack/4
		if err != nil && q.store.working.Err() == nil && !q.gone {
			q.logger().Warn("the old end of a queue's stream could not be cut off", "err", err)
		}
	})
}

// compact cuts the old end off and copies old messages to the new end until the stream is small enough.
func (q *Queue) compact(ctx context.Context) error {
	for {
		if err := q.cutOldEnd(ctx); err != nil {
			return err
		}
		q.mu.Lock()
		done := q.gone || !q.oversized() || q.store.nats.InMemory()
		q.mu.Unlock()
		if done {
			return nil
		}
		if copied, err := q.copyOldest(ctx); err != nil || copied == 0 {
			return err
		}
	}
}

// unneeded returns the sequence before which no record is needed. No change is in flight at that moment, so that the index has all messages
// except those of other front-ends; and these are newer than all records that were followed.
func (q *Queue) unneeded() uint64 {
	q.changing.Lock()
	defer q.changing.Unlock()
	q.mu.Lock()
	defer q.mu.Unlock()
	oldest, newest := q.index.lowest()
	before := oldest
	if oldest == 0 {
		before = max(newest+1, q.floor)
	}
	if q.store.shared {
		before = min(before, q.followedBefore()+1)
	}
	return before
}

// cutOldEnd removes the records from the stream that are not needed, as far as that does not write to a block that stays.
func (q *Queue) cutOldEnd(ctx context.Context) error {
	before := q.unneeded()
	point, err := q.store.nats.CutPoint(q.stream, before)
	if err != nil {
		return err
	}
	q.mu.Lock()
	known := q.cut
	q.mu.Unlock()
	if point <= 1 || point <= known {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, compactTimeout)
	defer cancel()
	// The records that replace the removed ones must be on disk before, and the floor as well.
	if err := q.sync(ctx, 0); err != nil {
		return err
	}
	if err := q.raiseFloor(ctx, point); err != nil {
		return err
	}
	if err := q.store.purge(ctx, q.stream, point); err != nil {
		return err
	}
	stream, err := q.store.lookupStream(ctx, q.stream)
	if err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.index.clear(point)
	q.cut = point
	q.logBytes = int64(stream.CachedInfo().State.Bytes)
	return nil
}

// copyOldest copies the messages in the stream's oldest block, or in its oldest part, to the new end. It returns their number.
func (q *Queue) copyOldest(ctx context.Context) (int, error) {
	q.mu.Lock()
	oldest, newest := q.index.lowest()
	q.mu.Unlock()
	if oldest == 0 {
		return 0, nil
	}
	until, err := q.store.nats.NextCut(q.stream, oldest, newest)
	if err != nil || until == 0 {
		return 0, err
	}
	total := 0
	for {
		q.mu.Lock()
		batch := q.index.older(until, copyBatch)
		hurry := q.logBytes > 4*q.index.bytes+4*q.store.slack
		q.mu.Unlock()
		began := time.Now()
		copied, err := q.copy(ctx, batch)
		total += copied
		if err != nil || copied == 0 {
			return total, err
		}
		if hurry {
			continue
		}
		select {
		case <-time.After(copyRest * time.Since(began)):
		case <-ctx.Done():
			return total, context.Cause(ctx)
		}
	}
}

// copy publishes messages again without changes. Receipts stay valid: the copy has the sequence of the original record.
func (q *Queue) copy(ctx context.Context, batch []entry) (copied int, err error) {
	q.changing.RLock()
	defer q.changing.RUnlock()
	reads := make([]pending, len(batch))
	for i, e := range batch {
		reads[i] = q.store.client.last(q.stream, q.subject(e.slot))
	}
	var changes []change
	for i, e := range batch {
		current, readErr := q.read(ctx, reads[i], e)
		switch {
		case errors.Is(readErr, ErrMessageNotFound), errors.Is(readErr, errSetAside):
			copied++ // it no longer exists
			continue
		case readErr != nil:
			err = readErr
			continue
		}
		r := current.record
		r.receipt = uint64(current.receiptNumber())
		changes = append(changes, q.begin(e.slot, current.seq, r, current.body))
	}
	for _, c := range changes {
		switch _, changeErr := q.finish(ctx, c); {
		case changeErr == nil, errors.Is(changeErr, ErrReceiptMismatch), errors.Is(changeErr, ErrMessageNotFound):
			copied++ // or it was changed, which moved it to the new end
		default:
			err = changeErr
		}
	}
	return copied, err
}

// purge removes all records before seq from a stream.
func (s *Store) purge(ctx context.Context, stream string, seq uint64) error {
	return s.client.purge(ctx, stream, seq)
}

// purge asks JetStream to remove all records before seq.
func (c *client) purge(ctx context.Context, stream string, seq uint64) error {
	var answer struct {
		Error *apiError `json:"error"`
	}
	err := c.request(ctx, stream, &nats.Msg{Subject: "$JS.API.STREAM.PURGE." + stream}, map[string]uint64{"seq": seq}, &answer)
	if err == nil && answer.Error != nil {
		err = answer.Error.err()
	}
	return err
}
