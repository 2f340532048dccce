package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lazuli-storage/lazuli/internal/cluster/peering"
	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/nats/natsserver"
	"github.com/lazuli-storage/lazuli/internal/storage/shardmap"
)

// The layout (peering.Layout) is one value for the cluster, the last message of a stream. It is changed by a publish
// that names the message before it, so of two changes of the same layout one fails. Reads of a stream may be old, and
// so may what a node has kept; that is harmless, since a node acts on its newest layout by steps that are repeated
// without effect, and each step ends with a change.
//
// Nodes learn of a change from the one that has made it, and look every layoutEvery. A node that has missed all of a
// move learns of it from the stream when it starts, before it opens a shard.

const (
	// LayoutStream is the stream of the layout.
	LayoutStream  = "LAZULI_LAYOUT"
	layoutSubject = "lazuli.layout"
	// layoutNews is the subject at which nodes say that there is a new layout.
	layoutNews = "lazuli.cluster.layout"
	// layoutEvery is the interval of looking for a new layout, movingEvery that during a move.
	layoutEvery = 5 * time.Second
	movingEvery = 500 * time.Millisecond
	// layoutTimeout bounds a read or a change.
	layoutTimeout = 10 * time.Second
)

// Errors of changes of the layout.
var (
	// ErrNotSpread: all nodes have all shards.
	ErrNotSpread = errors.New("all nodes of this cluster have all shards: there is nothing to move")
	// ErrMoveFormat: the cluster's data has an older format.
	ErrMoveFormat = errors.New("the cluster's data has a format in which no shard can move")
	// ErrMoving: another move is under way.
	ErrMoving = errors.New("a shard moves already")
	// ErrNoMove: no move is under way.
	ErrNoMove = errors.New("no shard moves")
	// ErrNoAnswer: JetStream has not answered in time. The change may have been made.
	ErrNoAnswer = errors.New("the cluster has not answered, perhaps since it elects a leader: try again")
	// ErrMovedOn: what was to be changed is no longer so.
	ErrMovedOn = errors.New("the move is at another step")
)

// Layout returns the newest layout that this node knows. Its Hosts are nil where all nodes have all shards.
func (n *Node) Layout() peering.Layout {
	if n == nil {
		return peering.Layout{}
	}
	return n.site.Layout()
}

// LayoutChanged receives after this node has learned of a new layout.
func (n *Node) LayoutChanged() <-chan struct{} { return n.newLayout }

// Arrive notes durably that this node begins the folder of a shard for a move; see [peering.Site.Arrive].
func (n *Node) Arrive(move uint64) (first bool, err error) { return n.site.Arrive(move) }

// Arriving is the number of the move for which this node has begun a folder.
func (n *Node) Arriving() uint64 { return n.site.Arriving() }

// takeLayout keeps a layout, and does what it says about this node's server.
func (n *Node) takeLayout(l peering.Layout) error {
	newer, err := n.site.Take(l)
	if err != nil {
		return err
	}
	if newer {
		select {
		case n.newLayout <- struct{}{}:
		default:
		}
	}
	if n.site.Layout().Version > 0 {
		n.server.SetTags(n.site.Tags())
		n.server.SetRoutes(n.site.Routes())
	}
	return nil
}

// ReadLayout looks for a newer layout. It fails while the cluster has no leader, and with [peering.ErrLost] if the
// cluster goes on without this node's folder.
func (n *Node) ReadLayout(ctx context.Context) error {
	if n == nil || n.site.Hosts() == nil {
		return nil
	}
	_, _, err := n.readLayout(ctx)
	// The embedded server stops as soon as this is known, and a start that went on would serve nothing.
	if lost := n.site.Lost(); lost != nil {
		return lost
	}
	return err
}

// readLayout returns the newest layout, and the number of its message. Where the stream has an older one than this node
// or none, which happens if the stream has lost its end, it is that of this node.
func (n *Node) readLayout(ctx context.Context) (l peering.Layout, at uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, layoutTimeout)
	defer cancel()
	js, err := jetstream.New(n.server.Conn())
	if err != nil {
		return l, 0, err
	}
	stream, err := js.Stream(ctx, LayoutStream)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return n.site.Layout(), 0, nil
	case err != nil:
		return l, 0, fmt.Errorf("%w: reading the layout: %w", ErrNoAnswer, err)
	}
	m, err := stream.GetLastMsgForSubject(ctx, layoutSubject)
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return n.site.Layout(), 0, nil
	case err != nil:
		return l, 0, fmt.Errorf("%w: reading the layout: %w", ErrNoAnswer, err)
	}
	if err := json.Unmarshal(m.Data, &l); err != nil {
		return l, 0, fmt.Errorf("reading the layout: %w", err)
	}
	if err := n.takeLayout(l); err != nil {
		return l, 0, err
	}
	return n.site.Layout(), m.Sequence, nil
}

