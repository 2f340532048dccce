package replog

import (
	"errors"
	"fmt"
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

// comparedAtOnce is the number of the last messages that are compared. A node learns of another leader within
// milliseconds of the election, so what it has processed in between is less; and each one is read from a disk.
const comparedAtOnce = 64

// errUnverified means that it is not known whether the stream has what this node has processed.
var errUnverified = errors.New("replog: no leader says whether the stream has what this node has processed")

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
	ctx, cancel := l.within(l.life, fetchTimeout)
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

// Sync makes everything that this node has processed durable in the stream. A view of the log calls it before it
// becomes durable itself: otherwise a power failure could leave a view that is ahead of its log. It also makes sure
// that the stream has what this node has processed, if a majority answers.
func (l *Log) Sync() error {
	if err := l.secure(); err != nil {
		return err
	}
	if l.config.Sync == nil {
		return nil
	}
	return l.config.Sync(l.stream)
}
