package server

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/changes"
	"github.com/lazuli-storage/lazuli/internal/eventlog"
	"github.com/lazuli-storage/lazuli/internal/server/events"
)

const (
	// eventCheck is the interval at which a node of a cluster checks whether it delivers the events.
	eventCheck = time.Second
	// eventReload is the longest time until a node that does not deliver events reads the subscriptions again.
	eventReload = 30 * time.Second
)

// eventNode is the delivery of events on a node of a cluster: one node, the worker of the Blob service's background
// work, delivers the events of all. Every node logs the events of its own requests. After the worker has stopped,
// another node takes over within half a minute, and delivers again what was not noted as delivered. With shards, each
// has its worker, which delivers the events in its log.
type eventNode struct {
	shards func() []*shard // that this node has: their blobs say which node is the worker
	logs   events.Logs     // of the same shards, if they are always the same
	// start starts the delivery of the events of some logs; nil is all.
	start   func(held []*eventlog.Log) (*events.Manager, error)
	manager *atomic.Pointer[events.Manager] // set while this node delivers
	changes *changes.Recorder
	// interests make the services record changes where this node may lack the shard of a subscription; otherwise it is
	// nil, and the node reads the subscriptions itself.
	interests *interests
	now       func() time.Time
	logger    *slog.Logger

	changed chan struct{} // a subscription was changed

	mu      sync.Mutex             // held during each step, and guards the rest
	held    map[*eventlog.Log]bool // whose events this node delivers
	loaded  time.Time              // when the subscriptions were last read
	failing bool                   // the last check failed
}

// Subscribed makes the node read the subscriptions of a shard again.
func (n *eventNode) Subscribed(shard int) {
	if n.interests != nil {
		n.interests.nudge(shard)
		return
	}
	select {
	case n.changed <- struct{}{}:
	default:
	}
}

// run delivers events whenever this node is the worker, until ctx ends.
func (n *eventNode) run(ctx context.Context) {
	tick := time.NewTicker(eventCheck)
	defer tick.Stop()
	defer func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.stop()
	}()
	for {
		n.step()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-n.changed:
			n.mu.Lock()
			n.loaded = time.Time{}
			n.mu.Unlock()
		}
	}
}

// step starts or stops the delivery.
func (n *eventNode) step() {
	n.mu.Lock()
	defer n.mu.Unlock()
	var failed error
	all := true
	for _, of := range n.shards() {
		if of.leaving.Load() {
			continue
		}
		mine, err := n.stepShard(of)
		failed, all = errors.Join(failed, err), all && mine
	}
	if failed == nil && !all && n.interests == nil && time.Since(n.loaded) >= eventReload {
		if failed = events.Record(n.changes, n.logs); failed == nil {
			n.loaded = time.Now()
		}
	}
	n.note(failed)
}

// stepShard starts or stops the delivery of the events of one shard. It returns whether they are delivered here.
func (n *eventNode) stepShard(of *shard) (delivers bool, err error) {
	member, log := of.blobs.State.Membership, of.blobs.State.EventLog()
	mine, err := member.Claim(n.now())
	if err != nil {
		n.drop(log) // another node may take over
		return false, err
	}
	said := []any{}
	if n.several() {
		said = append(said, "shard", of.Number)
	}
	switch running := n.held[log]; {
	case mine && !running:
		if err := n.take(log); err != nil {
			return false, err
		}
		n.logger.Info("this node delivers the events of the cluster",
			append(said, "subscriptions", len(n.manager.Load().List()))...)
	case !mine && running:
		n.drop(log)
		n.logger.Info("another node delivers the events of the cluster", append(said, "worker", member.Worker())...)
	}
	return mine, nil
}

// several reports whether the cluster has several shards.
func (n *eventNode) several() bool { return n.interests != nil || len(n.logs.All) > 1 }

// take begins to deliver the events of a log.
func (n *eventNode) take(log *eventlog.Log) error {
	if m := n.manager.Load(); m != nil {
		if err := m.Take(log); err != nil {
			return err
		}
	} else {
		var held []*eventlog.Log
		if n.several() {
			held = []*eventlog.Log{log}
		}
		m, err := n.start(held)
		if err != nil {
			return err
		}
		n.manager.Store(m)
	}
	n.held[log] = true
	return nil
}

// drop ends the delivery of the events of a log. Without any, there is no delivery, unless the node has to say which
// other one delivers the events of an account.
func (n *eventNode) drop(log *eventlog.Log) {
	if !n.held[log] {
		return
	}
	delete(n.held, log)
	if len(n.held) == 0 && n.interests == nil {
		n.stop()
		return
	}
	n.manager.Load().Drop(log)
	n.loaded = time.Time{}
}

// release ends the delivery of the events of a shard that this node gives away. It was taken out, or is leaving: no
// later step takes it.
func (n *eventNode) release(of *shard) {
	if n == nil || of.blobs.Service == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.drop(of.blobs.State.EventLog())
}

func (n *eventNode) stop() {
	clear(n.held)
	if m := n.manager.Swap(nil); m != nil {
		m.Stop()
		n.loaded = time.Time{}
	}
}

// note logs the first of several failures.
func (n *eventNode) note(err error) {
	if err != nil && !n.failing {
		n.logger.Warn("the delivery of events in the cluster cannot be checked; trying again", "err", err)
	}
	n.failing = err != nil
}

// startEvents starts the delivery of events; on a node of a cluster, only while the node is the worker. The
// subscriptions are read before it returns, so that no change is made without its event; where other nodes have them,
// requests wait for that instead, see interests.
func (s *Server) startEvents(o *services, n *eventNode) error {
	if !s.sharesBlobs() {
		m, err := n.start(nil)
		if err == nil {
			o.events.Store(m)
			o.closers = append(o.closers, func() error { m.Stop(); return nil })
		}
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	o.closers = append(o.closers, func() error { cancel(); running.Wait(); return nil })
	if n.interests != nil {
		m, err := n.start([]*eventlog.Log{}) // it delivers nothing yet
		if err != nil {
			return err
		}
		n.manager.Store(m)
		if err := n.interests.run(ctx, &running); err != nil {
			return err
		}
	} else {
		if err := s.whenElected(context.Background(),
			func() error { return events.Record(n.changes, n.logs) }); err != nil {
			return err
		}
		n.loaded = time.Now()
	}
	running.Go(func() { n.run(ctx) })
	return nil
}

// errNoEventNode: no node has begun to deliver events.
var errNoEventNode = errors.New("no node of the cluster delivers events yet")

// EventsElsewhere returns why this node has no [Server.Events] although events are allowed: another node of the cluster
// delivers them. It returns nil otherwise.
func (s *Server) EventsElsewhere() error {
	open := s.services.Load()
	if open == nil || !s.config.Events || !s.sharesBlobs() || open.events.Load() != nil {
		return nil
	}
	var names []string
	for _, of := range open.list() {
		if name := of.deliverer(); name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	switch len(names) {
	case 0:
		return errNoEventNode
	case 1:
		return errors.New("node " + names[0] + " delivers the events of the cluster: use its admin listener")
	}
	slices.Sort(names)
	return errors.New("nodes " + strings.Join(names, ", ") + " deliver the events of the cluster, each those of some " +
		"shards: use their admin listeners")
}

// deliverer names the other node that delivers the events of a shard, "" if none is known.
func (s *shard) deliverer() string {
	member := s.blobs.State.Membership
	if worker := member.Worker(); worker != member.Name() {
		name, _, _ := strings.Cut(worker, ".")
		return name
	}
	return ""
}
