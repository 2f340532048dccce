package replog

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	// aheadLimit is the size of the messages that are kept while an earlier one is missing, in bytes. Others are read from
	// the stream later.
	aheadLimit = 32 << 20
	// gapPatience is the time that the follower waits for a missing message to arrive before it reads it from the stream.
	gapPatience = 2 * time.Millisecond
	// pollInterval is the interval of reading the stream while nothing arrives.
	pollInterval = 500 * time.Millisecond
)

// Follow starts to process the stream after p, which is the zero Position for a node without state. It calls apply with
// each valid record, and with the position after it, in order and one at a time. apply may keep the payload and must
// not modify it. It must not call methods of the log. If it returns an error, the log stops with ErrApply; after an
// ErrLater, it offers the record again, and calls that wait fail with ErrUnavailable meanwhile.
//
// Follow returns at once; Barrier waits until the node has caught up. It must be called once.
func (l *Log) Follow(p Position, apply func(payload []byte, p Position) error) error {
	l.mu.Lock()
	if l.next != 0 || l.closed {
		l.mu.Unlock()
		return errors.New("replog: Follow was called before")
	}
	// What came after the last valid record had no effect. It is processed again, since it may not be in the stream any
	// more: the position does not say which messages it was.
	p.Seq, p.Log, p.Resume = p.Last, p.Last, min(p.Resume, p.Last)
	l.apply, l.pos, l.next = apply, p, p.Resume+1
	l.verified.open(p)
	l.stats.position(p)
	l.mu.Unlock()
	// First the subscription, then the first read of the stream: what is stored between them arrives in one way or both.
	if err := l.subscribe(); err != nil {
		return fmt.Errorf("replog: %w", err)
	}
	l.running.Add(1)
	l.spawn(l.run)
	l.look()
	return nil
}

// subscribe begins to receive acknowledgements, and what other nodes do.
func (l *Log) subscribe() error {
	if l.config.Store != nil {
		return nil
	}
	inbox := l.inbox()
	l.replies, l.acks = inbox+".", make(chan *nats.Msg, 64)
	err := l.servers.receive(inbox+".*", l.acks)
	if err == nil {
		err = l.servers.subscribe(l.followSubject()+".>", l.republished)
	}
	if err == nil {
		err = l.servers.subscribe(l.turnSubject(), l.turnRequested)
	}
	if err != nil {
		return errors.Join(err, l.servers.unsubscribe())
	}
	return nil
}

// republished receives a message from the stream's leader.
func (l *Log) republished(m *nats.Msg) {
	seq, err := strconv.ParseUint(m.Header.Get(headerSequence), 10, 64)
	if err == nil && seq > 0 {
		l.offer(seq, m.Data)
	}
}

// offer processes a message, and those after it that have arrived before. It returns the number of processed messages.
func (l *Log) offer(seq uint64, data []byte) (processed int) {
	l.stats.hear(seq)
	round := l.verified.current() // before the lock, which may take long
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.arrived != round {
		clear(l.ahead)
		l.aheadLen, l.arrived = 0, round
	}
	switch {
	case l.failed != nil || l.next == 0:
		return 0
	case seq < l.next:
		l.compareLocked(seq, data)
		return 0
	case seq > l.next:
		// What finds no room here is read from the stream later.
		if l.ahead[seq] == nil && l.aheadLen+len(data) <= aheadLimit {
			l.ahead[seq] = data
			l.aheadLen += len(data)
		}
		l.wakeUp()
		return 0
	}
	for data != nil {
		if !l.processLocked(l.next, data) {
			break
		}
		processed++
		data = l.ahead[l.next]
		if data != nil {
			delete(l.ahead, l.next)
			l.aheadLen -= len(data)
		}
	}
	if processed > 0 {
		l.stats.position(l.pos)
		l.releaseReadsLocked()
	}
	if len(l.ahead) > 0 {
		l.wakeUp()
	}
	return processed
}

