package state

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
)

// change is a publish on its way.
type change struct {
	slot    slot
	replace uint64
	fresh   bool // a new message: nobody else can have made a record with its nonce
	record  record
	message *nats.Msg
	pending pending
}

// change publishes a new record in place of another (0: of none) and waits for the acknowledgement.
func (q *Queue) change(ctx context.Context, at slot, replace uint64, r record, body []byte) (uint64, error) {
	q.changing.RLock()
	defer q.changing.RUnlock()
	return q.finish(ctx, q.begin(at, replace, r, body))
}

// changeToNew is change for a new message.
func (q *Queue) changeToNew(ctx context.Context, at slot, replace uint64, r record, body []byte) (uint64, error) {
	q.changing.RLock()
	defer q.changing.RUnlock()
	c := q.begin(at, replace, r, body)
	c.fresh = true
	return q.finish(ctx, c)
}

// begin publishes. The caller holds changing for reading until finish has returned.
func (q *Queue) begin(at slot, replace uint64, r record, body []byte) change {
	r.writer = q.store.client.newWriter()
	if r.kind == recordMessage {
		r.bodySum = sum(body)
	}
	value := r.encode()
	m := &nats.Msg{Subject: q.subject(at), Data: body, Header: nats.Header{
		headerRecord:   {value},
		headerSum:      {sumText(at.token(), value)},
		headerExpected: {strconv.FormatUint(replace, 10)},
	}}
	q.addSynced(m)
	return change{slot: at, replace: replace, record: r, message: m, pending: q.store.client.send(q.stream, m)}
}

// addSynced says in a record what is known to be on disk.
func (q *Queue) addSynced(m *nats.Msg) {
	if q.store.nats.Durable() {
		m.Header[headerSynced] = []string{strconv.FormatUint(q.synced.Load(), 10)}
	}
}

// errOvertaken means that the record to replace is not current any more, but not whether the change was made before
// that and replaced in turn.
var errOvertaken = fmt.Errorf("%w: another change came first, or after one whose answer was lost", ErrUnavailable)

// errUndecided means that a change was refused, and that nothing replaced the record which it names: another change is
// on its way and may fail, or the refusal may have come from a leader that was deposed and does not know it yet.
var errUndecided = fmt.Errorf("%w: the stream's leader is changing", ErrUnavailable)

// finish waits until the outcome of a change is known, and takes it over into the index. ErrMessageNotFound and
// ErrReceiptMismatch mean that nothing was changed: the record to replace was not the current one.
//
// Neither a missing answer nor, on a cluster, a refusal is taken to say that nothing was changed. An answer can be lost with a
// leader. And as the server's code reads, while a leader changes the deposed one may still receive what is published and refuse
// it, for it is behind, while the new one carries it out; whichever answer came first would be seen. That was never observed as
// such: it is the likeliest reason that was found for a message that once was there twice after such a change. So after both the
// stream is asked who replaced the record (refused), and where nobody did the change is sent again: it cannot happen twice, since
// it names the record that it replaces.
//
// It waits for the outcome even if the caller goes away: the index must have it.
func (q *Queue) finish(ctx context.Context, c change) (uint64, error) {
	ctx = context.WithoutCancel(ctx)
	seq, err := c.pending.sequence(ctx)
	for attempt := 1; ; attempt++ {
		if errors.As(err, new(wrongSequence)) {
			seq, err = q.refused(ctx, &c, attempt == 1)
		}
		if err == nil {
			q.apply(c.slot, seq, q.recordSize(len(c.message.Data)), &c.record)
			return seq, nil
		}
		if !q.retry(ctx, err, attempt) {
			break
		}
		again := q.store.client.send(q.stream, &nats.Msg{Subject: c.message.Subject, Header: c.message.Header, Data: c.message.Data})
		seq, err = again.sequence(ctx)
	}
	switch {
	case errors.Is(err, errNoStream):
		err = q.streamMissing(ctx)
	case (errors.Is(err, ErrUnavailable) || errors.Is(err, ErrStorage)) && !errors.Is(err, errOvertaken):
		q.invalidateIndex()
	}
	return 0, err
}

// refused finds out what became of a change that was refused. It returns the number of the change's record if it was
// made after all. once says that it was sent once.
func (q *Queue) refused(ctx context.Context, c *change, once bool) (uint64, error) {
	current, err := q.readLeader(ctx, entry{slot: c.slot, seq: c.replace})
	var damaged unreadable
	switch {
	case errors.As(err, &damaged):
		q.setAside(c.slot, damaged.seq, err)
		return 0, ErrMessageNotFound
	case errors.Is(err, errNoRecord) && c.replace == 0:
		return 0, errUndecided
	case errors.Is(err, errNoRecord): // the old end was cut off with it
		q.mu.Lock()
		q.index.forget(c.slot, c.replace)
		q.mu.Unlock()
		if !once {
			return 0, errOvertaken
		}
		return 0, ErrMessageNotFound
	case err != nil:
		return 0, err
	case current.seq <= c.replace:
		return 0, errUndecided
	case current.writer == c.record.writer:
		return current.seq, nil
	}
	q.mu.Lock()
	q.applyLocked(c.slot, current.seq, q.recordSize(len(current.body)), &current.record)
	q.mu.Unlock()
	same := current.kind == recordMessage && current.nonce == c.record.nonce
	switch {
	case once && !q.store.replicated, current.replaced == c.replace: // what replaced the record was not this change
	case same && c.fresh:
		return current.seq - 1, nil // somebody has claimed it already: the receipt is one of the past
	case same && c.record.kind == recordTombstone: // it was not deleted: a slot's next message has another nonce
	default:
		return 0, errOvertaken
	}
	if !same {
		return 0, ErrMessageNotFound
	}
	return 0, ErrReceiptMismatch
}

// retry says whether a change whose outcome is not known is tried again, and waits a moment first.
func (q *Queue) retry(ctx context.Context, err error, attempt int) bool {
	if attempt > q.store.retries {
		return false
	}
	switch {
	case errors.Is(err, errNoStream):
		if !q.store.external || q.store.queueGone(ctx, q) {
			return false
		}
	case !errors.Is(err, ErrUnavailable), errors.Is(err, errOvertaken):
		return false
	}
	q.store.pause(ctx)
	return true
}

// pause gives a cluster time to find a new leader.
func (s *Store) pause(ctx context.Context) {
	select {
	case <-time.After(s.retryPause):
	case <-ctx.Done():
	}
}
