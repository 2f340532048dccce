package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lazuli-storage/lazuli/internal/cluster"
	"github.com/lazuli-storage/lazuli/internal/cluster/forward"
	"github.com/lazuli-storage/lazuli/internal/cluster/peering"
	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/state/blob/replica"
	"github.com/lazuli-storage/lazuli/internal/storage/datadir"
	"github.com/lazuli-storage/lazuli/internal/storage/disk"
	"github.com/lazuli-storage/lazuli/internal/storage/replog"
	"github.com/lazuli-storage/lazuli/internal/storage/shardmap"
)

// The move of a shard's copy to another node. The step that is next is in the layout of the cluster (peering.Step),
// and the nodes that have the content are in the log of the shard's blobs (replica.Hosts). Every node looks at the
// layout and does what is its part: it opens and closes shards as the layout says, and where a step is its own, it
// does that and makes the next one the step of the layout. All of it can be repeated, so a node that is killed goes
// on when it starts again, and where several nodes can do a step, another one does it.

// The points of a move at which a test ends the process.
var (
	pointArrived   = fault.Declare("move/arrived")   // the new node has noted that it begins the shard's folder
	pointFolder    = fault.Declare("move/folder")    // and has begun it
	pointJoined    = fault.Declare("move/joined")    // the log says that the new node joins
	pointOpened    = fault.Declare("move/opened")    // the new node has the shard open
	pointComplete  = fault.Declare("move/complete")  // the log says that the new node is complete
	pointVerified  = fault.Declare("move/verified")  // the new node has all that its metadata refers to
	pointCopied    = fault.Declare("move/copied")    // the layout says that the streams move
	pointMoved     = fault.Declare("move/moved")     // the streams have moved
	pointPassing   = fault.Declare("move/passing")   // the old node passes requests on
	pointLeft      = fault.Declare("move/left")      // the log says that the old node has left
	pointDecided   = fault.Declare("move/decided")   // the table has the new node
	pointClosed    = fault.Declare("move/closed")    // the node that leaves has closed the shard
	pointDeleted   = fault.Declare("move/deleted")   // and has deleted its folder
	pointEnded     = fault.Declare("move/ended")     // the layout says that the move has ended
	pointCancelled = fault.Declare("move/cancelled") // the log says that the move is cancelled
)

const (
	// tendEvery is the interval of looking for something to do, movingEvery that during a move.
	tendEvery   = 5 * time.Second
	movingEvery = 100 * time.Millisecond
	// othersWait is the time after which a node does a step that is rather one of the node beside the leader of the log.
	othersWait = 3 * time.Second
	// leaveWait bounds the time that the old node waits for the requests that it has begun, before it records that it
	// leaves: each of its changes is refused from the record on.
	leaveWait = 5 * time.Second
	// fillPause is the time after a move before the next one begins without a person: leaders and clients settle.
	fillPause = 5 * time.Second
	// leadersEvery is the pause between two changes of a log's leader that make the nodes lead equally many.
	leadersEvery = time.Minute
	// dropWait bounds the wait for requests of a shard that is given away. They are ended then.
	dropWait = 10 * time.Second
)

// mover does this node's part of moves.
type mover struct {
	s *Server

	left    uint64 // version of the layout at which this node has left a shard that the layout gives it, plus one
	swept   uint64 // version of the layout at which this node has had no folder too many, plus one
	version uint64 // of the layout that was seen last, and when it was seen first
	changed time.Time
	move    uint64 // number of the move that the rest is about
	step    peering.Step
	since   time.Time    // this node has seen the step first
	lacking func() int64 // of what the new node has to copy before the next record, as its open shard knows
	of      *shard
	problem string    // what was logged last
	led     time.Time // the leaders of logs were looked at last, or this node was started
}

