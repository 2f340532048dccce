package replog

import (
	"errors"
	"fmt"
)

// aheadLimit is the size of the messages that are kept while an earlier one is missing, in bytes. Others are read from
// the stream later.
const aheadLimit = 32 << 20

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
			for _, a := range l.pending { // their callers must not wait for the disk
				a.resolve(fmt.Errorf("%w: %w", ErrUnknown, err))
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
	l.refuteLocked()
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
	if complete && h.prev == l.pos.Last && !valid && !h.guessed {
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
		at := p
		at.At = h.at
		err := l.apply(payload, at)
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
	if h.writer == l.writer {
		l.foundLocked(seq, h, valid)
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

// releaseReadsLocked ends the waits of awaitProcessed for messages that were processed.
func (l *Log) releaseReadsLocked() {
	for m, seq := range l.reads {
		if l.next > seq {
			m.pass()
		}
	}
}

// markLocked notes that a mark was processed.
func (l *Log) markLocked(h header) {
	if m := l.marks[h.counter]; h.writer == l.writer && m != nil {
		m.pass()
	}
}