// changeLayout changes the newest layout durably. change returns why it must not be changed.
func (n *Node) changeLayout(ctx context.Context, change func(*peering.Layout) error) error {
	if n == nil {
		return ErrNotClustered
	}
	if n.site.Hosts() == nil {
		return ErrNotSpread
	}
	if f := n.site.Format(); f < peering.MoveFormat {
		return fmt.Errorf("%w: it is %d, and a move needs %d: run `lazuli cluster upgrade --finish` when all nodes run "+
			"this release", ErrMoveFormat, f, peering.MoveFormat)
	}
	if err := n.NoMajority(); err != nil {
		return err
	}
	l, at, err := n.readLayout(ctx)
	if err != nil {
		return err
	}
	if err := change(&l); err != nil {
		return err
	}
	l.Version++
	text, err := json.Marshal(l)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, layoutTimeout)
	defer cancel()
	js, err := jetstream.New(n.server.Conn())
	if err != nil {
		return err
	}
	// It may have been made meanwhile, by another node as well: with the same configuration that is no error.
	if at == 0 {
		_, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: LayoutStream, Subjects: []string{layoutSubject},
			Storage: jetstream.FileStorage, Replicas: n.server.Replicas(), MaxMsgsPerSubject: 16, MaxMsgs: 16})
		if err != nil && !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			return fmt.Errorf("%w: making the stream of the layout: %w", ErrNoAnswer, err)
		}
	}
	if _, err := js.PublishMsg(ctx, &nats.Msg{Subject: layoutSubject, Data: text},
		jetstream.WithExpectLastSequencePerSubject(at)); err != nil {
		return fmt.Errorf("%w: changing the layout: %w", ErrNoAnswer, err)
	}
	if err := n.takeLayout(l); err != nil {
		return err
	}
	return n.server.Conn().Publish(layoutNews, text)
}

// Advance changes the step of a move, if it is at the step that is given. Errors: [ErrMovedOn].
func (n *Node) Advance(ctx context.Context, m *peering.Move, change func(*peering.Layout) error) error {
	return n.changeLayout(ctx, func(l *peering.Layout) error {
		at := l.Moving()
		if at == nil || at.Number != m.Number || at.Step != m.Step {
			return ErrMovedOn
		}
		next := *at
		l.Move = &next
		return change(l)
	})
}

// Move begins to move a shard's copy from a node to another one, and returns when that is recorded durably. Errors:
// [shardmap.ErrHosts], [ErrMoving], [ErrNotSpread], [ErrMoveFormat], [natsserver.ErrNoMajority].
func (n *Node) Move(ctx context.Context, shard int, from, to string) (*peering.Move, error) {
	return n.move(ctx, shard, from, to, func(l *peering.Layout) bool {
		l.EndFilling(from) // a person wants less there
		return true
	})
}

// move is Move. begins changes the layout as well, or returns false if the move is not to begin any more.
func (n *Node) move(ctx context.Context, shard int, from, to string, begins func(*peering.Layout) bool) (*peering.Move,
	error) {
	if n == nil {
		return nil, ErrNotClustered
	}
	var move *peering.Move
	err := n.changeLayout(ctx, func(l *peering.Layout) error {
		if m := l.Moving(); m != nil && !m.Decided() {
			return fmt.Errorf("%w: %s", ErrMoving, m)
		}
		if _, err := l.Hosts.Moved(shard, from, to); err != nil {
			return err
		}
		lost := l.IsLost(from)
		for _, name := range []string{from, to} {
			if lost && name == from {
				continue
			}
			if !n.running(l)(name) {
				return fmt.Errorf("%w: node %s is not connected", ErrNodeAway, name)
			}
		}
		if !begins(l) {
			return ErrMovedOn
		}
		move = &peering.Move{Number: l.Version + 1, Shard: shard, From: from, To: to, Step: peering.StepJoin, Lost: lost}
		l.Move, l.Ended = move, false
		return nil
	})
	if err != nil {
		return nil, err
	}
	n.config.Log.Info("a shard begins to move", "shard", shard, "from", from, "to", to, "lost", move.Lost)
	return move, nil
}

