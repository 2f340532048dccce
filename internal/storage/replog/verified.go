package replog

import (
	"fmt"
	"sync"
	"sync/atomic"
)

// Heads is what the leader of a stream has in place of some messages.
type Heads struct {
	// Term is the leader's term, which a majority has confirmed; 0 if there are no terms.
	Term uint64
	// First and Last are the sequences of the first and the last message of the stream.
	First, Last uint64
	// Sums has the first eight bytes of each message, as a number, in the order of their sequences; 0 for a message that
	// the leader does not have or cannot read.
	Sums []uint64
}

// sumsKept is the number of messages of which a log knows the checksum.
const sumsKept = 256

// messageSum is the checksum of a message.
type messageSum struct{ seq, sum uint64 }

// verified is up to where a log was compared with its stream. Its lock is not that of the log, which is held while
// apply waits for a checkpoint, and that for [Log.Sync]. Log.mu may be held when mu is taken.
type verified struct {
	// done is the last message that was processed to the end: another one may come in place of a later one.
	done  atomic.Uint64
	mu    sync.Mutex           // guards the rest
	sums  [sumsKept]messageSum // of the last messages that were processed, or are
	last  uint64               // the latest of those
	base  messageSum           // the last valid record when the log was opened
	valid uint64               // the last valid record
	term  uint64
	known bool   // a comparison was made
	upTo  uint64 // the last message that was compared
	// round counts the comparisons. A message that arrived before the last one began is read again, since it may be of the
	// time before the leader of now.
	round uint64
	// doubt is a record that does not fit to this node's history, 0 for none: it is processed after the next comparison.
	// examined is the last one of those.
	doubt, examined uint64
	// own is set while a record of this node is applied without a comparison after it.
	own bool
}

// sum returns the checksum of a message that was processed; it has another sequence if that is not known.
func (v *verified) sum(seq uint64) messageSum {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.sums[seq%sumsKept]
}

// begin notes the checksum of a message that is about to be processed. It returns false if the message arrived before
// the last comparison.
func (v *verified) begin(seq, sum, round uint64) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if round != v.round {
		return false
	}
	v.sums[seq%sumsKept], v.last = messageSum{seq, sum}, max(v.last, seq)
	return true
}

// open notes where processing begins.
func (v *verified) open(p Position) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.base, v.last, v.valid = messageSum{p.Last, p.Chain}, p.Last, p.Last
	v.done.Store(p.Last)
	v.sums[p.Last%sumsKept] = v.base
}

func (v *verified) current() uint64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.round
}

func (v *verified) doubts() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.doubt != 0
}

// applied notes a valid record.
func (v *verified) applied(seq uint64, own bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.valid, v.own = seq, v.own || own
}

// differ returns an error if the stream has lost a message. from is the sequence of the first one of the sums.
func (h *Heads) differ(from uint64, s messageSum) error {
	switch i := s.seq - from; {
	case s.seq < h.First: // it was cut off
	case s.seq > h.Last:
		return fmt.Errorf("%w: the stream ends with message %d, and this node has processed message %d: the stream has "+
			"lost its end", ErrDiverged, h.Last, s.seq)
	case i < uint64(len(h.Sums)) && h.Sums[i] != 0 && h.Sums[i] != s.sum:
		return fmt.Errorf("%w: the stream has another message %d than this node has processed: the stream has lost its "+
			"end", ErrDiverged, s.seq)
	}
	return nil
}
