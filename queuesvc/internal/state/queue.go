package state

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	// sweepPause is the least time between two searches for expired messages in a queue's index.
	sweepPause = time.Second
	// claimRounds bounds how often Get looks for other candidates when those that it tried were taken by another
	// front-end.
	claimRounds = 8
	// unreadablePause is how long a message is left alone whose record could not be read.
	unreadablePause = time.Minute
	// putRounds bounds how often Put looks for another slot.
	putRounds = 64
)

// Queue is one queue that exists, or did when it was looked up: its operations answer [ErrQueueNotFound] once it was
// deleted. It is safe for concurrent use. Times are the callers'.
type Queue struct {
	// Account and Name are the queue's address.
	Account, Name string

	store  *Store
	stream string // the stream's name
	prefix string // of the subjects, with a dot at the end

	// changing is held for reading while a change is published and until the index has it, and for writing while the
	// stream's old end is cut off (trim.go).
	changing sync.RWMutex

	streamless atomic.Bool // there is no stream, and no message (stream.go)
	making     sync.Mutex  // held while the stream is made

	mu       sync.Mutex // guards the rest
	index    *index
	nextSlot slot // the lower half of the last slot that was made here
	loading  loadState
	progress chan struct{} // closed and replaced whenever the index has grown, while loading
	loadErr  error
	followed uint64 // while loading, and where others write: everything up to this record has been seen
	cleared  uint64 // records before this one are void
	stop     func() // ends loading and following
	gone     bool

	marks    [2]mark // where others write: how far was followed when
	trimming bool    // a trim is running
	trimAt   int     // how many free slots there must be for the next
}

// loadState says how much of the stream the index knows.
type loadState uint8

const (
	unloaded loadState = iota
	loading
	loaded
)

func newQueue(s *Store, account, name, stream, prefix string) *Queue {
	return &Queue{Account: account, Name: name, store: s, stream: stream, prefix: prefix, index: newIndex(),
		progress: make(chan struct{}), trimAt: trimLeast}
}

func (q *Queue) subject(s slot) string { return q.prefix + s.token() }

// takeSlot returns a slot for a new message, and the record that is replaced there.
func (q *Queue) takeSlot() (slot, uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if s, seq, ok := q.index.take(); ok {
		return s, seq
	}
	q.nextSlot++
	return slot(q.store.slots)<<32 | slotHex | q.nextSlot&(slotHex-1), 0
}

// Put adds a message. Its body is kept until Put returns. It becomes visible after visibility and expires after ttl,
// or never if that is Forever.
func (q *Queue) Put(ctx context.Context, body []byte, visibility, ttl time.Duration, now time.Time) (Message, error) {
	s, _, err := Next(nil, Event{Kind: Put, Visibility: visibility, TTL: ttl}, now.UnixNano())
	if err != nil {
		return Message{}, err
	}
	if err := q.needStream(ctx); err != nil {
		return Message{}, err
	}
	r := record{state: s, nonce: rand.Uint64()}
	for round := 0; ; round++ {
		at, replace := q.takeSlot()
		seq, err := q.changeToNew(ctx, at, replace, r, body)
		if err == nil {
			m := Message{ID: makeID(at, r.nonce), State: s, Receipt: Receipt(seq), Body: body}
			return m, q.store.sync(q.stream)
		}
		q.mu.Lock()
		q.index.giveBack(at)
		q.mu.Unlock()
		if taken := errors.Is(err, ErrReceiptMismatch) || errors.Is(err, ErrMessageNotFound); !taken || round == putRounds {
			return Message{}, err
		}
		// Another front-end has used the slot, or a trim has removed it.
	}
}

// Get claims up to n visible messages for the time of visibility.
func (q *Queue) Get(ctx context.Context, n int, visibility time.Duration, now time.Time) ([]Message, error) {
	if err := q.load(); err != nil {
		return nil, err
	}
	found := make([]Message, 0, min(n, 32))
	var failure error
	for round := 0; len(found) < n && round < claimRounds && failure == nil; round++ {
		candidates, err := q.candidates(ctx, n-len(found), now)
		if err != nil {
			failure = err
			break
		}
		if len(candidates) == 0 {
			break
		}
		found, failure = q.claim(ctx, found, candidates, visibility, now)
	}
	if len(found) == 0 {
		return nil, failure
	}
	// What was claimed is handed out even if the rest could not be: otherwise it would only be hidden.
	return found, q.store.sync(q.stream)
}

