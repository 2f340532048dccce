package forward

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

// MaxBody is the size of the largest body of a request that is passed on by a node with data, in bytes, and that of the
// largest that a front-end keeps in memory. A node with data serves larger ones itself: their content goes to its
// extents and from there to the others, and would go over the network once more if the home took it.
const MaxBody = 256 << 10

// Config configures a Forwarder. All fields without a default are required.
type Config struct {
	// Connect opens a connection to NATS, which the Forwarder closes. Its messages may have up to 1 MiB.
	Connect func() (*nats.Conn, error)
	// Node is the name of this node.
	Node string
	// Services are the services, by name.
	Services map[string]Service
	// Leader returns the name of the node beside the leader of a log, "" if it is not known.
	Leader func(ctx context.Context, log string) (string, error)
	// Mark marks the context of a request of another node: it is served here. It is passed on once.
	Mark func(context.Context) context.Context
	// System reports whether a request with the context is one of the server itself, and AsSystem makes it one again at
	// the node that it is passed on to. Where they are nil, all requests are passed on as those of clients.
	System   func(context.Context) bool
	AsSystem func(context.Context) context.Context
	// Refuses reports that this node does not want to serve requests of other nodes. Nil means never.
	Refuses func() bool
	// Reads reports that this node serves reads, of which front-ends send it a share. Nil means always.
	Reads func() bool
	// Log is for what a person should see; nil means slog.Default().
	Log *slog.Logger

	// For tests: the time after which a silent node is asked, 0 is probeEvery; and that between two looks at what this
	// node serves, 0 is half of the other one.
	probe, look time.Duration
}

// Service is a service whose requests are passed on.
type Service struct {
	// Log is the name of the log to which the service appends.
	Log string
	// Handler serves the requests that other nodes pass on.
	Handler http.Handler
}

const (
	// refreshEvery is the age from which the home of a log is looked up again, when a request comes.
	refreshEvery = 100 * time.Millisecond
	// lookupTimeout bounds a look-up.
	lookupTimeout = time.Second
	// probeEvery is the time without a message from the home after which it is asked whether it is still at work.
	probeEvery = 500 * time.Millisecond
	// patience is the number of questions in a row without an answer after which the home counts as lost. It does not get
	// other requests after the first one.
	patience = 8
)

// Forwarder passes requests to the homes of logs, and serves those that other nodes pass on. It is safe for concurrent
// use.
type Forwarder struct {
	config   Config
	conn     *nats.Conn
	incoming *nats.Subscription // what other nodes send
	inbox    string             // prefix of the subjects of answers
	last     atomic.Uint64      // number of the last exchange that this node has begun
	opened   atomic.Bool
	tasks    chan task    // for a goroutine that waits
	idle     atomic.Int64 // goroutines that wait
	closed   chan struct{}
	telling  sync.WaitGroup // for announce

	mu      sync.Mutex           // guards the rest
	sent    map[string]*exchange // that this node has begun, by key
	served  map[string]*serving  // for other nodes, by key
	silent  map[string]bool      // nodes that do not answer
	holding int64                // bytes of the bodies in served
	closing bool                 // no more requests are taken
	ended   *sync.Cond           // served has got smaller

	places   sync.RWMutex // guards what follows
	services map[string]Service
	homes    map[string]*home // by log
}

// home is what is known of the home of a log.
type home struct {
	node     atomic.Pointer[string]
	at       atomic.Int64 // Unix nanoseconds of the last look-up
	looking  atomic.Bool
	outcomes [outcomes]atomic.Uint64
}

// outcome is what became of a request that this node wanted to pass on.
type outcome int

const (
	passed  outcome = iota // the home has answered
	kept                   // it could not be passed on, and was served here
	unknown                // the home was lost
	outcomes
)

// Stats are the requests that this node wanted to pass on to the home of a log.
type Stats struct {
	// Passed were answered by the home. Kept were served here: their home could not be reached or refused, or their body
	// was too large. Of Unknown the home was lost meanwhile.
	Passed, Kept, Unknown uint64
}