// Fill begins the next move that gives a node of [peering.Layout.Filling] its share, of a shard whose nodes are all
// connected, or notes that the node has its share. It does nothing if no such shard can move now. sizes are the bytes
// of the shards, nil if they are not known. Errors: those of Move.
func (n *Node) Fill(ctx context.Context, sizes shardmap.Sizes) error {
	l := n.site.Layout()
	if len(l.Filling) == 0 {
		return nil
	}
	connected := append(n.connectedNodes(), n.site.Node())
	step, filled := nextFill(&l, sizes, func(name string) bool { return slices.Contains(connected, name) })
	switch {
	case step.To != "":
		_, err := n.move(ctx, step.Shard, step.From, step.To, func(now *peering.Layout) bool {
			return slices.Contains(now.Filling, step.To)
		})
		return err
	case filled == "":
		return nil // when nodes are back
	}
	err := n.changeLayout(ctx, func(now *peering.Layout) error {
		if now.Version != l.Version {
			return ErrMovedOn
		}
		now.EndFilling(filled)
		return nil
	})
	if err == nil {
		n.config.Log.Info("a node that has joined has its share of the shards", "node", filled, "shards",
			len(l.Hosts.Of(filled)))
	}
	return err
}

// nextFill returns the next move that gives a node its share, or else the name of a node that has it: neither where all
// that is to be done waits for nodes that do not run. The node with the fewest shards comes first, so that of several
// that have joined all get some soon; one that has to wait holds up no other one.
func nextFill(l *peering.Layout, sizes shardmap.Sizes, runs func(node string) bool) (step shardmap.Step,
	filled string) {
	list := slices.Clone(l.Filling)
	slices.SortStableFunc(list, func(a, b string) int { return cmp.Compare(len(l.Hosts.Of(a)), len(l.Hosts.Of(b))) })
	for _, to := range list {
		step, now := l.Hosts.Fill(to, sizes, func(shard int) bool {
			return runs(to) && !slices.ContainsFunc(l.Hosts.Shards[shard], func(name string) bool { return !runs(name) })
		})
		if now {
			return step, ""
		}
		if _, later := l.Hosts.Fill(to, sizes, nil); !later {
			return shardmap.Step{}, to
		}
	}
	return shardmap.Step{}, ""
}

// SetAutomatic says whether nodes that join get their share of shards without a person. Without, moves to those that
// are getting it do not begin any more. Errors: those of Move.
func (n *Node) SetAutomatic(ctx context.Context, on bool) error {
	if n == nil {
		return ErrNotClustered
	}
	err := n.changeLayout(ctx, func(l *peering.Layout) error {
		if f := n.site.Format(); f < peering.JoinFormat {
			return fmt.Errorf("%w: it is %d, and this needs %d: run `lazuli cluster upgrade --finish` when all nodes run "+
				"this release", ErrMoveFormat, f, peering.JoinFormat)
		}
		if l.Manual == !on {
			return errAsItIs
		}
		if l.Manual = !on; !on {
			l.Filling = nil
		}
		return nil
	})
	if errors.Is(err, errAsItIs) {
		return nil
	}
	return err
}

// ErrNodeAway: a node of a move does not run.
var ErrNodeAway = errors.New("both nodes of a move must run when it begins")

// CancelMove takes the move under way back. Errors: [ErrNoMove], and ErrMovedOn if its streams move already: then it
// can only be moved back when it is done.
func (n *Node) CancelMove(ctx context.Context) (*peering.Move, error) {
	var move peering.Move
	err := n.changeLayout(ctx, func(l *peering.Layout) error {
		m := l.Moving()
		switch {
		case m == nil:
			return ErrNoMove
		case m.Cancelled(): // by another call
		case m.Step != peering.StepJoin && m.Step != peering.StepCopy:
			return fmt.Errorf("%w: the move of %s cannot be cancelled any more; when it is done, the shard can be moved "+
				"back", ErrMovedOn, m)
		}
		move = *m
		l.EndFilling(m.To) // or the same move would begin again
		if !m.Cancelled() {
			move.Step = peering.StepCancel
		}
		at := move
		l.Move = &at
		return nil
	})
	return &move, err
}

// followLayout looks for new layouts until ctx ends.
func (n *Node) followLayout(ctx context.Context) {
	var problem string
	for {
		every := layoutEvery
		if n.site.Layout().Moving() != nil {
			every = movingEvery
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(every):
		}
		// Without a majority there is nothing new.
		if n.NoMajority() != nil {
			continue
		}
		err := n.ReadLayout(ctx)
		if err == nil {
			err = n.noteAddress(ctx)
		}
		if text := fmt.Sprint(err); err != nil && text != problem && ctx.Err() == nil {
			n.config.Log.Warn("cannot read which nodes have a shard; trying again", "err", err)
			problem = text
		}
	}
}

