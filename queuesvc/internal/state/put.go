package state

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// putRounds is the maximum number of slots that Put tries, and reuseRounds the number of free slots among them. The index of a front-end that lags
// behind others can have many slots as free that are used; a new slot is used by no other front-end.
const (
	putRounds   = 64
	reuseRounds = 8
)

// Put adds a message. The caller must not change body until Put returns. The message becomes visible after visibility and expires after ttl, or
// never if ttl is Forever.
func (q *Queue) Put(ctx context.Context, body []byte, visibility, ttl time.Duration, now time.Time) (Message, error) {
	s, _, err := Next(nil, Event{Kind: Put, Visibility: visibility, TTL: ttl}, now.UnixNano())
	if err != nil {
		return Message{}, err
	}
	if err := q.usable(ctx); err != nil {
		return Message{}, err
	}
	if err := q.needStream(ctx); err != nil {
		return Message{}, err
	}
	r := record{state: s, nonce: rand.Uint64()}
	for round := 0; ; round++ {
		at, replace := q.takeSlot(round < reuseRounds)
		seq, err := q.changeToNew(ctx, at, replace, r, body)
		if err == nil {
			m := Message{ID: makeID(at, r.nonce), State: s, Receipt: Receipt(seq), Body: body}
			return m, q.sync(ctx, seq)
		}
		q.mu.Lock()
		q.index.giveBack(at)
		q.mu.Unlock()
		taken := errors.Is(err, ErrReceiptMismatch) || errors.Is(err, ErrMessageNotFound)
		switch {
		case !taken:
			return Message{}, err
		case round == putRounds:
			return Message{}, fmt.Errorf("no slot for the message: %w", errOvertaken)
		}
		// Another front-end has used the slot, or the stream's old end was cut off with it.
	}
}

// takeSlot returns a slot for a new message, and the record in it to replace: a free one if reuse is set and there is one. An index that is known to
// lag behind other front-ends has slots as free that they use; a change there is refused, often without a way to tell what became of it.
func (q *Queue) takeSlot(reuse bool) (slot, uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if reuse && (!q.store.shared || q.followed >= q.behind) {
		if s, seq, ok := q.index.take(); ok {
			return s, seq
		}
	}
	q.nextSlot++
	return slot(q.store.slots)<<32 | slotHex | q.nextSlot&(slotHex-1), 0
}
