package state

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
)

// change is a publish whose outcome is not yet known.
type change struct {
	slot    slot
	replace uint64
	fresh   bool // a new message: no other front-end can have made a record with its nonce
	record  record
	message *nats.Msg
	pending pending
}

// change publishes a new record of a message that replaces another and waits for the acknowledgement. It returns ErrReceiptMismatch, and changes
// nothing, if the record to replace became void after the caller had read it: the message was cleared, or copied.
func (q *Queue) change(ctx context.Context, at slot, replace uint64, r record, body []byte) (uint64, error) {
	q.changing.RLock()
	defer q.changing.RUnlock()
	if q.isVoid(replace) {
		return 0, ErrReceiptMismatch
	}
	return q.finish(ctx, q.begin(at, replace, r, body))
}

// changeToNew is like change, for a new message.
func (q *Queue) changeToNew(ctx context.Context, at slot, replace uint64, r record, body []byte) (uint64, error) {
	q.changing.RLock()
	defer q.changing.RUnlock()
	c := q.begin(at, replace, r, body)
	c.fresh = true
	return q.finish(ctx, c)
}

// begin publishes. The caller must hold changing for reading until finish has returned.
func (q *Queue) begin(at slot, replace uint64, r record, body []byte) change {
	r.writer = q.store.client.newWriter()
	if r.kind == recordMessage {
		r.bodySum = sum(body)
	}
	subject, value := q.subject(at), r.encode()
	// One allocation for all values.
	values := [...]string{value, sumText(subject[len(q.prefix):], value), strconv.FormatUint(replace, 10), ""}
	m := &nats.Msg{Subject: subject, Data: body, Header: nats.Header{
		headerRecord: values[0:1:1], headerSum: values[1:2:2], headerExpected: values[2:3:3],
	}}
	if q.store.nats.Durable() { // the sequence that is known to be on disk
		values[3] = strconv.FormatUint(q.synced.Load(), 10)
		m.Header[headerSynced] = values[3:]
	}
	return change{slot: at, replace: replace, record: r, message: m, pending: q.store.client.send(q.stream, m)}
}

// addSynced adds to a record the sequence that is known to be on disk.
func (q *Queue) addSynced(m *nats.Msg) {
	if q.store.nats.Durable() {
		m.Header[headerSynced] = []string{strconv.FormatUint(q.synced.Load(), 10)}
	}
}

// errOvertaken means that the record to replace is no longer current. It is unknown whether the change was made before and replaced in turn.
var errOvertaken = fmt.Errorf("%w: another change came first, or after one whose answer was lost", ErrUnavailable)

// errUndecided means that a change was refused although its record to replace is current: another change is in flight and may fail, or a deposed
// leader refused it.
var errUndecided = fmt.Errorf("%w: the stream's leader is changing", ErrUnavailable)

// finish waits until the outcome of a change is known, and applies it to the index. ErrMessageNotFound and ErrReceiptMismatch mean that nothing
// was changed: the record to replace was not the current one.
//
// Neither a missing answer nor, on a cluster, a refusal proves that nothing was changed. An answer can be lost with a leader. According to the
// server's code, while a leader changes, the deposed one may still receive a publish and refuse it because its state is old, while the new one
// executes it; the client sees the answer that comes first. This was not observed directly: it is the most likely cause that was found for a
// message that was once duplicated after such a change. So after both, refused asks the stream for the change that replaced the record. If no
// change did, the change is sent again: it cannot happen twice, since it names the record that it replaces.
//
// It waits for the outcome even if ctx ends, because the index needs it.
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

// refused determines the outcome of a change that was refused. It returns the sequence of the change's record if the change was made. once is
// set if the change was sent once.
func (q *Queue) refused(ctx context.Context, c *change, once bool) (uint64, error) {
	current, err := q.readLeader(ctx, entry{slot: c.slot, seq: c.replace})
	var damaged unreadable
	switch {
	case errors.As(err, &damaged):
		q.setAside(c.slot, damaged.seq, err)
		return 0, ErrMessageNotFound
	case errors.Is(err, errNoRecord) && c.replace == 0:
		return 0, errUndecided
	case errors.Is(err, errNoRecord): // it was cut off with the old end
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
	q.behind = max(q.behind, current.seq)
	q.mu.Unlock()
	same := current.kind == recordMessage && current.nonce == c.record.nonce
	switch {
	case once && !q.store.replicated, current.replaced == c.replace: // another change replaced the record
	case same && c.fresh:
		return current.seq - 1, nil // it was already claimed: the receipt is an old one
	case same && c.record.kind == recordTombstone: // it was not deleted: a slot's next message has another nonce
	default:
		return 0, errOvertaken
	}
	if !same {
		return 0, ErrMessageNotFound
	}
	return 0, ErrReceiptMismatch
}

// retry reports whether to send a change of unknown outcome again, after a short pause.
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

// pause waits until a cluster may have elected a new leader.
func (s *Store) pause(ctx context.Context) {
	select {
	case <-time.After(s.retryPause):
	case <-ctx.Done():
	}
}