// followMoves does this node's part of moves until ctx ends.
func (s *Server) followMoves(ctx context.Context) {
	m := &mover{s: s, led: time.Now()}
	for {
		every := tendEvery
		var changed <-chan struct{}
		if open := s.services.Load(); open != nil {
			if open.node.Hosts() == nil {
				return
			}
			changed = open.node.LayoutChanged()
			if open.node.Layout().Moving() != nil {
				every = movingEvery
			}
			err := m.tend(ctx, open)
			switch text := fmt.Sprint(err); {
			case ctx.Err() != nil:
				return
			case err == nil, errors.Is(err, cluster.ErrMovedOn):
				m.problem = ""
			case text != m.problem:
				m.problem = text
				s.config.Log.Warn("the move of a shard waits; trying again", "err", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-time.After(every):
		}
	}
}

// tend does what there is to do.
func (m *mover) tend(ctx context.Context, open *services) error {
	node := open.node
	l := node.Layout()
	open.elsewhere.forward.SetNodes(node.Others()) // nodes join and leave
	for n := range m.s.dir.Shards() {
		has, of := l.Has(node.Name(), n), open.numbered(n)
		var err error
		switch {
		case has && of == nil && m.left != l.Version+1:
			if err = m.s.addShard(ctx, open, l, n); errors.Is(err, replica.ErrLeft) {
				m.left, err = l.Version+1, nil // the layout will say so soon
			}
		case !has && (of != nil || m.swept != l.Version+1),
			of != nil && comesAgain(&l, node, n): // then it is opened with an empty folder
			err = m.s.dropShard(ctx, open, n)
		}
		if err != nil {
			return err
		}
	}
	m.swept = l.Version + 1
	if m.version != l.Version {
		m.version, m.changed = l.Version, time.Now()
	}
	move := l.Moving()
	// What is left of a decided move is to be done by one node, which may be away.
	if (move == nil || move.Decided()) && open.nats.Leads(cluster.LayoutStream) {
		if err := m.begin(ctx, open, l); err != nil {
			return err
		}
	}
	if move == nil {
		m.balanceLeaders(ctx, open)
		return nil
	}
	if m.move != move.Number || m.step != move.Step {
		m.move, m.step, m.since, m.lacking = move.Number, move.Step, time.Now(), nil
	}
	// The services may have been opened again, and the extents that were asked before are closed.
	if of := open.numbered(move.Shard); of != m.of {
		m.of, m.lacking = of, nil
	}
	return m.advance(ctx, open, l, move)
}

// begin begins what is to be done without a person while no shard moves. A shard with two copies comes first.
func (m *mover) begin(ctx context.Context, open *services, l peering.Layout) error {
	switch {
	case len(l.Lost) > 0:
		return open.node.ReplaceLost(ctx)
	case len(l.Filling) > 0 && time.Since(m.changed) >= fillPause:
		var sizes shardmap.Sizes // of several moves, the numbers of shards choose if they are not known
		if status, err := open.node.Status(ctx); err == nil {
			sizes = ShardSizes(status)
		}
		return open.node.Fill(ctx, sizes)
	}
	return nil
}

// balanceLeaders lets one log have another leader now and then, while nothing moves.
func (m *mover) balanceLeaders(ctx context.Context, open *services) {
	if !open.node.View().Leads || time.Since(m.led) < leadersEvery {
		return
	}
	m.led = time.Now()
	var streams []string
	for n := range m.s.dir.Shards() {
		for _, kind := range logKinds {
			streams = append(streams, replog.StreamOf(datadir.ShardOf("", n).Log(kind)))
		}
	}
	if _, err := open.node.BalanceLeaders(ctx, streams); err != nil && ctx.Err() == nil {
		m.s.config.Log.Info("the leaders of the logs stay as they are for now; trying again", "err", err)
	}
}

// advance does the step of a move, if it is one of this node, and makes the next one that of the layout.
func (m *mover) advance(ctx context.Context, open *services, l peering.Layout, move *peering.Move) error {
	node, of := open.node, open.numbered(move.Shard)
	next := func(step peering.Step) error {
		return node.Advance(ctx, move, func(l *peering.Layout) error {
			l.Move.Step = step
			return nil
		})
	}
	ended := func() error {
		err := node.Advance(ctx, move, func(l *peering.Layout) error {
			l.Ended = true
			return nil
		})
		return m.then(err, pointEnded, func() error { return nil })
	}
	hosts := l.Hosts.Shards[move.Shard]
	switch move.Step {
	case peering.StepJoin:
		if !l.Hosts.On(node.Name(), move.Shard) || !m.turn(open, of) {
			return nil
		}
		join := of.blobs.State.Membership.Join
		if move.Lost {
			join = of.blobs.State.Membership.JoinLost
		}
		err := join(move.Number, hosts, move.From, move.To)
		return m.then(err, pointJoined, func() error { return next(peering.StepCopy) })
	case peering.StepCopy:
		if node.Name() != move.To || of == nil {
			return nil
		}
		return m.copy(ctx, of, move, func() error { return next(peering.StepStreams) })
	case peering.StepStreams, peering.StepReturn:
		from, then := move.From, peering.StepLeave
		if move.Step == peering.StepReturn {
			from, then = move.To, peering.StepCancel
		}
		if moved, err := m.moveStreams(ctx, open, move.Shard, from); err != nil || !moved {
			return err
		}
		return m.then(nil, pointMoved, func() error { return next(then) })
	case peering.StepLeave:
		// The old node does it itself, as it knows when nothing is under way at it, and others do it if that is away.
		switch {
		case of == nil:
			return nil
		case node.Name() == move.From:
			m.s.passAll(ctx, open, of)
		case move.Lost && m.turn(open, of):
		case time.Since(m.since) <= leaveWait+othersWait:
			return nil
		}
		if err := fault.Point(pointPassing); err != nil {
			return err
		}
		err := of.blobs.State.Membership.Leave(move.Number)
		return m.then(err, pointLeft, func() error {
			err := node.Advance(ctx, move, func(l *peering.Layout) (err error) {
				l.Move.Step, l.Ended = peering.StepDelete, l.IsLost(move.From) // which deletes nothing
				l.Hosts, err = l.Hosts.Moved(move.Shard, move.From, move.To)
				return err
			})
			return m.then(err, pointDecided, func() error { return nil })
		})
	case peering.StepCancel:
		if !l.Hosts.On(node.Name(), move.Shard) || !m.turn(open, of) {
			return nil
		}
		err := of.blobs.State.Membership.Cancel(move.Number, hosts)
		return m.then(err, pointCancelled, func() error {
			return node.Advance(ctx, move, func(l *peering.Layout) error {
				l.Move.Step, l.Ended = peering.StepClean, l.IsLost(move.To)
				return nil
			})
		})
	case peering.StepDelete:
		if node.Name() == move.From { // tend has deleted the folder
			return m.then(nil, pointDeleted, ended)
		}
	case peering.StepClean:
		if node.Name() == move.To {
			return m.then(nil, pointDeleted, ended)
		}
	}
	return nil
}

// moveStreams moves the streams of a shard away from a node, by the node beside the leader of the layout's stream.
func (m *mover) moveStreams(ctx context.Context, open *services, shard int, from string) (moved bool, err error) {
	if !open.nats.Leads(cluster.LayoutStream) {
		return false, nil
	}
	var names []string
	for _, kind := range logKinds {
		names = append(names, replog.StreamsOf(datadir.ShardOf("", shard).Log(kind))...)
	}
	return open.node.MoveStreams(ctx, names, from)
}

// then goes on behind a point.
func (m *mover) then(err error, point fault.Name, next func() error) error {
	if err == nil {
		err = fault.Point(point)
	}
	if err == nil {
		err = next()
	}
	return err
}

// turn reports whether this node does a step that each node with the shard can do: the one beside the leader of the
// log does it, or any if that does not.
func (m *mover) turn(open *services, of *shard) bool {
	return of != nil && (open.nats.Leads(replog.StreamOf(of.Log("blobs"))) || time.Since(m.since) > othersWait)
}

// copy is the part of the new node: it waits until it has everything, says so in the log, and then waits until it has
// what was written before that as well. In place of a node that is lost it also looks at everything that its metadata
// refers to: that node cannot say what it had.
func (m *mover) copy(ctx context.Context, of *shard, move *peering.Move, next func() error) error {
	if err := fault.Point(pointOpened); err != nil {
		return err
	}
	for name, svc := range of.logs() {
		if r, ok := svc.Replication(); ok && (r.Err != nil || r.CatchingUp || !r.Available) {
			return fmt.Errorf("the %s do not follow their log yet: lag %d: %w", name, r.Lag, r.Err)
		}
	}
	content := of.blobs.State.Membership
	h, err := content.Hosts()
	if err != nil {
		return err
	}
	// What is listed before the record says nothing about what is written until then.
	if m.lacking == nil {
		if m.lacking, err = content.Missing(); err != nil {
			return err
		}
	}
	if m.lacking() > 0 {
		return nil
	}
	m.lacking = nil
	if err := content.SyncCopies(); err != nil {
		return err
	}
	if h == nil || h.Move != move.Number || !h.Complete {
		return m.then(content.Complete(move.Number), pointComplete, func() error { return nil })
	}
	if move.Lost {
		if err := m.then(content.Verify(ctx), pointVerified, func() error { return nil }); err != nil {
			return err
		}
	}
	return m.then(nil, pointCopied, next)
}

// comesAgain reports whether a shard moves to a node whose folder of it, if there is one, is of an earlier time. The
// node may have missed that the shard had left it, and may still have it open: with a number that is retired, whose
// content the other nodes do not keep.
func comesAgain(l *peering.Layout, node *cluster.Node, n int) bool {
	move := l.Moving()
	return move != nil && !move.Decided() && move.Shard == n && move.To == node.Name() && node.Arriving() != move.Number
}

// addShard opens a shard that moves to this node.
func (s *Server) addShard(ctx context.Context, open *services, l peering.Layout, n int) error {
	s.exchange.Lock()
	defer s.exchange.Unlock()
	if s.services.Load() != open || ctx.Err() != nil {
		return nil // they were closed meanwhile
	}
	// What is left of an earlier time is of no use: its numbers are retired.
	if comesAgain(&l, open.node, n) {
		if err := s.dir.RemoveShard(n); err != nil {
			return err
		}
		if _, err := open.node.Arrive(l.Moving().Number); err != nil {
			return err
		}
		if err := fault.Point(pointArrived); err != nil {
			return err
		}
	}
	of := s.newShard(n)
	if err := errors.Join(disk.MkdirAll(of.Path(), 0o700), fault.Point(pointFolder)); err != nil {
		return err
	}
	// Before the services are open: a shard that passes its requests on looks for the home of its log there.
	s.addForward(open, of)
	if err := open.openMoved(ctx, of); err != nil {
		s.removeForward(open, of)
		return errors.Join(err, of.close())
	}
	if err := s.dir.Record(); err != nil {
		s.removeForward(open, of)
		return errors.Join(err, of.close())
	}
	open.put(n, of)
	open.addReportsOf(open.node, of)
	s.config.Log.Info("this node has opened a shard that moves to it", "shard", n)
	return nil
}

func (s *Server) addForward(open *services, of *shard) {
	for svc, log := range logOf {
		open.forward.Add(serviceOf(svc.String(), of.Shard), forward.Service{Log: of.Log(log), Handler: s.handler(svc)})
	}
	open.forward.Add(serviceOf(callService, of.Shard), s.callsOf(of))
}

func (s *Server) removeForward(open *services, of *shard) {
	for svc := range logOf {
		open.forward.Remove(serviceOf(svc.String(), of.Shard))
	}
	open.forward.Remove(serviceOf(callService, of.Shard))
}

// passAll passes the requests for a shard on from now on, and waits until those that are served here have ended.
func (s *Server) passAll(ctx context.Context, open *services, of *shard) {
	if of.leaving.Swap(true) {
		return
	}
	s.removeForward(open, of)
	open.eventNode.release(of)
	wait, cancel := context.WithTimeout(ctx, leaveWait)
	defer cancel()
	if err := of.gate.shut(wait, open.board.Release); err != nil {
		s.config.Log.Warn("requests are refused, since they take longer than a shard waits that leaves this node",
			"shard", of.Number, "err", err)
	}
}

// dropShard closes a shard that this node does not have any more, and deletes its folder. The layout is decided by
// then: the other nodes have everything.
func (s *Server) dropShard(ctx context.Context, open *services, n int) error {
	of := open.numbered(n)
	if of == nil {
		if empty, err := s.dir.Shard(n).Empty(); empty || err != nil {
			return err
		}
	}
	s.exchange.Lock()
	defer s.exchange.Unlock()
	if s.services.Load() != open || ctx.Err() != nil {
		return nil
	}
	if of != nil {
		open.put(n, nil)
		s.removeForward(open, of)
		open.eventNode.release(of)
		for name := range of.logs() {
			open.node.RemoveReport(name)
		}
		wait, cancel := context.WithTimeout(ctx, dropWait)
		err := of.gate.shut(wait, open.board.Release)
		cancel()
		if err != nil {
			of.gate.closed.Store(true) // their service ends them
		}
		if err := of.close(); err != nil {
			s.config.Log.Warn("closing a shard", "shard", n, "err", err)
		}
		s.config.Log.Info("a shard has left this node", "shard", n)
	}
	if err := fault.Point(pointClosed); err != nil {
		return err
	}
	return s.dir.RemoveShard(n)
}

// dropLeft takes out shards that have moved away, as their log says, before the layout says so.
func (o *services) dropLeft() {
	for _, of := range slices.Clone(o.list()) {
		if of.blobs.Service == nil {
			o.put(of.Number, nil)
			o.closers = append(o.closers, of.close)
		}
	}
}

// MoveShard begins to move a shard's copy, see [cluster.Node.Move].
func (s *Server) MoveShard(ctx context.Context, shard int, from, to string) (*peering.Move, error) {
	open := s.services.Load()
	if open == nil {
		return nil, errNotOpen
	}
	return open.node.Move(ctx, shard, from, to)
}

// CancelMove takes the move that is under way back, see [cluster.Node.CancelMove].
func (s *Server) CancelMove(ctx context.Context) (*peering.Move, error) {
	open := s.services.Load()
	if open == nil {
		return nil, errNotOpen
	}
	return open.node.CancelMove(ctx)
}

// LoseNode gives a node up whose data folder is gone for good: its shards get other hosts from the two that are left,
// and then it leaves the cluster. It returns when that is recorded. A node that answers is refused unless answering is
// set. Errors: those of [cluster.Node.Lose].
func (s *Server) LoseNode(ctx context.Context, name string, answering bool) error {
	open := s.services.Load()
	if open == nil {
		return errNotOpen
	}
	return open.node.Lose(ctx, name, answering, func(status *cluster.Status) string {
		return lackingWithout(status, name)
	})
}

// SetAutomatic says whether nodes that join get shards by themselves, see [cluster.Node.SetAutomatic].
func (s *Server) SetAutomatic(ctx context.Context, on bool) error {
	open := s.services.Load()
	if open == nil {
		return errNotOpen
	}
	return open.node.SetAutomatic(ctx, on)
}

// Layout returns which nodes have a shard, and the move under way, as this node knows it. Errors:
// [cluster.ErrNotClustered]; [cluster.ErrNotSpread] if all nodes have all shards.
func (s *Server) Layout() (l peering.Layout, err error) {
	open := s.services.Load()
	switch {
	case open == nil:
		return l, errNotOpen
	case open.node == nil:
		return l, cluster.ErrNotClustered
	}
	if l = open.node.Layout(); l.Hosts == nil {
		return l, cluster.ErrNotSpread
	}
	return l, nil
}
