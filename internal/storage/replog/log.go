package replog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lazuli-storage/lazuli/internal/lazyregexp"
	"github.com/lazuli-storage/lazuli/internal/schedule"
)

// Config configures a Log.
type Config struct {
	// Conn is the connection to NATS. JetStream must be at least version 2.11 there. The log does not close it.
	Conn *nats.Conn
	// Name identifies the log in the cluster: lower-case letters, digits, hyphens.
	Name string
	// Replicas is the number of servers that keep the log; 0 means 1.
	Replicas int
	// Store stores a message in the stream, durably, and returns its sequence. It is for a server in this process that
	// no other node uses: the stream does not republish its messages. headers are as on the wire. Nil publishes messages.
	Store func(stream, subject string, headers, message []byte) (uint64, error)
	// InMemory keeps the stream in memory.
	InMemory bool
	// Node is the name of this node, for status and logs.
	Node string
	// Timeout is the time after which Append and Barrier give up without an answer of a majority; 0 means ten seconds.
	Timeout time.Duration
	// Majority reports whether this node is connected to a majority of the servers. While it is not, calls fail at once
	// instead of after Timeout. Nil means unknown.
	Majority func() bool
	// End returns the sequence of the last message of a stream, or of a later one: it includes every message that had been
	// acknowledged before the call. term is that of the leader, 0 if there are no terms. Nil, or an error, makes Barrier
	// write a mark.
	End func(ctx context.Context, stream string) (seq, term uint64, err error)
	// Term returns a number that changes when the stream has another leader, or when it could have got one without this
	// node; it never is 0. member is false if the server of this node does not know: then End says it. Nil means that the
	// stream cannot lose its end without this node: see verify.go.
	Term func(stream string) (term uint64, member bool)
	// Heads asks the leader of a stream for its messages of a range. Nil reads the messages.
	Heads func(ctx context.Context, stream string, from, to uint64) (Heads, error)
	// Settle is called after the stream was opened, and before each record is applied, for a server that makes something
	// durable only then. After an error the record is applied later, when Settle succeeds. Nil does nothing.
	Settle func(stream string) error
	// Sync makes durable what the server has stored in a stream, for a server that acknowledges before it syncs; nil does
	// nothing. See [Log.Sync].
	Sync func(stream string) error
	// Cut returns a sequence up to which the stream can be purged if messages from one on must stay, for a server that can
	// be purged at some of them only; 0 for none. See [Log.Trim]. Nil means all.
	Cut func(stream string, stay uint64) (uint64, error)
	// Failed returns why the stream cannot be written at the moment, nil if it can: calls fail at once with
	// [ErrUnavailable] and the reason. Suspect is called after a publish without success, and finds out. Nil means
	// unknown.
	Failed  func() error
	Suspect func(stream string) error
	// Leads reports whether this node is the one that does what one node is enough for; see [Log.Leads]. Nil means always.
	Leads func(stream string) bool
	// Log receives changes of availability; nil means slog.Default().
	Log *slog.Logger

	seeded bool // Open creates a seeded log

	// For simulations; see schedule.go.
	schedule schedule.Schedule
	servers  servers
	chunk    int // largest payload of a message; 0 is what the server accepts
}

// Clustered reports whether the log is on nodes of a cluster, which all know of each other.
func (l *Log) Clustered() bool { return l.config.Majority != nil }

var nameRule = lazyregexp.New(`^[a-z0-9-]{1,64}$`)

func (c *Config) validate() error {
	switch {
	case c.Conn == nil && c.servers == nil:
		return errors.New("replog: Conn is missing")
	case !nameRule().MatchString(c.Name):
		return fmt.Errorf("replog: Name is %q: want lower-case letters, digits and hyphens", c.Name)
	case c.Replicas < 0 || c.Replicas > 5:
		return fmt.Errorf("replog: Replicas is %d: want 1 to 5", c.Replicas)
	}
	c.Replicas = max(c.Replicas, 1)
	if c.Timeout == 0 {
		c.Timeout = 10 * time.Second
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	c.Log = c.Log.With("log", c.Name)
	return nil
}

// metadataID is the key of the stream's metadata that holds the log's id.
const metadataID = "lazuli.log"

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
	timeout  atomic.Int64    // Config.Timeout
	endAfter atomic.Int64    // Unix nanoseconds before which Config.End is not called
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
	current  *appending
	marks    map[uint64]*passing // own ones, by counter
	reads    map[*passing]uint64 // by the sequence that they wait for
	failed   error
	closed   bool
	// unsettled is set after Settle or apply has failed for the next message, until takeUnsettled.
	unsettled bool

	verified verified

	appends   sync.Mutex // held by Append, one at a time; guards published and acks
	published uint64
	replies   string // prefix of the subjects of acknowledgements
	acks      chan *nats.Msg
	turns     turns
	probing   sync.Mutex // held while a mark is tried
	// rechecking is held while the stream is compared in the background.
	rechecking sync.Mutex
	barriers   barriers
	stats      stats
}

