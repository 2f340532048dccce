package state

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// copyRounds is the maximum number of times that a change is retried because its record was meanwhile copied to the stream's new end
// (compact.go).
const copyRounds = 8

// Update gives a message a new visibility timeout from now on and, unless body is nil, a new body. The returned message has the new receipt.
func (q *Queue) Update(ctx context.Context, id ID, receipt Receipt, body []byte, visibility time.Duration, now time.Time) (Message, error) {
	if err := q.usable(ctx); err != nil {
		return Message{}, err
	}
	for round := 0; ; round++ {
		current, err := q.current(ctx, id, receipt)
		if err != nil {
			return Message{}, err
		}
		next, _, err := Next(&current.state,
			Event{Kind: Change, Visibility: visibility, Current: current.receiptNumber() == receipt}, now.UnixNano())
		if err != nil {
			return Message{}, err
		}
		text := body
		if text == nil {
			text = current.body
		}
		seq, err := q.change(ctx, id.slot(), current.seq, record{state: next, nonce: id.nonce()}, text)
		if errors.Is(err, ErrReceiptMismatch) && round < copyRounds {
			continue // the same record may have been copied
		}
		if err != nil {
			return Message{}, err
		}
		return Message{ID: id, State: next, Receipt: Receipt(seq), Body: text}, q.sync(ctx, seq)
	}
}

// Delete deletes a message.
func (q *Queue) Delete(ctx context.Context, id ID, receipt Receipt, now time.Time) error {
	if err := q.usable(ctx); err != nil {
		return err
	}
	for round := 0; ; round++ {
		replace, err := q.deletable(ctx, id, receipt, now)
		if err != nil {
			return err
		}
		seq, err := q.change(ctx, id.slot(), replace, record{kind: recordTombstone, nonce: id.nonce()}, nil)
		if errors.Is(err, ErrReceiptMismatch) && round < copyRounds {
			continue
		}
		if err != nil {
			return err
		}
		return q.sync(ctx, seq)
	}
}

// deletable returns the record to replace for a message to be deleted. Usually the index has it.
func (q *Queue) deletable(ctx context.Context, id ID, receipt Receipt, now time.Time) (uint64, error) {
	q.mu.Lock()
	e := q.index.get(id.slot())
	known := e != nil && e.seq() == uint64(receipt) // a valid receipt of a slot's record is proof for its message
	expired := known && e.expires != Never && e.expires <= now.UnixNano()
	q.mu.Unlock()
	switch {
	case expired:
		return 0, ErrMessageNotFound
	case known:
		return uint64(receipt), nil
	}
	// The record shows whether the receipt is stale, the message was deleted, or the record is a copy.
	current, err := q.current(ctx, id, receipt)
	if err != nil {
		return 0, err
	}
	_, _, err = Next(&current.state, Event{Kind: Remove, Current: current.receiptNumber() == receipt}, now.UnixNano())
	return current.seq, err
}

// current reads the current record of the message for a receipt.
func (q *Queue) current(ctx context.Context, id ID, receipt Receipt) (stored, error) {
	p := q.store.client.last(q.stream, q.subject(id.slot()))
	current, err := q.read(ctx, p, entry{slot: id.slot(), seq: uint64(receipt)})
	if errors.Is(err, errSetAside) {
		return stored{}, fmt.Errorf("%w: its record of message %s cannot be read", ErrDamaged, id)
	}
	if err == nil && current.nonce != id.nonce() { // another message uses the slot now
		return stored{}, ErrMessageNotFound
	}
	return current, err
}
