package forward

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// FrontConfig configures a Front. All fields without a default are required.
type FrontConfig struct {
	// Connect opens a connection to NATS, which the Front closes. Its messages may have up to 1 MiB.
	Connect func() (*nats.Conn, error)
	// Nodes are the names of the nodes with data. A request goes to those of them that have its log.
	Nodes []string
	// Services are the names of the services, and Logs those of the logs to which they append.
	Services, Logs []string
	// System is that of [Config].
	System func(context.Context) bool
	// Log is for what a person should see; nil means slog.Default().
	Log *slog.Logger

	// For tests: the time after which a silent node is asked, 0 is probeEvery; and that between two questions what a node
	// serves, 0 is half of the other one.
	probe, look time.Duration
}

// Front passes all requests of its clients to nodes with data: those that may change something to the home of the log,
// and reads to all nodes in turns. It is safe for concurrent use.
type Front struct {
	f        *Forwarder
	look     time.Duration
	turn     atomic.Uint64 // of the node that gets the next read
	watching sync.WaitGroup
	begin    func(node string) (stop context.CancelFunc) // begins to ask a node; set by Open
	cancel   context.CancelFunc
	logs     []string
	counts   map[string]*[outcomes]atomic.Uint64 // by service

	known sync.Mutex // guards the rest
	// nodes are those to which requests go, and watches ends the questions to each.
	nodes   []string
	watches map[string]context.CancelFunc
	here    map[string]here      // what the nodes have said, by name
	told    map[string]time.Time // when a node has last said it without a question
}

// NewFront returns a Front that knows of no node before [Front.Open].
func NewFront(c FrontConfig) *Front {
	t := &Front{nodes: c.Nodes, logs: c.Logs, here: map[string]here{}, told: map[string]time.Time{},
		watches: map[string]context.CancelFunc{},
		counts:  map[string]*[outcomes]atomic.Uint64{}}
	for _, name := range c.Services {
		t.counts[name] = new([outcomes]atomic.Uint64)
	}
	t.f = New(Config{Connect: c.Connect, System: c.System, Log: c.Log, probe: c.probe})
	if t.look = c.look; t.look == 0 {
		t.look = t.f.config.probe / 2
	}
	return t
}