// compareLocked stops the log if a message is not the one with its sequence that this node has processed: then the
// stream has lost messages. The chain of the records alone does not show that if only marks, parts and records without
// effect were lost: this node would pass over the valid records that have their sequences now.
func (l *Log) compareLocked(seq uint64, data []byte) {
	known := l.verified.sum(seq)
	if known.seq != seq || len(data) < headerSize || known.sum == sumOf(data) {
		return
	}
	if _, _, err := decode(data); errors.Is(err, errSum) { // damaged on its way
		return
	}
	l.failLocked(fmt.Errorf("%w: the stream has another message %d than this node has processed", ErrDiverged, seq))
}

// processLocked processes the next message. It returns false if the message cannot be used: then the follower reads it
// from the stream again, or the log has failed.
func (l *Log) processLocked(seq uint64, data []byte) bool {
	h, payload, err := decode(data)
	if errors.Is(err, errSum) {
		l.stats.damaged.Add(1)
		l.config.Log.Error("a message of the log is damaged; reading another copy", "seq", seq)
		return false
	}
	if err != nil {
		l.failLocked(fmt.Errorf("message %d: %w", seq, err))
		return false
	}
	if base := l.verified.base; base.seq == seq && base.sum != sumOf(data) && seq > 0 && l.compares() {
		l.failLocked(fmt.Errorf("%w: the stream has another message %d than this node has applied", ErrDiverged, seq))
		return false
	}
	if !l.verified.begin(seq, sumOf(data), l.arrived) {
		l.unsettled = true // it is read again
		l.look()
		return false
	}
	switch h.kind {
	case kindPart:
		l.addPartLocked(seq, h, payload)
	case kindRecord:
		err := l.recordLocked(seq, h, data, payload)
		if errors.Is(err, errDoubt) {
			l.unsettled = true
			l.look()
			return false
		}
		if l.unsettled = errors.Is(err, errUnsettled); l.unsettled {
			l.stats.note(err)
			if l.current != nil { // its caller must not wait for the disk
				l.current.resolve(fmt.Errorf("%w: %w", ErrUnknown, err))
			}
			l.look()
			return false
		}
		if err != nil {
			l.failLocked(err)
			return false
		}
	case kindMark:
		l.markLocked(h)
	}
	l.expirePartsLocked(seq)
	// Only now: a message that cannot be used is still the next one, and the follower reads another copy of it.
	l.next = seq + 1
	l.verified.done.Store(seq)
	l.stats.stalled.Store(nil) // also if another message has come in place of the one without room
	l.pos.Seq = max(l.pos.Seq, seq)
	return true
}

