package queue

import (
	"bytes"
	"fmt"
	"math"
	"time"

	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// maxExpired is the maximum number of expired messages that one transaction of Get Messages removes before it begins
// again.
const maxExpired = 256

// Get claims up to n visible messages for the duration visibility.
func (q *Queue) Get(n int, visibility time.Duration, now time.Time) ([]Message, error) {
	for rectified := false; ; {
		g := getting{q: q, n: n, visibility: visibility, now: now.UnixNano()}
		err := q.update("get", g.run)
		// found must be called also after a failure: until then, no other transaction may raise the hint. One that was
		// not committed does not raise it.
		if g.hint != nil {
			q.store.hints.found(g.hint, g.first, err == nil)
		}
		if err != nil {
			return nil, err
		}
		late := g.behind && !rectified
		if late {
			if err := q.rectify(now); err != nil {
				return nil, err
			}
			rectified = true
		}
		// Nothing was found: it is tried again if the transaction ended at its limit of expired messages, which are erased
		// by now, or if rectify may have made messages visible.
		if len(g.found) > 0 || !g.more && !late {
			return g.found, nil
		}
	}
}

// getting is one transaction of Get.
type getting struct {
	q          *Queue
	n          int
	visibility time.Duration
	now        int64

	id    queueID
	hint  *hint
	first visibleKey // no message is before it
	found []Message
	taken []taken // of found
	more  bool    // it ended at maxExpired
	// behind is set if the clock is behind times of the queue, see clock.go.
	behind bool
}

// taken is the former place of a message that is handed out, and its new one.
type taken struct {
	from, to visibleKey
	p        position // at the new place
}

// run is the transaction. It may run several times.
func (g *getting) run(tx *store.Tx, id queueID) error {
	var from visibleKey
	hints := &g.q.store.hints
	switch {
	case g.hint != nil && g.id == id:
		from = hints.again(g.hint)
	case g.hint != nil: // the queue was cleared meanwhile
		hints.found(g.hint, visibleKey{}, false)
		fallthrough
	default:
		from, g.hint = hints.look(id)
	}
	from = hints.within(id, tx.Group(), from)
	g.id, g.found, g.taken, g.more = id, g.found[:0], g.taken[:0], false
	g.first = makeVisibleKey(id, math.MaxInt64, math.MaxUint64)
	change := g.q.changing(tx, id, 0)
	// Places are in the order of the time at which they become visible, so the loop ends at the first that is hidden. If
	// it comes to the end of the queue instead, no message is left before the end, which is what first says until then.
	expired := 0
	c := tx.Cursor(bucketVisible)
	for k, v := c.Seek(from[:]); len(k) == len(from) && bytes.Equal(k[:8], from[:8]); k, v = c.Next() {
		key := visibleKey(k)
		if key.visible() > g.now || len(g.found) == g.n || expired == maxExpired {
			g.first, g.more = key, expired == maxExpired
			break
		}
		p, ok := decodePosition(v)
		if !ok {
			return fmt.Errorf("%w: a place in queue %s", ErrDamaged, g.q.Name)
		}
		if p.expires != Never && p.expires <= g.now {
			change.erase(&key, p)
			expired++
			continue
		}
		if err := g.claim(tx, &key, p); err != nil {
			return err
		}
	}
	if expired > 0 {
		gone(tx, id, uint64(expired))
	}
	// The messages move after the search: the cursor would have to find its place again after each change before it. All
	// former places come before all new ones, in the order in which the writes are kept.
	change = g.q.changing(tx, id, len(g.taken))
	for i := range g.taken {
		change.leave(&g.taken[i].from)
	}
	hints.taken(id, tx.Group(), g.first)
	for i := range g.taken {
		change.put(&g.taken[i].to, g.taken[i].p)
	}
	g.behind = behind(tx, id, g.now)
	if len(g.found) > 0 {
		used(tx, id, g.now)
	}
	return nil
}

// claim hands out the message at a place.
func (g *getting) claim(tx *store.Tx, key *visibleKey, p position) error {
	c, ok := g.q.content(tx, g.id, key.number())
	// A message that cannot be read is passed: with an error here it would block the messages behind it. content has
	// logged it.
	if !ok {
		return nil
	}
	current := stateOf(key, p, &c)
	next, err := next(&current, Event{Kind: Claim, Visibility: g.visibility}, g.now)
	if err != nil {
		return err // the key says that it can be claimed
	}
	at, p := makeVisibleKey(g.id, next.NextVisible, key.number()), p.changed(g.visibility)
	p.dequeues = next.DequeueCount
	m := Message{ID: makeID(key.number(), c.nonce), State: next, Body: bytes.Clone(c.text)}
	m.Receipt = g.q.store.receipts.receipt(&at, m.ID, p.changes)
	g.found, g.taken = append(g.found, m), append(g.taken, taken{*key, at, p})
	return nil
}