// candidates takes up to n visible entries out of the heap. While the index is being loaded it waits until there are
// some that are as old as what the stream has shown so far, or until there cannot be any.
func (q *Queue) candidates(ctx context.Context, n int, now time.Time) ([]entry, error) {
	at := now.UnixNano()
	var found []entry
	q.mu.Lock()
	q.index.sweep(at, int64(sweepPause))
	for {
		for len(found) < n {
			e, ok := q.index.claim(at)
			if !ok {
				break
			}
			if q.early(e) {
				q.index.restore(e.slot, e.seq)
				break
			}
			found = append(found, e)
		}
		if len(found) > 0 || q.loading != loading {
			err := q.loadErr
			if len(found) > 0 {
				err = nil
			}
			q.mu.Unlock()
			return found, err
		}
		progress := q.progress
		q.mu.Unlock()
		select {
		case <-progress:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", ErrUnavailable, context.Cause(ctx))
		}
		q.mu.Lock()
	}
}

// claim claims the candidates that can be claimed and appends them to found. All are read, then all are published:
// the requests to JetStream overlap.
func (q *Queue) claim(ctx context.Context, found []Message, candidates []entry, visibility time.Duration, now time.Time) ([]Message, error) {
	var failure error
	q.changing.RLock()
	defer q.changing.RUnlock()
	reads := make([]pending, len(candidates))
	for i := range candidates {
		reads[i] = q.store.client.last(q.stream, q.subject(candidates[i].slot))
	}
	type attempt struct {
		message Message
		write   change
	}
	attempts := make([]attempt, 0, len(candidates))
	for i, e := range candidates {
		current, err := q.read(ctx, reads[i], e)
		switch {
		case errors.Is(err, ErrMessageNotFound):
			continue
		case errors.Is(err, errUnreadable): // do not let it hold up the others
			q.logger().Error("a message cannot be read: it is tried again later", "slot", e.slot.token(), "record", e.seq)
			q.mu.Lock()
			q.index.postpone(e.slot, e.seq, now.Add(unreadablePause).UnixNano())
			q.mu.Unlock()
			continue
		case err != nil:
			q.restore(e)
			failure = err
			continue
		}
		next, _, err := Next(&current.state, Event{Kind: Claim, Visibility: visibility}, now.UnixNano())
		if err != nil { // another front-end has claimed it, or it expired: the index knows by now
			q.restore(entry{slot: e.slot, seq: current.seq})
			continue
		}
		attempts = append(attempts, attempt{
			message: Message{ID: makeID(e.slot, current.nonce), State: next, Body: current.body},
			write:   q.begin(e.slot, current.seq, record{state: next, nonce: current.nonce}, current.body)})
	}
	for _, a := range attempts {
		seq, err := q.finish(ctx, a.write)
		switch {
		case err == nil:
			a.message.Receipt = Receipt(seq)
			found = append(found, a.message)
		case errors.Is(err, ErrReceiptMismatch), errors.Is(err, ErrMessageNotFound), errors.Is(err, errOvertaken):
			// Another front-end was faster; finish has looked what it made of the message.
		default:
			// Whether it is claimed is not known: the next who tries will see.
			q.restore(entry{slot: a.write.slot, seq: a.write.replace})
			failure = err
		}
	}
	return found, failure
}

func (q *Queue) restore(e entry) {
	q.mu.Lock()
	q.index.restore(e.slot, e.seq)
	q.mu.Unlock()
}

// Peek returns up to n visible messages without changing them. They carry no receipt that a caller may use.
func (q *Queue) Peek(ctx context.Context, n int, now time.Time) ([]Message, error) {
	return q.peek(ctx, n, now, now.UnixNano())
}