// New returns a Forwarder that passes nothing on before [Forwarder.Open].
func New(c Config) *Forwarder {
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.Refuses == nil {
		c.Refuses = func() bool { return false }
	}
	if c.Reads == nil {
		c.Reads = func() bool { return true }
	}
	if c.probe == 0 {
		c.probe = probeEvery
	}
	if c.look == 0 {
		c.look = c.probe / 2
	}
	f := &Forwarder{config: c, inbox: nats.NewInbox() + ".", homes: map[string]*home{},
		closed: make(chan struct{}), tasks: make(chan task),
		sent: map[string]*exchange{}, served: map[string]*serving{}, silent: map[string]bool{}}
	f.ended = sync.NewCond(&f.mu)
	f.services = maps.Clone(c.Services)
	for _, s := range c.Services {
		f.homes[s.Log] = new(home)
	}
	return f
}

// Add makes the node serve another service.
func (f *Forwarder) Add(name string, s Service) {
	f.places.Lock()
	defer f.places.Unlock()
	if f.services == nil {
		f.services = map[string]Service{}
	}
	f.services[name] = s
	if f.homes[s.Log] == nil {
		f.homes[s.Log] = new(home)
	}
}

// Remove ends what Add or the configuration has begun: requests for the service are refused, and go to other nodes.
func (f *Forwarder) Remove(name string) {
	f.places.Lock()
	defer f.places.Unlock()
	log := f.services[name].Log
	delete(f.services, name)
	for _, s := range f.services {
		if s.Log == log {
			return
		}
	}
	delete(f.homes, log)
}

// service returns a service of this node.
func (f *Forwarder) service(name string) Service {
	f.places.RLock()
	defer f.places.RUnlock()
	return f.services[name]
}

// homeAt returns what is known of the home of a log, nil if no service of this node has it.
func (f *Forwarder) homeAt(log string) *home {
	f.places.RLock()
	defer f.places.RUnlock()
	return f.homes[log]
}

// allHomes returns what is known of the homes of all logs.
func (f *Forwarder) allHomes() map[string]*home {
	f.places.RLock()
	defer f.places.RUnlock()
	return maps.Clone(f.homes)
}

// Open begins to pass requests on, and to serve those of other nodes. It is called once.
func (f *Forwarder) Open() error {
	// The answers first: a request of another node may come as soon as this node has subscribed to them.
	if err := f.connect(); err != nil {
		return err
	}
	conn := f.conn
	// One subscription, so that a question about a request is handled after the request.
	var err error
	if f.incoming, err = conn.Subscribe(subject("*", f.config.Node), f.received); err == nil {
		err = conn.Flush()
	}
	if err != nil {
		conn.Close()
		return fmt.Errorf("forward: %w", err)
	}
	f.opened.Store(true)
	f.telling.Go(f.announce)
	return nil
}

// connect connects to NATS, and subscribes to the answers of other nodes.
func (f *Forwarder) connect() error {
	conn, err := f.config.Connect()
	if err != nil {
		return fmt.Errorf("forward: %w", err)
	}
	if _, err := conn.Subscribe(f.inbox+"*", f.answered); err != nil {
		conn.Close()
		return fmt.Errorf("forward: %w", err)
	}
	f.conn = conn
	return nil
}

const subjectPrefix = "lazuli.forward."

func subject(about, node string) string { return subjectPrefix + about + "." + node }

func requestSubject(node string) string { return subject("request", node) }
func controlSubject(node string) string { return subject("control", node) }
func uploadSubject(node string) string  { return subject("upload", node) }

// servingPrefix begins the subject on which a node tells all others what it serves. The node itself hears everything of
// subjectPrefix that ends with its name, so this is another one.
const servingPrefix = "lazuli.serving."

// announce tells the nodes that pass requests on what this one serves: at once when it has changed, and otherwise often
// enough that none has to ask, see [Front.watch]. Questions would be two messages for each pair of nodes; this is one
// for each node.
func (f *Forwarder) announce() {
	tick := time.NewTicker(f.config.look)
	defer tick.Stop()
	var told []byte
	var at time.Time
	for {
		if says := f.here(); !bytes.Equal(says, told) || time.Since(at) >= 2*f.config.probe {
			_ = f.conn.Publish(servingPrefix+f.config.Node, says) // nodes that hear nothing ask
			told, at = says, time.Now()
		}
		select {
		case <-f.closed:
			return
		case <-tick.C:
		}
	}
}

