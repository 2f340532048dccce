package mirror

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lazuli-storage/lazuli/internal/schedule"
	"github.com/lazuli-storage/lazuli/internal/storage/extent"
)

// Config configures a Mirror. All fields without a default are required.
type Config struct {
	// Connect opens a connection to NATS, which the Mirror closes. Its messages may have up to MaxMessage bytes.
	Connect func() (*nats.Conn, error)
	// Node is the name of this node, and Nodes are those of all nodes, this one included: letters, digits and hyphens.
	Node  string
	Nodes []string
	// Shard is the number of the shard whose content this is, from 0: the mirrors of a node's shards do not hear each
	// other.
	Shard int
	// Extents is the content of this node.
	Extents *extent.Store
	// Owner is the number of this node, which its extents have.
	Owner uint64
	// Gone reports whether the node with a number will never write again. Nil means that none is gone.
	Gone func(owner uint64) bool
	// Majority reports whether this node is connected to a majority of the nodes. While it is not, writers fail at once.
	// Nil means unknown.
	Majority func() bool
	// Voters returns the number of nodes of which a majority must have content before it is acknowledged: those of Nodes
	// that have joined. Nil stands for all.
	Voters func() int
	// Timeout is the time after which writers and readers give up without an answer; 0 means ten seconds.
	Timeout time.Duration
	// CatchUpEvery is the interval of asking the other nodes for what this node has missed; 0 means two seconds, negative
	// means never.
	CatchUpEvery time.Duration
	// BytesPerSecond limits the rate of catching up; 0 means 64 MiB, negative means no limit.
	BytesPerSecond int64
	// Log is for what a person should see; nil means slog.Default().
	Log      *slog.Logger
	listPage int // for tests; 0 is the constant

	// For simulations; see schedule.go.
	schedule schedule.Schedule
	network  network
	extents  extents
}

// MaxMessage is the size of the largest message, in bytes.
const MaxMessage = extent.MaxRecord + 64<<10

// Mirror copies the extents of this node to the other nodes, and theirs to this one. Its methods are safe for
// concurrent use.
type Mirror struct {
	config Config
	puts   *nats.Conn // of records and their acknowledgements
	asks   *nats.Conn // of questions
	network
	extents extents
	epoch   uint64 // of this process: what an earlier one has acknowledged without a sync may be lost
	// listPage is the constant of that name outside of tests.
	listPage int

	life context.Context
	end  context.CancelFunc
	done sync.WaitGroup

	mu     sync.Mutex // guards the rest
	tokens map[uint64]*sent
	token  uint64
	peers  []*peer // the other nodes; replaced, and never changed
	group  *Group  // nil before SetGroup
	held   held

	behind behind
}

var _ extent.Mirror = (*Mirror)(nil)

// need returns the number of peers that make a majority together with this node.
func (m *Mirror) need() int { return m.config.Voters() / 2 }

// Open starts to mirror. The caller closes the Mirror before the extents.
func Open(c Config) (*Mirror, error) {
	c.Timeout = cmp.Or(c.Timeout, 10*time.Second)
	c.CatchUpEvery = cmp.Or(c.CatchUpEvery, 2*time.Second)
	c.BytesPerSecond = cmp.Or(c.BytesPerSecond, 64<<20)
	if c.Log == nil {
		c.Log = slog.Default()
	}
	m := &Mirror{config: c, listPage: cmp.Or(c.listPage, listPage), tokens: map[uint64]*sent{},
		held:    held{writers: map[*writer]bool{}},
		network: c.network, extents: c.extents}
	m.epoch = m.random()
	// A node may answer what an earlier process of this node has sent. No message of this process has its token: otherwise
	// that answer would count for content that the node does not have.
	m.token = m.random()
	for _, name := range c.Nodes {
		if name != c.Node {
			m.peers = append(m.peers, newPeer(name))
		}
	}
	if m.config.Voters == nil {
		m.config.Voters = func() int { return len(c.Nodes) }
	}
	m.life, m.end = context.WithCancel(context.Background())
	if m.network == nil {
		m.extents = c.Extents
		if err := m.connect(); err != nil {
			m.Close()
			return nil, fmt.Errorf("mirror: %w", err)
		}
		if err := c.Extents.Mirror(m, c.Owner); err != nil {
			m.Close()
			return nil, err
		}
	}
	m.start(m.expire)
	if c.CatchUpEvery > 0 {
		m.start(m.keepUp)
	}
	return m, nil
}