// Open begins to ask the nodes what they serve, and to pass requests on. It is called once.
func (t *Front) Open() error {
	if err := t.f.connect(); err != nil {
		return err
	}
	if _, err := t.f.conn.Subscribe(servingPrefix+"*", t.hear); err != nil {
		t.f.conn.Close()
		return fmt.Errorf("forward: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.cancel = cancel
	t.begin = func(node string) context.CancelFunc {
		ctx, stop := context.WithCancel(ctx)
		t.watching.Go(func() { t.watch(ctx, node) })
		return stop
	}
	t.SetNodes(t.nodes)
	return nil
}

// SetNodes makes nodes those to which requests go. It is called after [Front.Open].
func (t *Front) SetNodes(nodes []string) {
	t.known.Lock()
	defer t.known.Unlock()
	for _, node := range nodes {
		if t.watches[node] == nil {
			t.watches[node] = t.begin(node)
		}
	}
	for node, stop := range t.watches {
		if !slices.Contains(nodes, node) {
			stop()
			delete(t.watches, node)
			delete(t.here, node)
			delete(t.told, node)
		}
	}
	t.nodes = slices.Clone(nodes)
}

// Close ends what Open has begun. The outcome of requests that were passed on and have no answer is unknown.
func (t *Front) Close() {
	t.cancel()
	t.watching.Wait()
	close(t.f.closed)
	t.f.conn.Close()
}

// hear receives what a node says of what it serves, see [Forwarder.announce].
func (t *Front) hear(m *nats.Msg) {
	node := strings.TrimPrefix(m.Subject, servingPrefix)
	k, p := parse(m.Data)
	h, err := p.here()
	if k != kindHere || err != nil {
		return
	}
	t.learn(node, h)
	t.known.Lock()
	defer t.known.Unlock()
	if t.watches[node] != nil {
		t.told[node] = time.Now()
	}
}

// heardFor returns for how long what a node has said needs no question: a node that runs says it every two probes.
func (t *Front) heardFor(node string) time.Duration {
	t.known.Lock()
	defer t.known.Unlock()
	return 3*t.f.config.probe - time.Since(t.told[node])
}

// watch asks a node what it serves when it does not say it by itself, until ctx ends.
func (t *Front) watch(ctx context.Context, node string) {
	for silent := 0; ctx.Err() == nil; {
		if d := t.heardFor(node); d > 0 {
			silent = 0
			t.pause(ctx, d)
			continue
		}
		m, err := t.f.conn.Request(controlSubject(node), control(kindWhere, ""), 2*t.f.config.probe)
		silent++
		switch {
		case err == nil:
			k, p := parse(m.Data)
			if h, err := p.here(); k == kindHere && err == nil {
				t.learn(node, h)
				silent = 0
			}
		// A node that takes its time may only be busy. One that does not run has no subscription.
		case errors.Is(err, nats.ErrNoResponders):
			t.learn(node, here{})
		}
		if silent > 1 {
			t.learn(node, here{})
		}
		t.pause(ctx, t.look)
	}
}

// pause waits until d has passed or ctx ends.
func (t *Front) pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// learn keeps what a node says; the zero value means that it does not answer.
func (t *Front) learn(node string, h here) {
	t.known.Lock()
	defer t.known.Unlock()
	if t.watches[node] == nil { // it has left meanwhile
		return
	}
	if before := t.here[node]; before.reads != h.reads || before.writes != h.writes {
		t.f.config.Log.Info("a node of the cluster has changed what it serves", "peer", node, "reads", h.reads, "writes",
			h.writes)
	}
	t.here[node] = h
}

// Serving returns the names of the nodes that serve at least reads, in order.
func (t *Front) Serving() (names []string) {
	t.known.Lock()
	defer t.known.Unlock()
	for node, h := range t.here {
		if h.reads {
			names = append(names, node)
		}
	}
	slices.Sort(names)
	return names
}

// nodesFor returns the nodes to which a request may go, the first one first: for one that may change the log, its home
// is that. A node that does not say what it knows of the log does not have it. insist is set for a read, and if all
// nodes serve reads alone: one of them says why, and does what needs no room.
func (t *Front) nodesFor(log string, changes bool) (list []string, insist bool) {
	t.known.Lock()
	defer t.known.Unlock()
	var readers []string
	for _, node := range t.nodes {
		h := t.here[node]
		if _, has := h.homes[log]; !has || t.f.isSilent(node) {
			continue
		}
		if h.writes {
			list = append(list, node)
		}
		if h.reads {
			readers = append(readers, node)
		}
	}
	if !changes || len(list) == 0 {
		list, insist = readers, true
	}
	if len(list) < 2 {
		return list, insist
	}
	first := int(t.turn.Add(1) % uint64(len(list)))
	if changes {
		if home := slices.Index(list, t.homeOf(log)); home >= 0 {
			first = home
		}
	}
	return slices.Concat(list[first:], list[:first]), insist
}

// homeOf returns the home of a log, "" if no node knows one. What a node says about itself counts first: the others may
// have looked before an election. What a silent one has said last is old. The caller holds the lock.
func (t *Front) homeOf(log string) (home string) {
	for _, node := range t.nodes {
		if t.f.isSilent(node) {
			continue
		}
		switch at := t.here[node].homes[log]; {
		case at == node:
			return node
		case at != "":
			home = at
		}
	}
	return home
}

// Homes returns the homes of the logs as the nodes see them, "" for one that no node knows.
func (t *Front) Homes() map[string]string {
	t.known.Lock()
	defer t.known.Unlock()
	homes := map[string]string{}
	for _, log := range t.logs {
		homes[log] = t.homeOf(log)
	}
	return homes
}

// Errors of [Front.Serve], besides [store.ErrUnknown] and that of the request's context.
var (
	// ErrNoNode: no node has taken the request, or the one that had was lost before it had the whole body. Nothing has
	// been changed, and nothing was sent to the client. That is so with all errors but the next one.
	ErrNoNode = errors.New("forward: no node with data takes the request")
	// ErrCut: a part of the answer was sent, and the rest is lost.
	ErrCut = errBroken
)

// Serve passes a request on and writes the answer. changes means that it may write to the log, or that the log's home
// learns first of what it waits for; repeatable that it has no effect, so that it may go to the next node
// when one is lost. released ends the wait of a request for a change; it may be nil.
//
// A body of at most [MaxBody] bytes is read before the request is passed on. Of a longer one, or of one whose length is
// not known, and of one for which the client waits for 100 Continue, a part is read when the node asks for it.
func (t *Front) Serve(w http.ResponseWriter, r *http.Request, service, log string, changes, repeatable bool,
	released <-chan struct{}) error {
	count := t.counts[service]
	err := t.serve(w, r, service, log, changes, repeatable, released)
	switch {
	case errors.Is(err, ErrNoNode):
		count[kept].Add(1)
	case errors.Is(err, store.ErrUnknown):
		count[unknown].Add(1)
	default:
		count[passed].Add(1)
	}
	return err
}

func (t *Front) serve(w http.ResponseWriter, r *http.Request, service, log string, changes, repeatable bool,
	released <-chan struct{}) error {
	var body outgoing
	switch {
	case r.Body == nil || r.Body == http.NoBody || r.ContentLength == 0:
	case r.ContentLength < 0 || r.ContentLength > MaxBody || r.Header.Get("Expect") != "":
		body = outgoing{stream: r.Body, length: r.ContentLength}
	default:
		content, whole := bodyOf(r)
		if !whole { // the client has broken it off: the node says what it says to its own clients
			body = outgoing{stream: r.Body, length: r.ContentLength}
			break
		}
		body.content = content
	}
	// Which node has a shard after it was handed over, and who leads a log, is known a moment later: what no node has
	// taken is held meanwhile, as long as some node serves.
	for end := time.Now().Add(holdTime); ; {
		err := t.offer(w, r, body, service, log, changes, repeatable, released)
		if !errors.Is(err, errNotTaken) {
			return err
		}
		if !time.Now().Before(end) || t.noneServes() {
			return ErrNoNode
		}
		select {
		case <-time.After(holdPoll):
		case <-t.f.closed:
			return ErrNoNode
		case <-r.Context().Done():
			return context.Cause(r.Context())
		}
	}
}

// noneServes reports whether all nodes have said that they do not serve, or do not answer. After the start it is not
// known.
func (t *Front) noneServes() bool {
	t.known.Lock()
	defer t.known.Unlock()
	for _, h := range t.here {
		if h.reads {
			return false
		}
	}
	return len(t.here) == len(t.nodes)
}

const (
	// holdTime is the time that a request waits for a node that takes it, holdPoll the pause between two attempts.
	holdTime = 2 * time.Second
	holdPoll = 50 * time.Millisecond
)

// offer offers a request to the nodes that may serve it, one after the other. It returns errNotTaken if none has taken
// it: then it can be offered again.
func (t *Front) offer(w http.ResponseWriter, r *http.Request, body outgoing, service, log string, changes,
	repeatable bool, released <-chan struct{}) error {
	list, insist := t.nodesFor(log, changes)
	var flags byte
	if insist {
		flags = flagInsist
	}
	for _, node := range list {
		err := t.f.exchange(w, r, node, body, service, flags,
			func() string { return t.elsewhere(log, repeatable) }, released)
		switch {
		// Not taken: no part of the body was asked for, since only a node that has taken a request asks.
		case errors.Is(err, errNotTaken):
			continue
		case errors.Is(err, store.ErrUnknown) && repeatable && r.Context().Err() == nil:
			continue
		case errors.Is(err, errHalf):
			return errors.Join(ErrNoNode, err)
		}
		return err
	}
	return errNotTaken
}

// elsewhere returns a node to which a request can go after a node has not answered it, "" for none: the next home, or
// for one without an effect any node that serves it.
func (t *Front) elsewhere(log string, repeatable bool) string {
	if repeatable {
		if list, _ := t.nodesFor(log, false); len(list) > 0 {
			return list[0]
		}
		return ""
	}
	t.known.Lock()
	defer t.known.Unlock()
	return t.homeOf(log)
}

// FrontStats are the requests of one service.
type FrontStats struct {
	// Passed were answered by a node. Refused found none that took them. Of Unknown the node was lost.
	Passed, Refused, Unknown uint64
}

// Stats returns what became of requests, by service.
func (t *Front) Stats() map[string]FrontStats {
	all := map[string]FrontStats{}
	for service, n := range t.counts {
		all[service] = FrontStats{n[passed].Load(), n[kept].Load(), n[unknown].Load()}
	}
	return all
}