// PeekAll is Peek for hidden messages as well, in the order in which they become visible. It misses those that are being handed out
// at the moment.
func (q *Queue) PeekAll(ctx context.Context, n int, now time.Time) ([]Message, error) {
	return q.peek(ctx, n, now, math.MaxInt64)
}

// peek shows messages that are visible at until.
func (q *Queue) peek(ctx context.Context, n int, now time.Time, until int64) ([]Message, error) {
	if err := q.load(); err != nil {
		return nil, err
	}
	var entries []entry
	for {
		q.mu.Lock()
		entries = q.index.look(n, until, now.UnixNano())
		if i := slices.IndexFunc(entries, q.early); i >= 0 {
			entries = entries[:i]
		}
		done, progress, err := q.loading != loading, q.progress, q.loadErr
		q.mu.Unlock()
		if len(entries) >= n || done {
			if err != nil && len(entries) == 0 {
				return nil, err
			}
			break
		}
		select {
		case <-progress:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", ErrUnavailable, context.Cause(ctx))
		}
	}
	reads := make([]pending, len(entries))
	for i, e := range entries {
		reads[i] = q.store.client.last(q.stream, q.subject(e.slot))
	}
	found := make([]Message, 0, len(entries))
	var failure error
	for i, e := range entries {
		current, err := q.read(ctx, reads[i], e)
		if err != nil {
			if !errors.Is(err, ErrMessageNotFound) {
				failure = err
			}
			continue
		}
		s, _, err := Next(&current.state, Event{Kind: Look}, now.UnixNano())
		if until > now.UnixNano() && errors.Is(err, ErrNotVisible) {
			s, err = current.state, nil
		}
		if err == nil {
			found = append(found, Message{ID: makeID(e.slot, current.nonce), State: s, Receipt: Receipt(current.seq), Body: current.body})
		}
	}
	if len(found) == 0 {
		return nil, failure
	}
	return found, nil
}

// Update gives a message a new visibility timeout from now on and, unless body is nil, a new body. The answer carries
// the new receipt.
func (q *Queue) Update(ctx context.Context, id ID, receipt Receipt, body []byte, visibility time.Duration, now time.Time) (Message, error) {
	current, err := q.current(ctx, id, receipt)
	if err != nil {
		return Message{}, err
	}
	next, _, err := Next(&current.state,
		Event{Kind: Change, Visibility: visibility, Current: current.seq == uint64(receipt)}, now.UnixNano())
	if err != nil {
		return Message{}, err
	}
	if body == nil {
		body = current.body
	}
	seq, err := q.change(ctx, id.slot(), uint64(receipt), record{state: next, nonce: id.nonce()}, body)
	if err != nil {
		return Message{}, err
	}
	return Message{ID: id, State: next, Receipt: Receipt(seq), Body: body}, q.store.sync(q.stream)
}

// current reads a message's record for the holder of a receipt.
func (q *Queue) current(ctx context.Context, id ID, receipt Receipt) (stored, error) {
	p := q.store.client.last(q.stream, q.subject(id.slot()))
	current, err := q.read(ctx, p, entry{slot: id.slot(), seq: uint64(receipt)})
	if err == nil && current.nonce != id.nonce() { // the slot has another message by now
		return stored{}, ErrMessageNotFound
	}
	return current, err
}

// Delete deletes a message.
func (q *Queue) Delete(ctx context.Context, id ID, receipt Receipt, now time.Time) error {
	q.mu.Lock()
	e := q.index.get(id.slot())
	known := e != nil && e.seq == uint64(receipt) // who has the receipt of a slot's record holds its message
	expired := known && e.expires != Never && e.expires <= now.UnixNano()
	q.mu.Unlock()
	if expired {
		return ErrMessageNotFound
	}
	if !known { // the record tells a stale receipt from a message that is gone
		current, err := q.current(ctx, id, receipt)
		if err != nil {
			return err
		}
		if _, _, err = Next(&current.state, Event{Kind: Remove, Current: current.seq == uint64(receipt)}, now.UnixNano()); err != nil {
			return err
		}
	}
	if _, err := q.change(ctx, id.slot(), uint64(receipt), record{kind: recordTombstone, nonce: id.nonce()}, nil); err != nil {
		return err
	}
	q.maybeTrim()
	return q.store.sync(q.stream)
}