// connect opens the connections and answers the other nodes.
func (m *Mirror) connect() (err error) {
	if m.puts, err = m.config.Connect(); err != nil {
		return err
	}
	if m.asks, err = m.config.Connect(); err != nil {
		return err
	}
	m.network = connections{m.puts, m.asks}
	if m.puts.MaxPayload() < MaxMessage {
		return fmt.Errorf("the server accepts messages of at most %d bytes, and content needs %d", m.puts.MaxPayload(),
			MaxMessage)
	}
	for subject, handle := range map[string]nats.MsgHandler{m.putSubject(m.config.Node): m.servePut,
		m.ackSubject(m.config.Node, "*"): m.acknowledged} {
		if _, err := m.puts.Subscribe(subject, handle); err != nil {
			return err
		}
	}
	if _, err := m.asks.Subscribe(m.askSubject(m.config.Node), m.serveAsk); err != nil {
		return err
	}
	return errors.Join(m.puts.Flush(), m.asks.Flush())
}

// Close stops mirroring. Writers that wait fail.
func (m *Mirror) Close() {
	m.mu.Lock()
	m.end()
	m.mu.Unlock()
	for _, conn := range []*nats.Conn{m.puts, m.asks} {
		if conn != nil {
			conn.Close()
		}
	}
	m.done.Wait()
}

// enter keeps Close waiting until m.done.Done is called. It returns false if the Mirror was closed.
func (m *Mirror) enter() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.life.Err() != nil {
		return false
	}
	m.done.Add(1)
	return true
}

// start runs f until it returns, unless the Mirror was closed.
func (m *Mirror) start(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.life.Err() == nil {
		m.spawn(f)
	}
}

// subject is the beginning of the subjects of a node. Those of shard 0 are what they are without shards.
func (m *Mirror) subject(node string) string {
	if m.config.Shard == 0 {
		return "lazuli.content." + node
	}
	return fmt.Sprintf("lazuli.shard.%02d.%s", m.config.Shard, node)
}

func (m *Mirror) putSubject(node string) string        { return m.subject(node) + ".put" }
func (m *Mirror) ackSubject(node, token string) string { return m.subject(node) + ".ack." + token }
func (m *Mirror) askSubject(node string) string        { return m.subject(node) + ".ask" }

// window is the number of bytes that may be on their way to a peer.
const window = 16 << 20

// peer is another node.
type peer struct {
	name string
	out  atomic.Bool // it has left the group

	mu       sync.Mutex // guards the rest
	freed    chan struct{}
	inFlight int
	silent   bool // it does not answer: it gets a message at a time
}

func newPeer(name string) *peer { return &peer{name: name, freed: make(chan struct{})} }

// reserve makes room for a message, for which it waits. It returns false if the peer has no room.
func (m *Mirror) reserve(p *peer, n int, wait time.Duration) bool {
	deadline := m.now().Add(wait)
	for {
		p.mu.Lock()
		if p.inFlight == 0 || !p.silent && p.inFlight+n <= window {
			p.inFlight += n
			p.mu.Unlock()
			return true
		}
		silent, freed := p.silent, p.freed
		p.mu.Unlock()
		left := deadline.Sub(m.now())
		if silent || left <= 0 || m.life.Err() != nil {
			return false
		}
		m.await(left, freed)
	}
}

// release gives the room of a message back. answered says whether the peer has answered.
func (p *peer) release(n int, answered bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inFlight -= n
	p.silent = !answered
	close(p.freed)
	p.freed = make(chan struct{})
}

// heard notes that the peer is alive.
func (p *peer) heard() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.silent = false
}

// peer returns the peer of a name, nil if no node has it.
func (m *Mirror) peer(name string) *peer {
	for _, p := range m.all() {
		if p.name == name {
			return p
		}
	}
	return nil
}