// recordLocked decides whether a record is valid, and applies it if it is.
func (l *Log) recordLocked(seq uint64, h header, data, payload []byte) error {
	if l.config.Settle != nil && seq > l.pos.Seq && h.prev == l.pos.Last { // before the parts are taken
		if err := l.config.Settle(l.stream); err != nil {
			return fmt.Errorf("%w: message %d: %w", errUnsettled, seq, err)
		}
	}
	if l.doubtfulLocked(seq, h) {
		return errDoubt
	}
	// Also for records before the restart: their parts must not stay in memory.
	parts, before := l.parts[h.writer], l.pos.Log
	payload, complete := l.takePartsLocked(h, payload)
	if seq <= l.pos.Seq {
		return nil // before a restart
	}
	// Invalid records count too: the stream compares the expected sequence with its last record of any kind.
	l.pos.Log = seq
	valid := complete && h.prev == l.pos.Last && h.chain == l.pos.Chain
	// The right predecessor by its sequence, with other content: this node has another history than the writer. Where the
	// stream can be asked, it was, and has that of this node; then the record has no effect.
	if complete && h.prev == l.pos.Last && !valid {
		if !l.compares() {
			return fmt.Errorf("%w: message %d follows another record %d", ErrDiverged, seq, h.prev)
		}
		l.config.Log.Error("a record follows another history than the log has, and is ignored: the stream has lost its end, "+
			"and the node that wrote it has not noticed yet", "seq", seq)
	}
	if valid {
		p := l.pos
		p.Seq, p.Last, p.Chain, p.Resume = seq, seq, sumOf(data), l.resumeLocked(seq)
		// The position moves only after apply, so that no waiting call sees a record as processed that is not visible.
		err := l.apply(payload, p)
		if errors.Is(err, ErrLater) {
			// As if the message had not arrived: it is read again, and needs its parts then.
			if l.pos.Log = before; parts != nil {
				l.parts[h.writer] = parts
			}
			err = fmt.Errorf("%w: message %d: %w", errUnsettled, seq, err)
			l.stats.stalled.Store(&err)
			return err
		}
		if err != nil {
			return fmt.Errorf("%w: message %d: %w", ErrApply, seq, err)
		}
		l.pos = p
		l.verified.applied(seq, h.writer == l.writer)
		l.stats.applied.Add(1)
		l.turns.appended(seq, h.writer)
	}
	if a := l.current; a != nil {
		switch {
		case h.writer == l.writer && h.counter == a.counter:
			if valid {
				a.resolve(nil)
			} else {
				a.resolve(ErrConflict)
			}
		// Another record took the place: the one of this node names prev, and can never become valid.
		case valid:
			a.resolve(ErrConflict)
		}
	}
	return nil
}

// errUnsettled means that Config.Settle has failed, or apply with ErrLater, so that a record is not applied yet.
var errUnsettled = errors.New("a record cannot be applied yet")

// behind reports whether this node has heard of messages that it has not processed.
func (l *Log) behind() bool {
	next, ok := l.state()
	return ok && next <= l.stats.heard.Load()
}

// run fills gaps until Close.
func (l *Log) run() {
	defer l.running.Done()
	poll := l.now().Add(pollInterval)
	for {
		_, why := waitFor(l, poll.Sub(l.now()), l.wake, nil)
		switch why {
		case byClose:
			return
		case byTime:
			poll = l.now().Add(pollInterval)
			l.probe()
			l.recheck()
		case byMessage:
			l.pause(gapPatience)
			if !l.mustLook.Swap(false) && !l.behind() {
				continue // it has arrived
			}
		}
		l.fill()
	}
}

// state returns the sequence of the next message, and whether the log still follows.
func (l *Log) state() (next uint64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.next, l.failed == nil
}

// takeUnsettled reports whether the next message was read since the last call and could not be applied yet.
func (l *Log) takeUnsettled() (unsettled bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	unsettled, l.unsettled = l.unsettled, false
	return unsettled
}

// fill reads the stream from the next message on until it has everything that it has heard of.
func (l *Log) fill() {
	backoff := gapPatience
	for attempt := 0; ; attempt++ {
		next, ok := l.state()
		if !ok {
			return
		}
		l.takeUnsettled()
		if l.verified.doubts() && l.verify() != nil { // until then the record would be refused again
			if !l.pause(backoff) {
				return
			}
			backoff = min(2*backoff, 200*time.Millisecond)
			continue
		}
		n, err := l.fetch(next)
		// A replica may lag, so its silence proves nothing; the leader decides whether the message is lost. Not for a
		// message that was just read and waits for Settle or for room: it is there. One that was there before may have been
		// cut off since.
		if n == 0 && err == nil && attempt >= 3 && !l.takeUnsettled() {
			n, err = l.fetchFromLeader(next)
		}
		after, ok := l.state()
		switch {
		case !ok:
			return
		case after > next:
			backoff, attempt = gapPatience, 0
			if n > 0 {
				continue // there may be more
			}
		}
		if after > l.stats.heard.Load() {
			return
		}
		if err != nil {
			l.stats.note(err)
		}
		if !l.pause(backoff) {
			return
		}
		backoff = min(2*backoff, 200*time.Millisecond)
	}
}
