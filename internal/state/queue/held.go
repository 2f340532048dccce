package queue

import (
	"bytes"
	"fmt"
	"time"

	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// find returns the position of the message for a receipt, and decides what is wrong without one.
func (q *Queue) find(tx *store.Tx, queue queueID, id ID, receipt Receipt, now int64) (key visibleKey, p position,
	err error) {
	// The receipt has the time that the message had when it was issued, and with it the key of the place. A message that
	// was dequeued or changed since then is at another place, or has another number of changes.
	key = makeVisibleKey(queue, receipt.visible(), id.number())
	if v := tx.Get(bucketVisible, key[:]); v != nil {
		var ok bool
		if p, ok = decodePosition(v); ok && q.store.receipts.receipt(&key, id, p.changes) == receipt {
			return key, p, nil
		}
	}
	// The text, whose key does not change, tells a receipt that is out of date from a message that does not exist.
	v, err := tx.Read(bucketMessages, messageKey(queue, id.number()))
	if err != nil {
		return key, p, err
	}
	if c, ok := decodeContent(v); ok && makeID(id.number(), c.nonce) == id && (c.expires == Never || c.expires > now) {
		return key, p, ErrReceiptMismatch
	}
	return key, p, ErrMessageNotFound
}

// Update gives a message a new visibility timeout from now on and, unless body is nil, a new body. The returned message
// has the new receipt. It has the body only if that was given.
func (q *Queue) Update(id ID, receipt Receipt, body []byte, visibility time.Duration, now time.Time) (m Message,
	err error) {
	err = q.update("update", func(tx *store.Tx, queue queueID) error {
		key, p, err := q.find(tx, queue, id, receipt, now.UnixNano())
		if err != nil {
			return err
		}
		current := stateOf(&key, p, &content{})
		next, err := next(&current, Event{Kind: Change, Visibility: visibility}, now.UnixNano())
		if err != nil {
			return err
		}
		// The text is read also if it stays: the time of the insertion and the nonce are in its record.
		c, ok := q.content(tx, queue, id.number())
		if !ok {
			return fmt.Errorf("%w: message %s", ErrDamaged, id)
		}
		next.Inserted = c.inserted
		if body != nil {
			c.text = body
			tx.Put(bucketMessages, messageKey(queue, id.number()), c.encode())
		}
		change := q.changing(tx, queue, 1)
		at, moved := change.move(&key, p, next.NextVisible, visibility)
		used(tx, queue, now.UnixNano())
		m = Message{ID: id, State: next, Receipt: q.store.receipts.receipt(&at, id, moved.changes), Body: bytes.Clone(c.text)}
		return nil
	})
	return m, err
}

// Delete deletes a message.
func (q *Queue) Delete(id ID, receipt Receipt, now time.Time) error {
	return q.update("delete", func(tx *store.Tx, queue queueID) error {
		c := q.changing(tx, queue, 1)
		if err := q.remove(&c, Held{id, receipt}, now); err != nil {
			return err
		}
		gone(tx, queue, 1)
		return nil
	})
}

// Held is a message and the authority to delete it.
type Held struct {
	ID      ID
	Receipt Receipt
}

// DeleteAll deletes several messages in one transaction. outcomes has the error that Delete would return for each;
// those with an error stay as they are.
func (q *Queue) DeleteAll(list []Held, now time.Time) (outcomes []error, err error) {
	outcomes = make([]error, len(list))
	err = q.update("delete", func(tx *store.Tx, queue queueID) error {
		deleted := uint64(0)
		c := q.changing(tx, queue, len(list))
		for i, h := range list {
			if outcomes[i] = q.remove(&c, h, now); outcomes[i] == nil {
				deleted++
			}
		}
		if deleted > 0 {
			gone(tx, queue, deleted)
		}
		return nil
	})
	return outcomes, err
}

// remove erases a message. The caller changes the counters.
func (q *Queue) remove(c *changing, h Held, now time.Time) error {
	key, p, err := q.find(c.tx, c.in, h.ID, h.Receipt, now.UnixNano())
	if err != nil {
		return err
	}
	current := stateOf(&key, p, &content{})
	if _, err := next(&current, Event{Kind: Remove}, now.UnixNano()); err != nil {
		return err
	}
	c.erase(&key, p)
	return nil
}
