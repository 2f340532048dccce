package queue

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/lazuli-storage/lazuli/internal/budget"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// State is a message without its identity and text. Times are nanoseconds since 1970, UTC.
type State struct {
	Inserted     int64
	Expires      int64 // Never if the message does not expire
	NextVisible  int64
	DequeueCount uint32
}

// Message is a message as returned to callers.
type Message struct {
	ID ID
	State
	Receipt Receipt
	Body    []byte
}

// Queue is a name of a queue, which may exist or not: its operations return [ErrQueueNotFound] if it does not. The
// callers pass the current time.
type Queue struct {
	// Account and Name identify the queue.
	Account, Name string

	store *Store
	key   []byte
}

// Queue returns the queue with a name.
func (s *Store) Queue(account, name string) *Queue {
	return &Queue{Account: account, Name: name, store: s, key: queueKey(account, name)}
}

// id returns the id of the queue.
func (q *Queue) id(tx *store.Tx) (queueID, error) {
	value := tx.Get(bucketQueues, q.key)
	if value == nil {
		return 0, ErrQueueNotFound
	}
	if len(value) < 8 {
		return 0, fmt.Errorf("%w: the record of queue %s", ErrDamaged, q.Name)
	}
	return queueID(binary.BigEndian.Uint64(value)), nil
}

// update runs fn in a transaction; see [store.DB.Update].
func (q *Queue) update(what string, fn func(tx *store.Tx, id queueID) error) error {
	note := what + " " + q.Account + "/" + q.Name
	return q.noted(q.store.db.Update(func(tx *store.Tx) error {
		id, err := q.id(tx)
		if err == nil {
			tx.Note(note)
			err = fn(tx, id)
		}
		return err
	}))
}

// view runs fn on the current state; see [store.DB.View].
func (q *Queue) view(fn func(tx *store.Tx, id queueID) error) error {
	return q.noted(q.store.db.View(func(tx *store.Tx) error {
		id, err := q.id(tx)
		if err == nil {
			err = fn(tx, id)
		}
		return err
	}))
}

// noted counts the queue if it is damaged.
func (q *Queue) noted(err error) error {
	if !errors.Is(err, ErrDamaged) {
		return err
	}
	s := q.store
	s.mu.Lock()
	_, known := s.damaged[string(q.key)]
	s.damaged[string(q.key)] = struct{}{}
	s.mu.Unlock()
	if !known {
		s.log.Error("records of a queue cannot be read; `lazuli fsck` shows them", "account", q.Account, "queue", q.Name,
			"err", err)
	}
	return err
}

// NewMessage is a message to put.
type NewMessage struct {
	Body []byte
	// Visibility is the time after which the message becomes visible.
	Visibility time.Duration
}

// Put adds a message. The caller must not change body until Put returns. The message becomes visible after visibility
// and expires after ttl, or never if ttl is Forever.
func (q *Queue) Put(body []byte, visibility, ttl time.Duration, now time.Time) (m Message, err error) {
	list, err := q.PutAll([]NewMessage{{body, visibility}}, ttl, now)
	if err != nil {
		return m, err
	}
	return list[0], nil
}

// recordSpace has buffers for the records of a Put; larger ones than maxRecordSpace are left to the collector.
var recordSpace = sync.Pool{New: func() any { return new([]byte) }}

const maxRecordSpace = 256 << 10

// PutAll is Put for several messages in one transaction: all are added, in their order, or none.
func (q *Queue) PutAll(list []NewMessage, ttl time.Duration, now time.Time) ([]Message, error) {
	put, records := make([]Message, len(list)), make([][]byte, len(list))
	nonces := make([]uint64, len(list))
	size := 0
	for _, x := range list {
		size += contentHeader + len(x.Body)
	}
	// Of all records. The transaction copies them to the log, and nothing has them once it has ended.
	space := recordSpace.Get().(*[]byte)
	room := slices.Grow((*space)[:0], size)
	defer func() {
		if *space = room; cap(room) <= maxRecordSpace {
			recordSpace.Put(space)
		}
	}()
	for i, x := range list {
		s, err := next(nil, Event{Kind: Put, Visibility: x.Visibility, TTL: ttl}, now.UnixNano())
		if err != nil {
			return nil, err
		}
		nonces[i] = rand.Uint64()
		c := content{s.Inserted, s.Expires, nonces[i], x.Body}
		begin := len(room)
		room = c.append(room)
		put[i], records[i] = Message{State: s, Body: x.Body}, room[begin:len(room):len(room)]
	}
	// Nonces and records are made before the transaction, which may run again. Numbers and receipts are made within it:
	// they depend on the counters that it reads.
	err := q.update("put", func(tx *store.Tx, id queueID) error {
		n := readCounters(tx, id)
		c := q.changing(tx, id, len(put))
		for i := range put {
			m := &put[i]
			number := n.next + uint64(i)
			tx.Put(bucketMessages, c.messageKey(number), records[i])
			key := c.place(number, m.NextVisible, m.Expires)
			m.ID = makeID(number, nonces[i])
			m.Receipt = q.store.receipts.receipt(&key, m.ID, 0)
		}
		n.next += uint64(len(put))
		n.messages += uint64(len(put))
		// A clock that is behind this time makes a later request rectify the queue, see clock.go.
		n.latest = max(n.latest, now.UnixNano())
		tx.Put(bucketCounters, id.key(), n.encode())
		return nil
	})
	if err != nil {
		return nil, err
	}
	return put, nil
}

