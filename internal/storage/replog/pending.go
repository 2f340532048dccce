package replog

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
)

// Begin is Append without the wait: call [Pending.Wait] for each append that was begun. after is nil, or the last one
// that was begun: then the record is valid only after that one's, and prev is ignored. Only one goroutine may call
// Begin, and must not call Append meanwhile. The log needs payload until Wait has returned, or, if the append can be
// extended, until Begin has.
//
// Errors: those of Append. After one, there is nothing to wait for. ErrConflict means also that after has failed, or
// cannot be extended.
func (l *Log) Begin(after *Pending, prev uint64, payload []byte, notes map[string][]string) (*Pending, error) {
	if len(payload) > MaxRecord {
		return nil, fmt.Errorf("replog: a record of %d bytes is too long: the limit is %d", len(payload), MaxRecord)
	}
	if err := l.checkMajority(); err != nil {
		return nil, err
	}
	l.takeAcks()
	now := l.now()
	a := &Pending{log: l, notes: notes, began: now, deadline: now.Add(l.patience()), done: make(chan struct{}),
		first: make(chan struct{}, 1)}
	a.header = header{kind: kindRecord, writer: l.writer, counter: l.counter.Add(1), prev: prev, at: now.UnixNano()}
	if err := l.place(a, after, payload); err != nil {
		if after == nil && errors.Is(err, ErrConflict) {
			l.overtaken()
		}
		return nil, err
	}
	// These calls of Barrier began before the publish. If the record becomes valid, what was acknowledged before them
	// stands before it, so they need no round of their own; otherwise Wait makes one for them.
	a.reads = l.barriers.take()
	if a.extends {
		// A message that cannot be sent is sent again when it is the first one.
		a.begun = a.send() == nil
	}
	return a, nil
}

// place adds an append to those that are pending, if its predecessor is the last valid record, or pending.
func (l *Log) place(a, after *Pending, payload []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.next
	switch {
	case l.failed != nil:
		return l.failed
	case after != nil && after.resolved && after.err != nil:
		return ErrConflict
	case after != nil && !after.resolved:
		if after.seq == 0 {
			return ErrConflict
		}
		a.header.prev, a.header.chain, a.header.guessed = after.seq, after.sum, true
		at = after.seq + 1
	default:
		if after != nil {
			a.header.prev = after.seq
		}
		// Under the same lock as the comparison: from here on, what is processed decides the outcome.
		if l.pos.Last != a.header.prev || l.unresolvedLocked() != nil {
			return ErrConflict
		}
		a.header.chain = l.pos.Chain
	}
	if l.config.Store != nil || len(payload) > l.chunk {
		a.payload = payload // parts are published by Wait, when everything before the record is valid
		if len(payload) <= l.chunk {
			a.data, a.payload = encode(a.header, payload), nil
		}
	} else {
		a.data = encode(a.header, payload)
		a.seq, a.sum, a.extends = at, sumOf(a.data), true
	}
	l.pending = append(l.pending, a)
	l.promoteLocked()
	return nil
}

// unresolvedLocked returns the first append without an outcome.
func (l *Log) unresolvedLocked() *Pending {
	for _, a := range l.pending {
		if !a.resolved {
			return a
		}
	}
	return nil
}

// promoteLocked tells the first append without an outcome that it is.
func (l *Log) promoteLocked() {
	if a := l.unresolvedLocked(); a != nil && !a.leads {
		a.leads = true
		a.first <- struct{}{}
	}
}

// Extends reports whether another append can build on this one before its outcome is known: the record fits into one
// message, and nothing else is expected in the stream before it.
func (a *Pending) Extends() bool { return a.extends }

// Ahead reports whether this node may build appends on such without an outcome: all nodes understand that, and it is
// the one next to the stream's leader, as others would mostly be overtaken.
func (l *Log) Ahead() bool { return l.config.Ahead != nil && l.config.Ahead() && l.Leads() }

// Payload returns a copy of the payload that must not be modified; it is nil if the append cannot be extended.
func (a *Pending) Payload() []byte {
	if !a.extends {
		return nil
	}
	return a.data[headerSize:len(a.data):len(a.data)]
}

// Follows reports whether the state that ends with the record last, together with what was appended before a and by a,
// is the state after a: no other record came between. last was applied before the call.
func (a *Pending) Follows(last uint64) bool {
	a.log.mu.Lock()
	defer a.log.mu.Unlock()
	return !a.resolved || a.err == nil && last <= a.seq
}