// heardLayout takes a layout of another node.
func (n *Node) heardLayout(m *nats.Msg) {
	var l peering.Layout
	if json.Unmarshal(m.Data, &l) != nil {
		return
	}
	if err := n.takeLayout(l); err != nil {
		n.config.Log.Warn("cannot take which nodes have a shard", "err", err)
	}
}

// evacuateAgain is the time after which JetStream is asked again to move a stream.
const evacuateAgain = 30 * time.Second

// MoveStreams asks JetStream to move streams of a shard, one after the other, away from a node, to those that have the
// shard's tag now. It returns true when no stream has a copy at the node any more, and all copies are current. It is
// called again until then. A node that is lost has to be removed from the members of a stream, as nothing comes from
// it; that is done only when two others have everything. Copies of lost nodes are not waited for.
func (n *Node) MoveStreams(ctx context.Context, names []string, from string) (moved bool, err error) {
	own, l := n.site.ServerNameOf(from), n.site.Layout()
	ctx, cancel := context.WithTimeout(ctx, layoutTimeout)
	defer cancel()
	moved = true
	for _, name := range names {
		info, replicas, err := n.copiesOf(ctx, name)
		switch {
		case err != nil:
			return false, fmt.Errorf("stream %s: %w", name, err)
		case replicas == 0:
			continue
		case info == nil || info.Leader == "":
			moved = false
			continue
		}
		has, current, whole := info.Leader == own, true, 1
		for _, r := range info.Replicas {
			has = has || r.Name == own
			if r.Current && !r.Offline {
				whole++
			} else if !l.IsLost(nodeOf(r.Name)) {
				current = false
			}
		}
		if !has && current && len(info.Replicas) == replicas-1 {
			continue
		}
		// One stream after the other, so that fewer leaders change at a time.
		n.mu.Lock()
		asked := n.asked == name+" "+own && time.Since(n.askedAt) < evacuateAgain
		if !asked {
			n.asked, n.askedAt = name+" "+own, time.Now()
		}
		n.mu.Unlock()
		if !has || asked {
			return false, nil
		}
		verb := "EVACUATE"
		if l.IsLost(from) {
			if verb = "REMOVE"; whole < 2 {
				n.forgetAsked()
				return false, fmt.Errorf("%w: stream %s has no two of them", ErrCopies, name)
			}
		}
		if err := n.movePeer(ctx, verb, name, own); err != nil {
			n.forgetAsked() // a node may not have its tag yet
			return false, err
		}
		return false, fault.Point(pointAsked)
	}
	return moved, nil
}

// copiesOf returns what the leader of a stream knows about its copies, and their number; 0 if there is no such stream.
func (n *Node) copiesOf(ctx context.Context, name string) (*server.ClusterInfo, int, error) {
	answer, err := natsserver.AskJSON[server.JSApiStreamInfoResponse](ctx, n.server.Conn(),
		fmt.Sprintf(server.JSApiStreamInfoT, name), nil)
	switch {
	case err != nil:
		return nil, 0, err
	case answer.Error != nil && answer.Error.ErrCode == uint16(jetstream.JSErrCodeStreamNotFound):
		return nil, 0, nil
	case answer.Error != nil:
		return nil, 0, errors.New(answer.Error.Description)
	case answer.StreamInfo == nil:
		return nil, 0, ErrNoAnswer
	}
	if answer.Cluster != nil {
		n.nameReplicas(answer.Cluster)
	}
	return answer.Cluster, answer.Config.Replicas, nil
}

// forgetAsked makes MoveStreams ask JetStream at its next call.
func (n *Node) forgetAsked() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked = ""
}

// pointAsked is the point of a move at which JetStream was asked to move one of the streams.
var pointAsked = fault.Declare("move/asked")

// movePeer asks JetStream to give another server the copy that the server own has of a stream: with EVACUATE the copy
// stays until the other one is whole, with REMOVE it does not count any more. That it is on its way already is no
// error.
func (n *Node) movePeer(ctx context.Context, verb, name, own string) error {
	answer, err := natsserver.AskJSON[struct {
		Error *struct {
			Code        int    `json:"err_code"`
			Description string `json:"description"`
		} `json:"error"`
	}](ctx, n.server.Conn(), "$JS.API.STREAM.PEER."+verb+"."+name, map[string]string{"peer": natsserver.PeerID(own)})
	if err != nil {
		return fmt.Errorf("moving stream %s: %w", name, err)
	}
	if answer.Error != nil && answer.Error.Code != peerNotMember {
		return fmt.Errorf("moving stream %s: %s", name, cmp.Or(answer.Error.Description, "refused"))
	}
	return nil
}

// peerNotMember is JetStream's error code for a server that is not among the ones to which a stream goes.
const peerNotMember = 10040
