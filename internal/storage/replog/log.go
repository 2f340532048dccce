package replog

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

// Log is one replicated log. Its methods are safe for concurrent use.
type Log struct {
	config  Config
	servers servers
	stream  string
	id      string
	seeded  bool // the log begins with a snapshot, see Seed
	found   uint64
	writer  uint64
	chunk   int // largest payload of a message, in bytes

	counter  atomic.Uint64
	timeout  atomic.Int64 // Config.Timeout
	endAfter atomic.Int64 // Unix nanoseconds before which Config.End is not called
	// seenTerm is the term that a call saw last, turnedAt when one saw another one, in Unix nanoseconds; 0 for never.
	seenTerm atomic.Uint64
	turnedAt atomic.Int64
	life     context.Context // ends with Close
	end      context.CancelFunc
	wake     chan struct{} // the follower has a gap to fill
	running  sync.WaitGroup
	mustLook atomic.Bool // see look

	mu       sync.Mutex // guards the rest, and is held while apply runs
	apply    func(payload []byte, p Position) error
	pos      Position
	next     uint64            // sequence of the message to process next; 0 before Follow
	ahead    map[uint64][]byte // messages after next
	aheadLen int               // in bytes
	arrived  uint64            // verified.round when what is ahead, and is processed now, arrived
	parts    map[uint64]*partSet
	pending  []*Pending          // whose Wait has not returned, in their order
	marks    map[uint64]*passing // own ones, by counter
	reads    map[*passing]uint64 // by the sequence that they wait for
	failed   error
	closed   bool
	// unsettled is set after Settle or apply has failed for the next message, until takeUnsettled.
	unsettled bool

	verified verified

	appends   sync.Mutex // held by Append, one at a time
	published atomic.Uint64
	replies   string // prefix of the subjects of acknowledgements
	acks      chan *nats.Msg
	turns     turns
	probing   sync.Mutex // held while a mark is tried
	// rechecking is held while the stream is compared in the background.
	rechecking sync.Mutex
	barriers   barriers
	stats      stats
}

// StreamOf returns the name of the stream of a log.
func StreamOf(name string) string { return "LAZULI_LOG_" + name }

// StreamsOf returns the names of the streams of the log with a name: that of its records, and that of its snapshots.
func StreamsOf(name string) []string { return []string{StreamOf(name), snapshotStreamOf(name)} }

// subject returns the subject of messages of a kind.
func (l *Log) subject(k kind) string {
	switch k {
	case kindRecord:
		return "lazuli.log." + l.config.Name + ".record"
	case kindPart:
		return "lazuli.log." + l.config.Name + ".part"
	default:
		return "lazuli.log." + l.config.Name + ".mark"
	}
}

// followSubject is the prefix of the subjects to which the stream's leader republishes.
func (l *Log) followSubject() string { return "lazuli.follow." + l.config.Name }

// ID identifies the log: another cluster's log has another id. A node must not follow a log whose id is not the one of
// its own state.
func (l *Log) ID() string { return l.id }

// Found returns the sequence of the last message that the stream had when the log was opened, 0 for none.
func (l *Log) Found() uint64 { return l.found }

// Leads reports whether this node is next to the stream's leader: it does the work that one node is enough for, and
// that would overtake itself on several. It is a hint: none or two nodes may lead for some seconds.
func (l *Log) Leads() bool { return l.config.Leads == nil || l.config.Leads(l.stream) }

// Name returns Config.Name.
func (l *Log) Name() string { return l.config.Name }

// Node returns Config.Node.
func (l *Log) Node() string { return l.config.Node }

// Err returns the error that ended following, nil while the log follows.
func (l *Log) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

// Close stops following. Calls that are waiting return ErrClosed. When Close returns, apply is not called any more.
func (l *Log) Close() {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return
	}
	l.closed = true
	if l.failed == nil {
		l.failLocked(ErrClosed)
	}
	// After failLocked, so that a call that waits gets ErrClosed. The lock is free before Wait, since the follower needs
	// it.
	l.end()
	l.mu.Unlock()
	_ = l.servers.unsubscribe()
	l.running.Wait()
}

// Position returns how far this node has processed the log.
func (l *Log) Position() Position {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pos
}

// At calls fn with the position of this node. No record is applied meanwhile.
func (l *Log) At(fn func(Position)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fn(l.pos)
}

// Logger returns Config.Log.
func (l *Log) Logger() *slog.Logger { return l.config.Log }

// fail ends following.
func (l *Log) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed == nil {
		l.failLocked(err)
	}
}

// failLocked ends following.
func (l *Log) failLocked(err error) {
	l.failed = err
	l.stats.fail(err)
	if !errors.Is(err, ErrClosed) {
		l.config.Log.Error("this node no longer follows the log", "err", err)
	}
	for _, a := range l.pending {
		a.resolve(err)
	}
	for _, m := range l.marks {
		m.pass()
	}
	for m := range l.reads {
		m.pass()
	}
	clear(l.ahead)
	l.aheadLen = 0
}

// wakeUp makes the follower read the stream if messages that this node has heard of do not arrive.
func (l *Log) wakeUp() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// look makes the follower read the stream, although this node has not heard of messages that it lacks.
func (l *Log) look() {
	l.mustLook.Store(true)
	l.wakeUp()
}

// passing is a mark, or the end of the stream, that was not processed.
type passing struct {
	passed bool // guarded by Log.mu
	done   chan struct{}
}

// pass ends the wait. Log.mu is held.
func (p *passing) pass() {
	if !p.passed {
		p.passed = true
		close(p.done)
	}
}

// partSet has the parts of a record that has not been processed.
type partSet struct {
	counter uint64
	first   uint64 // sequence of the first part
	list    map[uint32][]byte
}

// Pending is an append that was begun. The next one can build on it before its outcome is known: its record names the
// place at which the record of this one is expected, and the checksum of it. So it is valid exactly if this one is, and
// stands there: the content of the stream decides as for every record. Another record at that place, or a mark, makes
// everything invalid that was built on it.
//
// All of it is sent at once, in order. Only the first one without an outcome is sent again after a lost answer, and the
// others when it is their turn: until then a refusal proves nothing.
type Pending struct {
	log     *Log
	header  header
	payload []byte // with parts to publish; nil without
	data    []byte // its message; nil while parts must be published before
	notes   map[string][]string
	began   time.Time
	// deadline is the time from which the outcome counts as unknown.
	deadline time.Time
	reads    *batch
	extends  bool
	// begun is set while the message that Begin has sent is waited for; sent if a publish may have reached the stream.
	// The caller of Wait has both.
	begun, sent bool
	done        chan struct{} // closed when resolved
	err         error         // set before done is closed
	first       chan struct{} // gets a value when no earlier append is without an outcome

	// Log.mu guards the rest.
	seq      uint64 // where its record stands, or is expected; 0 if that cannot be said
	sum      uint64 // checksum of its message
	number   uint64 // of its last publish
	ack      *nats.Msg
	resolved bool
	seen     bool // a copy of its record was processed
	leads    bool // first has got its value
}

// Clustered reports whether the log is on nodes of a cluster, which all know of each other.
func (l *Log) Clustered() bool { return l.config.Majority != nil }

// resolve sets the outcome. Log.mu is held.
func (a *Pending) resolve(err error) {
	if !a.resolved {
		a.resolved, a.err = true, err
		close(a.done)
	}
}