// Place returns the sequence of the record after Wait has returned nil.
func (a *Pending) Place() uint64 {
	a.log.mu.Lock()
	defer a.log.mu.Unlock()
	return a.seq
}

// Wait returns the outcome; see [Log.Append] for the errors. It returns nil only after those before have succeeded.
func (a *Pending) Wait() error {
	l := a.log
	err := a.outcome()
	// Valid for this node is not yet valid for the others, if the stream has lost what came before; and the record that
	// was first may be a lost one.
	if err == nil || errors.Is(err, ErrConflict) {
		outcome := err
		if err = l.assure(a.deadline); errors.Is(err, errUnverified) {
			err = fmt.Errorf("%w: %w", ErrUnknown, err)
		}
		err = cmp.Or(err, outcome)
	}
	l.mu.Lock()
	l.pending = slices.DeleteFunc(l.pending, func(other *Pending) bool { return other == a })
	l.promoteLocked()
	l.mu.Unlock()
	switch {
	case err == nil:
		a.reads.finish(nil) // what was appended before they began stands before the record
		l.stats.append(l.now().Sub(a.began))
		l.available(nil)
	case errors.Is(err, ErrConflict):
		l.overtaken()
		l.mark(a.reads)
	default:
		l.available(err)
		l.mark(a.reads)
	}
	return err
}

// outcome waits until all appends before have an outcome, and then for its own one.
func (a *Pending) outcome() error {
	l := a.log
	for {
		_, why := waitFor(l, min(majorityPoll, a.deadline.Sub(l.now())), a.first, a.done)
		switch why {
		case byDone:
			return a.err
		case byMessage:
			return a.finish()
		case byClose:
			return a.undecided(nil)
		case byTime:
			if err := l.checkMajority(); err != nil {
				return a.undecided(err)
			}
			if !l.now().Before(a.deadline) {
				return a.undecided(nil)
			}
		}
	}
}

// undecided gives an append up, for a reason if its time is not over.
func (a *Pending) undecided(reason error) error {
	a.sent = a.sent || a.begun
	switch {
	// Only what was never sent is certain to have no effect. Otherwise a later answer could still make the record valid.
	case a.sent && reason != nil:
		return a.give(fmt.Errorf("%w: %w", ErrUnknown, reason))
	case a.sent:
		return a.give(ErrUnknown)
	case reason != nil:
		return a.give(reason)
	}
	return a.give(ErrUnavailable)
}

// give sets the outcome of an append that is given up, unless it has one, and that of all that was built on it: it has
// no effect if this one has none, and is unknown if this one is.
func (a *Pending) give(err error) error {
	l := a.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if a.resolved {
		return a.err
	}
	a.resolve(err)
	behind := false
	for _, other := range l.pending {
		if behind && !other.resolved {
			other.resolve(err)
		}
		behind = behind || other == a
	}
	return err
}

// foundLocked notes that a record of this node was processed.
func (l *Log) foundLocked(seq uint64, h header, valid bool) {
	for _, a := range l.pending {
		if a.header.counter != h.counter || a.resolved {
			continue
		}
		a.seen = true
		switch {
		case valid:
			a.seq = seq
			a.resolve(nil)
		// The place of its predecessor was known, and something else follows that, or its parts are missing. Whether a
		// guess may still come true is for refuteLocked to say.
		case !a.header.guessed:
			a.resolve(ErrConflict)
		}
	}
	l.promoteLocked()
}

// refuteLocked resolves the appends that can never become valid any more: the message at the place that they name was
// processed, and the last valid record is not the one that they name.
func (l *Log) refuteLocked() {
	if len(l.pending) == 0 {
		return
	}
	for _, a := range l.pending {
		if h := &a.header; l.pos.Seq >= h.prev && (l.pos.Last != h.prev || l.pos.Chain != h.chain) {
			a.resolve(ErrConflict)
		}
	}
	l.promoteLocked()
}

// send publishes the message of an append. The stream refuses it if there is a record after those that this node has
// processed, or, if its predecessor has no outcome yet, unless the last message stands where that one is expected.
func (a *Pending) send() error {
	l := a.log
	m := l.message(kindRecord, a.data, a.notes)
	l.mu.Lock()
	a.number, a.ack = l.published.Add(1), nil
	if a.header.guessed && !a.leads {
		m.Header[headerExpectLast] = []string{strconv.FormatUint(a.header.prev, 10)}
	} else {
		l.expectRecordLocked(m)
	}
	m.Reply = l.replies + strconv.FormatUint(a.number, 10)
	l.mu.Unlock()
	return l.servers.send(m)
}
