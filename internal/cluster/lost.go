package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/cluster/peering"
	"github.com/lazuli-storage/lazuli/internal/fault"
)

// A node that is lost cannot give its shards away: its machine or its disk is gone. The layout names it, with the
// incarnation of its folder (peering.Layout.Lost), and from then on no node accepts that folder. Its shards move to
// other nodes, one after the other, from the two copies that are left, and then the node leaves. The node beside the
// leader of the layout's stream begins each of these steps ([Node.ReplaceLost]), so it does not matter which node dies
// meanwhile.

// The points of a replacement at which a test ends the process, beside those of the moves.
var (
	pointDeclared  = fault.Declare("lost/declared")  // the layout says that the node is lost
	pointBegun     = fault.Declare("lost/begun")     // the move of one of its shards has begun
	pointForgotten = fault.Declare("lost/forgotten") // JetStream and the nodes have forgotten its folder
	pointGone      = fault.Declare("lost/gone")      // the layout does not have it any more
)

// ErrNotLost: a node cannot be given up now. The error that wraps it says why.
var ErrNotLost = errors.New("the node cannot be given up")

// Lose gives a node up whose folder is gone for good, and returns when that is recorded durably. A node that answers is
// refused unless answering is set: its folder counts for nothing from then on, so what it alone has is lost. lacks
// returns what other nodes lack of its shards by the status of the cluster, which is refused as well; "" if it is
// nothing. It may be called again. Errors: [ErrNotClustered], [ErrNotSpread], [ErrUnknownNode], [ErrNodeConnected],
// [ErrNotLost], [ErrCopies], [shardmap.ErrHosts], and those of Move.
func (n *Node) Lose(ctx context.Context, name string, answering bool, lacks func(*Status) string) error {
	switch {
	case n == nil:
		return ErrNotClustered
	case n.site.Hosts() == nil:
		return fmt.Errorf("%w: `lazuli cluster leave %s` is enough", ErrNotSpread, name)
	case !slices.ContainsFunc(n.site.Peers(), func(p peering.Peer) bool { return p.Name == name }):
		return ErrUnknownNode
	case name == n.site.Node():
		return fmt.Errorf("%w: ask another node", ErrNodeConnected)
	case n.site.Layout().IsLost(name):
		return nil
	case n.site.Format() < peering.LostFormat:
		return fmt.Errorf("%w: it is %d, and this needs %d: run `lazuli cluster upgrade --finish` when all nodes that are "+
			"left run this release", ErrMoveFormat, n.site.Format(), peering.LostFormat)
	}
	if !answering {
		if err := n.staysAway(ctx, name); err != nil {
			return err
		}
	}
	// Before anything changes. A copy that is not current could be the only other one with a record.
	if err := n.mayLoseNode(ctx); err != nil {
		return err
	}
	status, err := n.Status(ctx)
	if err != nil {
		return err
	}
	if text := lacks(status); text != "" {
		return fmt.Errorf("%w: %s: wait until it has everything, and run the command again", ErrCopies, text)
	}
	_, incarnation, _ := strings.Cut(n.site.ServerNameOf(name), ".")
	err = n.changeLayout(ctx, func(l *peering.Layout) error {
		if l.IsLost(name) {
			return errAsItIs
		}
		if err := n.replaceable(l, name); err != nil {
			return err
		}
		if !l.Lose(name, incarnation) {
			return fmt.Errorf("%w: %s, and cannot end without both nodes", ErrMoving, l.Move)
		}
		return nil
	})
	if errors.Is(err, errAsItIs) {
		return nil
	}
	if err == nil {
		n.config.Log.Warn("a node is lost: its shards move to other nodes, and its data folder is not accepted any more",
			"node", name, "incarnation", incarnation)
		err = fault.Point(pointDeclared)
	}
	return err
}

