package server

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/changes"
	"github.com/lazuli-storage/lazuli/internal/server/events"
	blobstate "github.com/lazuli-storage/lazuli/internal/state/blob"
)

const (
	// eventCheck is the interval at which a node of a cluster checks whether it delivers the events.
	eventCheck = time.Second
	// eventReload is the longest time until a node that does not deliver events reads the subscriptions again.
	eventReload = 30 * time.Second
)

// eventNode is the delivery of events on a node of a cluster: one node, the worker of the Blob service's background
// work, delivers the events of all. Every node logs the events of its own requests. After the worker has stopped,
// another node takes over within half a minute, and delivers again what was not noted as delivered.
type eventNode struct {
	blobs   *blobstate.Store // says which node is the worker
	logs    events.Logs
	changes *changes.Recorder
	start   func() (*events.Manager, error)
	manager *atomic.Pointer[events.Manager] // set while this node delivers
	now     func() time.Time
	logger  *slog.Logger

	changed chan struct{} // a subscription was changed
	loaded  time.Time     // when the subscriptions were last read
	failing bool          // the last check failed
}

// Subscribed makes the node read the subscriptions again.
func (n *eventNode) Subscribed() {
	select {
	case n.changed <- struct{}{}:
	default:
	}
}

// run delivers events whenever this node is the worker, until ctx ends.
func (n *eventNode) run(ctx context.Context) {
	tick := time.NewTicker(eventCheck)
	defer tick.Stop()
	defer n.stop()
	for {
		n.note(n.step())
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-n.changed:
			n.loaded = time.Time{}
		}
	}
}

// step starts or stops the delivery.
func (n *eventNode) step() error {
	mine, err := n.blobs.Membership.Claim(n.now())
	if err != nil {
		n.stop() // another node may take over
		return err
	}
	running := n.manager.Load() != nil
	switch {
	case mine && !running:
		m, err := n.start()
		if err != nil {
			return err
		}
		n.manager.Store(m)
		n.logger.Info("this node delivers the events of the cluster", "subscriptions", len(m.List()))
	case !mine && running:
		n.stop()
		n.logger.Info("another node delivers the events of the cluster", "worker", n.blobs.Membership.Worker())
	}
	if mine || time.Since(n.loaded) < eventReload {
		return nil
	}
	if err := events.Record(n.changes, n.logs); err != nil {
		return err
	}
	n.loaded = time.Now()
	return nil
}

func (n *eventNode) stop() {
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
// subscriptions are read before it returns, so that no change is made without its event.
func (s *Server) startEvents(o *services, n *eventNode) error {
	if !s.sharesBlobs() {
		m, err := n.start()
		if err == nil {
			o.events.Store(m)
			o.closers = append(o.closers, func() error { m.Stop(); return nil })
		}
		return err
	}
	if err := s.whenElected(context.Background(),
		func() error { return events.Record(n.changes, n.logs) }); err != nil {
		return err
	}
	n.loaded = time.Now()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		n.run(ctx)
	}()
	o.closers = append(o.closers, func() error { cancel(); <-done; return nil })
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
	member := open.shards[0].blobs.State.Membership
	worker := member.Worker()
	if worker == "" || worker == member.Name() {
		return errNoEventNode
	}
	name, _, _ := strings.Cut(worker, ".")
	return errors.New("node " + name + " delivers the events of the cluster: use its admin listener")
}