// changing begins the change of a number of messages.
func (q *Queue) changing(tx *store.Tx, id queueID, messages int) changing {
	return changing{tx, id, &q.store.hints, make([]byte, 0, messages*changingRoom)}
}

// gone subtracts from the number of messages.
func gone(tx *store.Tx, id queueID, n uint64) {
	c := readCounters(tx, id)
	c.messages -= min(n, c.messages)
	tx.Put(bucketCounters, id.key(), c.encode())
}

// stateOf returns the state of a message at a place.
func stateOf(key *visibleKey, p position, c *content) State {
	return State{Inserted: c.inserted, Expires: p.expires, NextVisible: key.visible(), DequeueCount: p.dequeues}
}

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

// content reads a message. ok is false if it cannot be read: it is set aside then.
func (q *Queue) content(tx *store.Tx, id queueID, number uint64) (c content, ok bool) {
	v, err := tx.Read(bucketMessages, messageKey(id, number))
	if err == nil {
		if c, ok = decodeContent(v); ok {
			return c, true
		}
		err = errors.New("its record is missing or too short")
	}
	s := q.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.aside[id] == nil {
		s.aside[id] = make(map[uint64]struct{})
	}
	if _, known := s.aside[id][number]; !known {
		s.aside[id][number] = struct{}{}
		s.log.Error("a message cannot be read and is set aside; `lazuli fsck` shows it", "account", q.Account, "queue",
			q.Name, "number", number, "err", err)
	}
	return c, false
}

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

// Clear deletes all messages, hidden ones included. The time does not depend on their number.
func (q *Queue) Clear() error {
	err := q.update("clear", func(tx *store.Tx, id queueID) error {
		_, info, err := decodeQueue(tx.Get(bucketQueues, q.key))
		if err != nil {
			return err
		}
		// The queue continues with a new id, under which there is nothing. The cleaner removes later what is under the old
		// one.
		tx.Put(bucketGarbage, id.key(), nil)
		return putQueue(tx, q.key, q.store.newID(tx), &info)
	})
	if err == nil {
		q.store.cleaner.Wake()
	}
	return err
}

// MaxVisible is the highest value of [Properties.Visible].
const MaxVisible = 10_000

// Properties are the properties of a queue.
type Properties struct {
	Metadata []Meta
	// Messages is the number of messages, visible or not. Expired ones do not count.
	//
	// https://learn.microsoft.com/rest/api/storageservices/get-queue-metadata#response-headers
	Messages int
	// Visible is the number of visible messages, up to MaxVisible, if it was asked for.
	Visible int
	// Aside is the number of messages that were found to be unreadable since the start.
	Aside int
}

// Properties returns the properties of the queue, with Visible if visible is set.
func (q *Queue) Properties(ctx context.Context, now time.Time, visible bool) (p Properties, err error) {
	for {
		expired := false
		err = q.view(func(tx *store.Tx, id queueID) error {
			_, info, err := decodeQueue(tx.Get(bucketQueues, q.key))
			p = Properties{Metadata: info.Metadata, Messages: int(readCounters(tx, id).messages)}
			expired = p.Messages > 0 && anyExpired(tx, now.UnixNano())
			if visible {
				p.Visible = q.visible(tx, id, now)
			}
			q.store.mu.Lock()
			defer q.store.mu.Unlock()
			p.Aside = len(q.store.aside[id])
			return err
		})
		if err != nil || !expired || ctx.Err() != nil {
			return p, err
		}
		if err := q.store.removeExpired(now.UnixNano()); err != nil {
			return p, err
		}
	}
}

// visible returns the number of visible messages, up to MaxVisible.
func (q *Queue) visible(tx *store.Tx, id queueID, now time.Time) (n int) {
	for _, p := range q.places(tx, id, Position{}, now.UnixNano()) {
		if p.expires == Never || p.expires > now.UnixNano() {
			n++
		}
		if n == MaxVisible {
			break
		}
	}
	return n
}

// NextVisible returns the time after now at which the queue's next message becomes visible, as far as this process
// knows: 0 if a message is visible, and an hour if the queue has no messages. It is a hint when to poll again.
func (q *Queue) NextVisible(now time.Time) (d time.Duration) {
	d = time.Hour
	_ = q.store.db.ViewLocal(func(tx *store.Tx) error {
		id, err := q.id(tx)
		if err != nil {
			return err
		}
		for key := range q.places(tx, id, Position{}, math.MaxInt64) {
			d = max(0, time.Duration(key.visible()-now.UnixNano()))
			break
		}
		if c := readCounters(tx, id); c.again != 0 {
			d = min(d, max(0, time.Duration(c.again-now.UnixNano())))
		}
		return nil
	})
	return d
}
