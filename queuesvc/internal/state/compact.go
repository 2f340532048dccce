package state

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
)

// A queue's stream only grows: each change appends a record, and of a slot's records the last one counts. JetStream writes down that a
// record is gone only by what it removes, so that after a crash a record is back whose removal was not durable. Therefore nothing is removed
// from a stream but its old end, and that only once
//
//   - all that is needed lies behind: of each message, the current record,
//   - that is on disk, and
//   - the catalog says so: everything before the floor (floor.go) is void, whether it is still there or there again.
//
// On files of our own the cut is made between two blocks, so that JetStream removes whole files and writes none.
//
// Messages that stay for long would keep the old end. When the stream is much larger than its messages, those in the oldest block are copied
// to the new end, with the number of their receipt. So a stream takes at most about twice the room of its messages, and compactSlack; and each
// byte is written at most about three times. It is done in the background, at a bounded share of the time.
//
// In memory JetStream keeps a slot's last record only, and nothing has to survive: there the old end is cut off when many slots
// are free.
const (
	// compactSlack is by how many bytes a stream may be larger than twice its messages.
	compactSlack = 16 << 20
	// freeLeast is the number of free slots from which a stream in memory is cut.
	freeLeast = 4096
	// copyBatch is how many messages are copied at once.
	copyBatch = 32
	// copyRest is how many times as long as it took to copy a batch the copying rests before the next.
	copyRest = 4
	// compactTimeout bounds one cut.
	compactTimeout = time.Minute
	// compactQuiet is longer than any front-end tries to make a change. Where others write, a tombstone stays for at least
	// that long: a Put whose answer was lost is sent again, and must not find its slot empty because its message was
	// got, deleted and cut off meanwhile.
	compactQuiet = time.Minute
)

// mark is how far a stream had been followed at a time.
type mark struct {
	at  time.Time
	seq uint64
}

// settled is up to where the stream had been followed compactQuiet ago or earlier. The lock is held.
func (q *Queue) settled() uint64 {
	for _, m := range []mark{q.marks[1], q.marks[0]} {
		if time.Since(m.at) >= q.store.quiet {
			return m.seq
		}
	}
	return 0
}

// oversized reports whether the stream is larger than it should be. The lock is held.
func (q *Queue) oversized() bool {
	if q.store.nats.InMemory() {
		return q.index.free >= freeLeast && q.index.free >= q.index.live
	}
	return q.logBytes > 2*q.index.bytes+q.store.slack
}

// compactIfDue starts a compaction if the stream is too large. The lock is held.
func (q *Queue) compactIfDue() {
	if !q.compacting && !q.gone && q.loading == loaded && q.logBytes >= q.compactAt && q.oversized() {
		q.startCompaction()
	}
}

// compactNow starts a compaction, after much became void at once.
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
		// What could not be done now is tried again once the stream has grown.
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

// unneeded returns the sequence before which no record is needed. No change is on its way at that moment, so that the index knows
// all messages but those that others have put; and these are newer than all that has been followed.
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
		before = min(before, q.settled()+1)
	}
	return before
}

// cutOldEnd removes the records from the stream that nobody needs, as far as that goes without writing to a block that stays.
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
	// What takes the place of what is cut off must be on disk before, and the floor as well.
	if err := q.sync(ctx, 0); err != nil {
		return err
	}
	if err := q.raiseFloor(ctx, point); err != nil {
		return err
	}
	if err := q.store.purge(ctx, q.stream, point); err != nil {
		return err
	}
	stream, err := q.store.js.Stream(ctx, q.stream)
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

// copyOldest copies the messages in the stream's oldest block, or in its oldest part, to the new end. It returns how many there were.
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

// copy publishes messages once more, as they are. Who holds one keeps its receipt: the copy says of which record it is one.
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
			copied++ // in that it is not there any more
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
			copied++ // or somebody else has changed it, at the new end
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