// Open opens a log, and creates it if it does not exist. It waits until ctx ends for servers that do not answer.
func Open(ctx context.Context, c Config) (*Log, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	l := &Log{
		config: c, servers: c.servers, stream: StreamOf(c.Name), wake: make(chan struct{}, 1), chunk: c.chunk,
		ahead: make(map[uint64][]byte), parts: make(map[uint64]*partSet), marks: make(map[uint64]*passing),
		reads: make(map[*passing]uint64),
	}
	l.timeout.Store(int64(c.Timeout))
	l.life, l.end = context.WithCancel(context.Background())
	if l.servers == nil {
		js, err := newJetStream(c.Conn)
		if err != nil {
			return nil, err
		}
		l.servers = js
	}
	l.writer = l.random()
	if err := l.create(ctx); err != nil {
		return nil, err
	}
	if c.Settle != nil { // before a view refers to the stream
		if err := c.Settle(l.stream); err != nil {
			return nil, fmt.Errorf("replog: stream %s: %w", l.stream, err)
		}
	}
	if l.chunk > 0 {
		return l, nil
	}
	// Room for the headers of JetStream, and of a republished message.
	l.chunk = int(min(c.Conn.MaxPayload(), 1<<20)) - headerSize - 4096
	if l.chunk < 32<<10 {
		return nil, fmt.Errorf("replog: the server accepts messages of at most %d bytes: set max_payload to 1MB",
			c.Conn.MaxPayload())
	}
	return l, nil
}

// StreamOf returns the name of the stream of a log.
func StreamOf(name string) string { return "LAZULI_LOG_" + name }

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

// create creates the stream, or reads the id of the existing one.
func (l *Log) create(ctx context.Context) error {
	config := jetstream.StreamConfig{
		Name:        l.stream,
		Description: "Lazuli: log of " + l.config.Name,
		Subjects:    []string{l.subject(kindRecord), l.subject(kindPart), l.subject(kindMark)},
		Replicas:    l.config.Replicas,
		AllowDirect: true,
		DenyDelete:  true,
		Metadata:    map[string]string{metadataID: strconv.FormatUint(l.random(), 36)},
	}
	if l.config.Store == nil {
		config.RePublish = l.republish()
	}
	if l.config.InMemory {
		config.Storage = jetstream.MemoryStorage
	}
	if l.config.seeded {
		config.Metadata[metadataSeeded] = "true"
	}
	// A request to a server that was just lost has no answer, the next one has it at once; a busy machine takes longer.
	for limit := time.Second; ; limit = min(2*limit, createTimeout) {
		err := l.createOnce(ctx, limit, config)
		if err == nil {
			return nil
		}
		if errors.As(err, new(permanent)) {
			return fmt.Errorf("replog: stream %s: %w", l.stream, err)
		}
		if !l.sleep(ctx, 200*time.Millisecond) { // the cluster may have no leader yet
			return fmt.Errorf("%w: stream %s: %w", ErrUnavailable, l.stream, err)
		}
	}
}

// permanent is an error of createOnce that does not go away.
type permanent struct{ error }

// createTimeout is the longest time limit of one attempt to open the stream.
const createTimeout = 8 * time.Second

func (l *Log) createOnce(ctx context.Context, limit time.Duration, config jetstream.StreamConfig) error {
	ctx, cancel := l.within(ctx, limit)
	defer cancel()
	info, err := l.servers.stream(ctx, l.stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		info, err = l.servers.create(ctx, config)
	}
	if err != nil {
		return err
	}
	found := info.Config
	l.found = info.State.LastSeq
	// From what the stream has, not from what was asked for: another node may have created it at the same time.
	l.id, l.seeded = found.Metadata[metadataID], found.Metadata[metadataSeeded] != ""
	switch {
	case l.id == "":
		return permanent{errors.New("the stream was not created by Lazuli")}
	case !found.AllowDirect:
		return permanent{errors.New("the stream's configuration was changed: it must allow direct reads")}
	}
	if found.RePublish == nil && l.config.Store == nil { // it was private until now
		found.RePublish = l.republish()
		if err := l.servers.update(ctx, found); err != nil {
			return err
		}
	}
	return l.addReplicas(ctx, found)
}

func (l *Log) republish() *jetstream.RePublish {
	return &jetstream.RePublish{Source: ">", Destination: l.followSubject() + ".>"}
}

// addReplicas gives an existing stream more replicas if the cluster has grown. It never takes replicas away.
func (l *Log) addReplicas(ctx context.Context, found jetstream.StreamConfig) error {
	if found.Replicas >= l.config.Replicas {
		return nil
	}
	found.Replicas = l.config.Replicas
	return l.servers.update(ctx, found)
}

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
	if l.current != nil {
		l.current.resolve(err)
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

// appending is an Append whose outcome is not known.
type appending struct {
	counter  uint64
	resolved bool // guarded by Log.mu
	done     chan struct{}
	err      error // set before done is closed
}

// resolve sets the outcome. Log.mu is held.
func (a *appending) resolve(err error) {
	if !a.resolved {
		a.resolved, a.err = true, err
		close(a.done)
	}
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