// Clear deletes all messages, also those that are hidden. What is put at the same time may stay or go.
func (q *Queue) Clear(ctx context.Context) error {
	if q.streamless.Load() {
		if q.store.queueGone(ctx, q) {
			return ErrQueueNotFound
		}
		return nil
	}
	// The marker makes everything before it void, for all front-ends and for good. Purging only gives the space back.
	m := &nats.Msg{Subject: q.prefix + "cleared",
		Header: nats.Header{headerRecord: {(&record{kind: recordCleared, writer: q.store.client.newWriter()}).encode()}}}
	p := q.store.client.send(m)
	seq, err := p.sequence(ctx)
	if err != nil {
		if errors.Is(err, errNoStream) {
			err = q.vanished(ctx)
		}
		return err
	}
	q.clearIndex(seq)
	if err := q.store.purge(ctx, q.stream, seq); err != nil {
		q.store.log.Warn("a cleared queue's messages could not be purged", "account", q.Account, "queue", q.Name, "err", err)
	}
	return q.store.sync(q.stream)
}

// ApproximateCount is how many messages the queue has, visible or not.
func (q *Queue) ApproximateCount(ctx context.Context, now time.Time) (int, error) {
	if err := q.load(); err != nil {
		return 0, err
	}
	q.mu.Lock()
	if q.loading != loading {
		q.index.sweep(now.UnixNano(), int64(sweepPause))
		n, err := q.index.live, q.loadErr
		q.mu.Unlock()
		q.maybeTrim()
		return n, err
	}
	q.mu.Unlock()
	info, err := q.store.js.Stream(ctx, q.stream) // includes free slots: an approximation, as the name says
	if err != nil {
		return 0, q.vanishedOr(ctx, err)
	}
	return int(info.CachedInfo().State.Msgs), nil
}

// apply takes a record over into the index.
func (q *Queue) apply(at slot, seq uint64, r *record) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.applyLocked(at, seq, r)
}

func (q *Queue) applyLocked(at slot, seq uint64, r *record) {
	switch {
	case seq < q.cleared:
	case r.kind == recordTombstone:
		q.index.applyFree(at, seq)
	default:
		q.index.apply(at, seq, &r.state)
	}
}

// doubt is called where the outcome of a change is not known and nobody will tell: the index is read again.
func (q *Queue) doubt() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.store.shared && q.loading == loaded {
		q.loading = unloaded
	}
}

// clearIndex takes over that everything before seq is void.
func (q *Queue) clearIndex(seq uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if seq > q.cleared {
		q.cleared = seq
		q.index.clear(seq)
	}
}

// vanished finds out why the stream does not answer: ErrQueueNotFound if the queue was deleted.
func (q *Queue) vanished(ctx context.Context) error {
	if q.store.queueGone(ctx, q) {
		return ErrQueueNotFound
	}
	return fmt.Errorf("%w: the stream of queue %s has no leader", ErrUnavailable, q.Name)
}

// vanishedOr is vanished if err says that there is no stream.
func (q *Queue) vanishedOr(ctx context.Context, err error) error {
	if isNoStream(err) {
		return q.vanished(ctx)
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// close ends what runs in the background for the queue.
func (q *Queue) close(gone bool) {
	q.mu.Lock()
	q.gone = q.gone || gone
	stop := q.stop
	q.stop = nil
	q.loading = loaded
	q.loadErr = ErrQueueNotFound
	if gone {
		q.index = newIndex()
	}
	close(q.progress)
	q.progress = make(chan struct{})
	q.mu.Unlock()
	if stop != nil {
		stop()
	}
}

// logger for what happens in the background of this queue.
func (q *Queue) logger() *slog.Logger {
	return q.store.log.With("account", q.Account, "queue", q.Name)
}