// replaceable returns why the shards of a node cannot get other hosts, nil if they can.
func (n *Node) replaceable(l *peering.Layout, name string) error {
	runs := n.running(l)
	hosts := l.Hosts
	for _, shard := range l.Hosts.Of(name) {
		for _, other := range l.Hosts.Shards[shard] {
			if other != name && !runs(other) {
				return fmt.Errorf("%w: shard %d would have fewer than two copies, since node %s, which has another one, does "+
					"not run", ErrNotLost, shard, other)
			}
		}
		step, err := hosts.Replace(shard, name, func(to string) bool { return to != name && runs(to) })
		if err == nil {
			hosts, err = hosts.Moved(step.Shard, step.From, step.To)
		}
		if err != nil {
			return fmt.Errorf("%w: let another node join first, or replace node %s under its name: `lazuli cluster leave %s` "+
				"without --lost", err, name, name)
		}
	}
	_, err := hosts.Removed(name)
	return err
}

// running returns a function that reports whether a node of a layout runs, and may get a shard.
func (n *Node) running(l *peering.Layout) func(name string) bool {
	connected := append(n.connectedNodes(), n.site.Node())
	return func(name string) bool { return slices.Contains(connected, name) && !l.IsLost(name) }
}

// ReplaceLost makes the next step of what replaces the lost nodes: it begins the move of a shard, or lets a node leave
// that has none any more. Where nothing can be done now, it says why. Errors: those of Move, and of Remove.
func (n *Node) ReplaceLost(ctx context.Context) error {
	l := n.site.Layout()
	runs := n.running(&l)
	var waits error
	for _, name := range slices.Sorted(maps.Keys(l.Lost)) {
		shards := l.Hosts.Of(name)
		if len(shards) == 0 {
			return n.leaveLost(ctx, name, l.Lost[name])
		}
		for _, shard := range shards {
			step, err := l.Hosts.Replace(shard, name, runs)
			if err != nil {
				waits = err
				continue
			}
			_, err = n.move(ctx, step.Shard, step.From, step.To, func(now *peering.Layout) bool { return now.IsLost(name) })
			if err == nil {
				err = fault.Point(pointBegun)
			}
			return err
		}
	}
	return waits
}

// leaveLost lets a lost node leave that has no shard any more.
func (n *Node) leaveLost(ctx context.Context, name, incarnation string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*removeTimeout)
	defer cancel()
	// Before anything changes, as for a node that is removed by name.
	if err := n.mayLoseNode(ctx); err != nil {
		return err
	}
	serverName := ""
	if incarnation != "" {
		serverName = name + "." + incarnation
	}
	n.mu.Lock()
	others := n.status.connected
	n.mu.Unlock()
	// What is away now learns of it from the layout.
	if err := n.remove(ctx, name, serverName, others); err != nil {
		return err
	}
	return fault.Point(pointGone)
}

// lostEvery is the pause between questions to the other nodes whether this one is lost, while it has no majority, and
// lostAttempt bounds one of them.
const (
	lostEvery   = 10 * time.Second
	lostAttempt = 20 * time.Second
)

// askWhetherLost asks the members whether this node's folder was given up, as a front-end: they do not accept such a
// folder, and so cannot tell it otherwise. The channel receives once, if one says so.
func (n *Node) askWhetherLost(ctx context.Context) <-chan error {
	lost := make(chan error, 1)
	if id := n.site.Identity(); id.State != peering.Member || id.Hosts == nil {
		return lost
	}
	go func() {
		for wait := joinAfter; ; wait = lostEvery {
			select {
			case <-time.After(wait):
			case <-ctx.Done():
				return
			}
			if err := n.lostAsFront(ctx); err != nil {
				lost <- err
				return
			}
		}
	}()
	return lost
}

func (n *Node) lostAsFront(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lostAttempt)
	defer cancel()
	front, err := n.asFront(ctx)
	if err != nil {
		return nil // the others are away, and this node waits for them
	}
	defer front.Close()
	for {
		if err := n.removedBy(ctx, front.conn, front.Connected()); err != nil {
			return err
		}
		select {
		case <-time.After(reconsiderEvery):
		case <-ctx.Done():
			return nil
		}
	}
}