// closeTimeout bounds the wait for requests of other nodes at a stop, flushTimeout that for the server.
const (
	closeTimeout = 10 * time.Second
	flushTimeout = time.Second
)

// Close takes no more requests of other nodes, waits for those under way, and closes the connection. The outcome of
// requests that were passed on and have no answer is unknown.
func (f *Forwarder) Close() {
	f.mu.Lock()
	f.closing = true
	f.mu.Unlock()
	late := time.AfterFunc(closeTimeout, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, s := range f.served {
			s.cancel()
		}
	})
	f.mu.Lock()
	for len(f.served) > 0 {
		f.ended.Wait()
	}
	f.mu.Unlock()
	late.Stop()
	close(f.closed)
	f.telling.Wait()
	if f.opened.Load() {
		_ = f.conn.Publish(servingPrefix+f.config.Node, new(here).message()) // nothing: they need not find out
	}
	// Twice, for the last answers and so that other servers find no subscriber: a request that they send all the same is
	// lost, and its outcome unknown.
	if f.incoming.Unsubscribe() == nil && f.conn.FlushTimeout(flushTimeout) == nil {
		_ = f.conn.FlushTimeout(flushTimeout)
	}
	f.conn.Close()
}

// HomeOf returns the node that is the home of a log, "" if that is not known. It does not wait: what it returns may be
// older than [refreshEvery] if it was not called for a while.
func (f *Forwarder) HomeOf(log string) string {
	h := f.homeAt(log)
	if h == nil || !f.opened.Load() {
		return ""
	}
	if now := time.Now().UnixNano(); now-h.at.Load() > int64(refreshEvery) && h.looking.CompareAndSwap(false, true) {
		go f.refresh(h, log)
	}
	if node := h.node.Load(); node != nil {
		return *node
	}
	return ""
}

// home returns the node that is the home of a service's log, "" if that is this one or not known.
func (f *Forwarder) home(service string) string {
	node := f.HomeOf(f.service(service).Log)
	if node == f.config.Node {
		return ""
	}
	return node
}

// isSilent reports whether a node has not answered a question, see suspect.
func (f *Forwarder) isSilent(node string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.silent[node]
}

// Elsewhere reports whether the home of a service's log is another node. It may be one that does not answer, to which
// [Forwarder.Forward] passes nothing on.
func (f *Forwarder) Elsewhere(service string) bool { return f.home(service) != "" }

// refresh looks the home of a log up.
func (f *Forwarder) refresh(h *home, log string) {
	defer h.looking.Store(false)
	ctx, cancel := context.WithTimeout(context.Background(), lookupTimeout)
	defer cancel()
	node, err := f.config.Leader(ctx, log)
	if err != nil {
		node = "" // an election
	}
	h.node.Store(&node)
	h.at.Store(time.Now().UnixNano())
}

// Stats returns what became of requests, by log.
func (f *Forwarder) Stats() map[string]Stats {
	all := map[string]Stats{}
	for log, h := range f.allHomes() {
		all[log] = Stats{h.outcomes[passed].Load(), h.outcomes[kept].Load(), h.outcomes[unknown].Load()}
	}
	return all
}

// suspect keeps requests from a node until it answers again.
func (f *Forwarder) suspect(node string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.silent[node] {
		return
	}
	f.silent[node] = true
	f.config.Log.Warn("a node does not answer; it gets no requests until it does", "peer", node)
	go func() {
		tick := time.NewTicker(f.config.probe)
		defer tick.Stop()
	wait:
		for {
			select {
			case <-f.closed:
				return
			case <-tick.C:
			}
			// That it knows no such exchange is an answer, too. A node that has no subscription takes no requests.
			_, err := f.conn.Request(controlSubject(node), control(kindAsk, ""), f.config.probe)
			if err == nil || errors.Is(err, nats.ErrNoResponders) {
				break wait
			}
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.silent, node)
		f.config.Log.Info("a node answers again", "peer", node)
	}()
}

// questionSuffix is the end of the subject for answers to questions about an exchange. The server answers there, too,
// if no node has subscribed to the question.
const questionSuffix = "-q"
