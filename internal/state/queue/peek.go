package queue

import (
	"bytes"
	"math"
	"time"

	"github.com/lazuli-storage/lazuli/internal/budget"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// Peek returns up to n visible messages without changing them. They carry no receipt that a caller may use.
func (q *Queue) Peek(n int, now time.Time) ([]Message, error) {
	found, _, err := q.peek(n, Position{}, now, now.UnixNano())
	return found, err
}

// Position is the position of a message in the order in which messages become visible. The zero value is before all.
type Position struct {
	Visible  int64  // when the message becomes visible, in nanoseconds since 1970
	Sequence uint64 // number of the message
}

// PeekAll is like Peek, includes hidden messages, in the order in which they become visible, and begins after a
// position. It returns the position of the last message, or the zero value if no more messages follow.
func (q *Queue) PeekAll(n int, after Position, now time.Time) ([]Message, Position, error) {
	return q.peek(n, after, now, math.MaxInt64)
}

// peek returns messages that are visible at until.
func (q *Queue) peek(n int, after Position, now time.Time, until int64) (found []Message, last Position, err error) {
	for rectified := false; ; {
		more, late := false, false
		err = q.view(func(tx *store.Tx, id queueID) error {
			found, last, more = nil, Position{}, false
			// A view cannot change what it sees: the clock that was ahead and the expired messages are dealt with after it, in
			// transactions of their own, and the loop looks again.
			late = !rectified && behind(tx, id, now.UnixNano())
			expired, size := 0, 0
			for key, p := range q.places(tx, id, after, until) {
				switch {
				case p.expires != Never && p.expires <= now.UnixNano():
					if expired++; expired > maxExpired {
						more = true
						return nil
					}
					continue
				// The page is full, and this message shows that more follow: only then the position of the last one is returned.
				case len(found) == n, size >= budget.Answer:
					m := &found[len(found)-1]
					last = Position{m.NextVisible, m.ID.number()}
					return nil
				}
				if c, ok := q.content(tx, id, key.number()); ok {
					found = append(found, Message{ID: makeID(key.number(), c.nonce), State: stateOf(&key, p, &c),
						Body: bytes.Clone(c.text)})
					size += len(c.text)
				}
			}
			return nil
		})
		if err == nil && late {
			if err := q.rectify(now); err != nil {
				return nil, Position{}, err
			}
			rectified = true
			continue
		}
		if err != nil || !more {
			return found, last, err
		}
		if err := q.store.removeExpired(now.UnixNano()); err != nil { // so that no other request passes them
			return nil, Position{}, err
		}
	}
}

// places yields the places of messages after a position, up to those that become visible at until.
func (q *Queue) places(tx *store.Tx, id queueID, after Position,
	until int64) func(yield func(visibleKey, position) bool) {
	return func(yield func(visibleKey, position) bool) {
		from := makeVisibleKey(id, after.Visible, after.Sequence)
		if first := q.store.hints.from(id); bytes.Compare(from[:], first[:]) < 0 {
			from = first
		}
		c := tx.Scan(bucketVisible)
		for k, v := c.Seek(from[:]); len(k) == len(from) && bytes.Equal(k[:8], from[:8]); k, v = c.Next() {
			key := visibleKey(k)
			p, ok := decodePosition(v)
			switch {
			case key.visible() > until:
				return
			case !ok || key.visible() == after.Visible && key.number() == after.Sequence:
			case !yield(key, p):
				return
			}
		}
	}
}
