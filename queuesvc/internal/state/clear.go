package state

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go"
)

// Clear deletes all messages, hidden ones included. Messages that are put at the same time may stay or be deleted.
//
// A record marks the position in the stream. Once it is durable, the floor is raised to it. When the floor is durable, all earlier records are
// void, for all front-ends and after any crash. The space is freed in the background (compact.go).
func (q *Queue) Clear(ctx context.Context) error {
	if err := q.usable(ctx); err != nil {
		return err
	}
	if q.streamless.Load() {
		if q.store.queueGone(ctx, q) {
			return ErrQueueNotFound
		}
		return nil
	}
	seq, err := q.markCleared(ctx)
	if err != nil {
		return err
	}
	if q.store.shared {
		// Other front-ends may not have seen the change yet. Their changes of a cleared message are refused once its record is removed.
		if err := q.store.purge(context.WithoutCancel(ctx), q.stream, seq); err != nil {
			return err
		}
		return q.sync(ctx, seq)
	}
	q.compactNow()
	return nil
}

// markCleared publishes the record that marks the position and raises the floor to it. No change of this front-end is in flight meanwhile: one that
// was begun before, such as a copy by compaction, would be behind the mark, and bring its message back.
func (q *Queue) markCleared(ctx context.Context) (uint64, error) {
	r := record{kind: recordCleared, writer: q.store.client.newWriter()}
	value := r.encode()
	m := &nats.Msg{Subject: q.prefix + clearedToken, Header: nats.Header{
		headerRecord: {value}, headerSum: {sumText(clearedToken, value)}}}
	q.changing.Lock()
	defer q.changing.Unlock()
	q.addSynced(m)
	p := q.store.client.send(q.stream, m)
	seq, err := p.sequence(ctx)
	if err != nil {
		if errors.Is(err, errNoStream) {
			err = q.streamMissing(ctx)
		}
		return 0, err
	}
	if err := q.sync(ctx, seq); err != nil {
		return 0, err
	}
	return seq, q.raiseFloor(context.WithoutCancel(ctx), seq)
}
