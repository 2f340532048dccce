package replog

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

// JetStream promises that what a stream has acknowledged stays. If a majority of its servers loses the end of the
// stream all the same (their disks are restored from a copy, or damaged), other messages get the sequences of the lost
// ones. A node that has processed the lost ones, and does not receive those that have their sequences now, would go on
// alone: for it, the records of the others are not valid, and its own ones are, though for itself only.
//
// So a node compares what it has processed with what the leader has. A stream loses its end only together with its
// leader, so this is done once in a term: before the first read and the first acknowledgement of that term, before what
// was processed becomes durable or part of a snapshot, and when a record does not fit to the history of this node.

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

// comparedAtOnce is the number of the last messages that are compared. A node learns of another leader within
// milliseconds of the election, so what it has processed in between is less; and each one is read from a disk.
const comparedAtOnce = 64

// errUnverified means that it is not known whether the stream has what this node has processed.
var errUnverified = errors.New("replog: no leader says whether the stream has what this node has processed")

// sumsKept is the number of messages of which a log knows the checksum.
const sumsKept = 256

// messageSum is the checksum of a message.
type messageSum struct{ seq, sum uint64 }

// verified is up to where a log was compared with its stream. Its lock is not that of the log, which is held while apply
// waits for a checkpoint, and that for [Log.Sync]. Log.mu may be held when mu is taken.
type verified struct {
	done  atomic.Uint64        // the last message that was processed to the end: another one may come in place of a later one
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

// compares reports whether the stream could lose its end without this node.
func (l *Log) compares() bool { return l.config.Term != nil }

// certain reports whether the stream is known to have what this node has processed. term is that of a read, 0 to ask
// for it.
func (l *Log) certain(term uint64) bool {
	if !l.compares() {
		return true
	}
	if term == 0 {
		term = l.term()
	}
	v := &l.verified
	v.mu.Lock()
	defer v.mu.Unlock()
	sure := v.known && v.doubt == 0 && v.term == term
	v.own = v.own && !sure
	return sure
}

// term returns the term of the stream's leader, as the server of this node knows it, 0 if that cannot be found out.
func (l *Log) term() uint64 {
	term, member := l.config.Term(l.stream)
	if member || l.config.End == nil {
		return term
	}
	ctx, cancel := l.within(l.life, endTimeout)
	defer cancel()
	_, term, err := l.config.End(ctx, l.stream)
	if err != nil {
		return 0
	}
	return term
}

// assure returns nil once the stream is known to have what this node has processed. Errors: errUnverified after the
// deadline, and those after which a log no longer follows.
func (l *Log) assure(deadline time.Time) error {
	for {
		if l.certain(0) {
			return l.Err()
		}
		why := l.verify()
		if err := l.Err(); err != nil || why == nil {
			return err
		}
		if !l.now().Before(deadline) || !l.pause(retryPause) {
			return fmt.Errorf("%w: %w", errUnverified, why)
		}
	}
}

// verify compares what this node has processed since the last comparison with what the leader has, and stops the log if
// they differ.
func (l *Log) verify() error {
	err := l.compare()
	if errors.Is(err, ErrDiverged) || errors.Is(err, ErrPurged) {
		l.fail(err)
	}
	return err
}

// compare is verify without the end of the log, which takes its lock.
func (l *Log) compare() error {
	v := &l.verified
	v.mu.Lock()
	v.round++
	to, done, doubt, valid := v.last, v.done.Load(), v.doubt, v.valid
	known := make([]messageSum, 0, 8)
	for seq := max(v.upTo, to+1-min(to+1, comparedAtOnce)); seq <= to; seq++ {
		if s := v.sums[seq%sumsKept]; s.seq == seq && seq > 0 {
			known = append(known, s)
		}
	}
	v.mu.Unlock()
	from, last := to, to
	if len(known) > 0 {
		from, last = known[0].seq, known[len(known)-1].seq
	}
	heads, err := l.heads(from, last)
	if err != nil {
		return err
	}
	for _, s := range known {
		if err := heads.differ(from, s); err != nil {
			return err
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	// A cut leaves the last valid record of every node that is not too far behind. Without it nothing can be said.
	if valid > 0 && valid < heads.First {
		if v.valid > valid { // it has caught up meanwhile, and compares again
			return errUnverified
		}
		return fmt.Errorf("%w: message %d is the last record that this node has applied, the first one is %d", ErrPurged,
			valid, heads.First)
	}
	v.term, v.known, v.upTo, v.own = heads.Term, true, max(v.upTo, done), false
	if doubt != 0 && v.doubt == doubt {
		v.doubt, v.examined = 0, doubt
		l.look()
	}
	return nil
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

// heads asks the leader for the messages of a range.
func (l *Log) heads(from, to uint64) (h Heads, err error) {
	if l.config.Heads != nil {
		ctx, cancel := l.within(l.life, fetchTimeout)
		defer cancel()
		h, err = l.config.Heads(ctx, l.stream, from, to)
		if err != nil && !errors.Is(err, nats.ErrNoResponders) || h.Sums != nil {
			return h, err
		}
	}
	// Servers in other processes, and nodes of an earlier release or that just start, do not know the question. What they
	// answer to others is not confirmed by a majority, so silence of a leader proves nothing.
	if h.Term == 0 {
		h.Term, _ = l.config.Term(l.stream)
	}
	h.First, h.Last = 1, to
	for seq := from; seq <= to; seq++ {
		sum := uint64(0)
		if seq > 0 && seq+headsByMessage > to {
			found, data, err := l.servers.message(l.stream, seq)
			if err != nil {
				return h, fmt.Errorf("%w: %w", errUnverified, err)
			}
			if found == seq && len(data) >= headerSize {
				sum = sumOf(data)
			}
		}
		h.Sums = append(h.Sums, sum)
	}
	return h, nil
}

// headsByMessage is the number of messages that are compared one by one with those of a server in another process.
const headsByMessage = 16

// has reports whether the stream has the last valid record of a position.
func (l *Log) has(p Position) (bool, error) {
	if !l.compares() || p.Last == 0 {
		return true, nil
	}
	heads, err := l.heads(p.Last, p.Last)
	if err != nil {
		return false, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return p.Last >= heads.First && heads.differ(p.Last, messageSum{p.Last, p.Chain}) == nil, nil
}

// doubtfulLocked reports whether a record shows that this node or its writer has another history than the stream, and
// notes it. The predecessor that the record names was valid for its writer; if the histories are the same, this node
// has it, too.
func (l *Log) doubtfulLocked(seq uint64, h header) bool {
	if !l.compares() || h.writer == l.writer || seq <= l.pos.Seq {
		return false
	}
	v := &l.verified
	v.mu.Lock()
	defer v.mu.Unlock()
	known := v.sums[h.prev%sumsKept]
	if h.prev == l.pos.Last {
		known = messageSum{h.prev, l.pos.Chain}
	}
	if seq == v.examined || h.prev <= l.pos.Last && (known.seq != h.prev || known.sum == h.chain) {
		return false
	}
	v.doubt = seq
	return true
}

// errDoubt means that a record is not processed before the stream was compared.
var errDoubt = errors.New("a record has another history")

// recheck compares in the background if that is due.
func (l *Log) recheck() {
	// A server in another process says nothing of elections.
	if l.compares() && (l.config.Heads == nil || !l.certainNow()) && l.rechecking.TryLock() {
		l.running.Add(1)
		l.spawn(func() {
			defer l.running.Done()
			defer l.rechecking.Unlock()
			_ = l.verify()
		})
	}
}

// certainNow is certain without a question to another server.
func (l *Log) certainNow() bool {
	term, member := l.config.Term(l.stream)
	return !member || l.certain(term)
}

// secure is called before what was processed becomes durable. Without a majority nothing can be compared; then only
// records of this node itself are in doubt, as nothing of others was received. It does not take the log's lock: see
// [verified].
func (l *Log) secure() error {
	if l.certain(0) {
		return nil
	}
	err := l.compare()
	if errors.Is(err, ErrDiverged) || errors.Is(err, ErrPurged) {
		l.spawn(func() { l.fail(err) })
		return err
	}
	v := &l.verified
	v.mu.Lock()
	defer v.mu.Unlock()
	if err != nil && v.own {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return nil
}
