package server

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/cluster"
	"github.com/lazuli-storage/lazuli/internal/cluster/peering"
	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/storage/shardmap"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// moving is a cluster in which a shard moves.
type moving struct {
	*spreadNodes
	shard    int
	from, to int // nodes
	other    int // has the shard neither before nor after
}

// newMoving starts five nodes with content in all accounts.
func newMoving(t *testing.T) *moving {
	t.Helper()
	c := &moving{spreadNodes: newSpreadNodes(t), shard: 1}
	c.start(0, 1, 2, 3, 4)
	for i, name := range c.names {
		c.of(i%5, name).fill(t, "first"+name)
		large := random(uint64(i), 300_000)
		check.Must(c.of(i%5, name).blobs.UploadBuffer(t.Context(), "first"+name, "large", large, nil))(t)
	}
	c.place()
	return c
}

// place finds a move of the shard.
func (c *moving) place() {
	hosts := c.hosts()
	c.from, c.to, c.other = -1, -1, -1
	for i := range c.configs {
		switch on := hosts.On(c.name(i), c.shard); {
		case on && c.from < 0:
			c.from = i
		case !on && c.to < 0:
			c.to = i
		case !on:
			c.other = i
		}
	}
}

func (c *moving) name(node int) string { return c.configs[node].Cluster.Node }

// begin begins the move at a node.
func (c *moving) begin(node int) *peering.Move {
	c.t.Helper()
	var move *peering.Move
	var err error
	check.Eventually(c.t, func() bool { // nodes that have just started may elect a leader
		move, err = c.nodes[node].MoveShard(c.t.Context(), c.shard, c.name(c.from), c.name(c.to))
		return !errors.Is(err, cluster.ErrNoAnswer) && !errors.Is(err, cluster.ErrNodeAway)
	}, "the move begins")
	if errors.Is(err, cluster.ErrMoving) { // by an attempt without an answer
		move, err = layoutOf(c.nodes[node]).Moving(), nil
	}
	check.OK(c.t, err)
	return move
}

// at waits until a node knows that the move is at a step.
func (c *moving) at(node int, step peering.Step) {
	c.t.Helper()
	check.Eventually(c.t, func() bool {
		m := layoutOf(c.nodes[node]).Moving()
		return m != nil && m.Step == step
	}, "the move is at %s", step)
}

// ended waits until all nodes that run know that a move has ended.
func (c *moving) ended(move *peering.Move) {
	c.t.Helper()
	for i, n := range c.nodes {
		if n == nil {
			continue
		}
		check.Eventually(c.t, func() bool {
			l := layoutOf(n)
			return l.Move != nil && l.Move.Number == move.Number && l.Ended
		}, "node %d knows that the move has ended", i)
	}
}

// empty checks that a node has no files of the shard.
func (c *moving) empty(node int) {
	c.t.Helper()
	if empty := check.Must(c.nodes[node].dir.Shard(c.shard).Empty())(c.t); !empty {
		c.t.Errorf("node %d has files of the shard", node)
	}
}

// A copy of a shard moves, and moves back: everything is there, the node that leaves keeps nothing, and the one that
// comes has all. A node that was away the whole time learns of it when it starts.
func TestMoveOfAShard(t *testing.T) {
	if testing.Short() {
		t.Skip("starts five nodes")
	}
	t.Parallel()
	c := newMoving(t)
	c.stop(c.other)
	// A backup reads the shard at the node that it leaves, and does not hold that up.
	of := c.nodes[c.from].services.Load().numbered(c.shard)
	m := check.Must(c.nodes[c.from].momentOf(t.Context(), []*shard{of}))(t)
	ended := make(chan error, 1)
	go func() {
		<-m.stop.Done()
		err := m.shards[0].Database(context.Background(), "blobs", func([]byte) error { return nil })
		ended <- errors.Join(err, m.Close())
	}()
	c.ended(c.begin(c.to))
	if err := <-ended; !errors.Is(err, errShardCloses) {
		t.Errorf("the backup ends with %v", err)
	}
	c.empty(c.from)
	c.start(c.other)
	for i, n := range c.nodes {
		l := layoutOf(n)
		if l.Hosts.Revision != 2 || !l.Hosts.On(c.name(c.to), c.shard) || l.Hosts.On(c.name(c.from), c.shard) {
			t.Errorf("node %d has the layout %+v", i, l)
		}
	}
	c.have("first", 0, 1, 2, 3, 4)
	for i, name := range c.names {
		c.of((i+1)%5, name).fill(t, "second"+name)
	}
	c.complete(0, 1, 2, 3, 4)
	c.testPlaces(t)

	c.from, c.to = c.to, c.from
	c.ended(c.begin(c.from))
	c.empty(c.from)
	c.have("first", 0, 1, 2, 3, 4)
	c.have("second", 0, 1, 2, 3, 4)
	c.complete(0, 1, 2, 3, 4)
	c.testPlaces(t)
	for i := range c.nodes { // the folders open again
		c.stop(i)
	}
	c.start(0, 1, 2, 3, 4)
	c.have("second", 0, 1, 2, 3, 4)
	if l := layoutOf(c.nodes[0]); l.Hosts.Revision != 3 || l.Moving() != nil {
		t.Errorf("after a restart of all nodes the layout is %+v", l)
	}
}

// All shards of a node move away, one after the other. It stays in the cluster, starts again, and passes requests on,
// those without an account as well; then it gets its share back.
func TestDrainedNode(t *testing.T) {
	if testing.Short() {
		t.Skip("starts five nodes")
	}
	t.Parallel()
	c := newMoving(t)
	const drained = 2
	do := func(steps []shardmap.Step) {
		t.Helper()
		if len(steps) == 0 {
			t.Fatal("nothing is to be moved")
		}
		for _, step := range steps {
			c.shard = step.Shard
			for i := range c.configs {
				switch c.name(i) {
				case step.From:
					c.from = i
				case step.To:
					c.to = i
				}
			}
			c.ended(c.begin(0))
		}
	}
	do(check.Must(c.hosts().Drain(c.name(drained), nil))(t))
	if n := len(c.nodes[drained].services.Load().list()); n > 0 {
		t.Errorf("the node has %d shards", n)
	}
	c.stop(drained)
	c.start(drained)
	check.Eventually(t, func() bool { return c.nodes[drained].Ready() == nil }, "a node without shards is ready")
	c.have("first", drained)
	c.of(drained, c.names[0]).fill(t, "second"+c.names[0])
	r := check.Must(http.Get(c.nodes[drained].URL(wire.Blob, "")))(t) //nolint:noctx // a request without an account
	check.OK(t, r.Body.Close())
	if r.StatusCode != http.StatusBadRequest {
		t.Errorf("a request without an account: %s", r.Status)
	}
	do(c.hosts().Balance(nil))
	if n := len(c.hosts().Of(c.name(drained))); n != shardmap.Copies*spreadShards/5 {
		t.Errorf("the node has %d shards again", n)
	}
	c.have("first", 0, 1, 2, 3, 4)
	c.complete(0, 1, 2, 3, 4)
}

// What a move must not do is refused and changes nothing, a move can be cancelled until the streams move, and a node
// that was away when that was decided, or when the other nodes went on without it, comes to the same end.
//
// It is not parallel: the fault that holds the move would hold those of other tests.
func TestMovesThatStop(t *testing.T) {
	if testing.Short() {
		t.Skip("starts five nodes")
	}
	c := newMoving(t)
	refused := func(what string, err, want error, text string) {
		t.Helper()
		if !errors.Is(err, want) || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v, want %v with %q", what, err, want, text)
		}
	}
	try := func(shard int, from, to string) error {
		_, err := c.nodes[0].MoveShard(t.Context(), shard, from, to)
		return err
	}
	from, to := c.name(c.from), c.name(c.to)
	refused("no such shard", try(99, from, to), shardmap.ErrHosts, "there is no shard 99")
	refused("no such node", try(c.shard, from, "n9"), shardmap.ErrHosts, `no node "n9"`)
	refused("not there", try(c.shard, to, from), shardmap.ErrHosts, "does not have shard 1")
	_, err := c.nodes[0].CancelMove(t.Context())
	refused("nothing to cancel", err, cluster.ErrNoMove, "")
	c.stop(c.to)
	node := c.nodes[c.from].services.Load().node
	check.Eventually(t, func() bool { return node.View().Connected == 3 }, "the others know that the node has stopped")
	check.Eventually(t, func() bool { // without a leader there is another error for a while
		_, err := c.nodes[c.from].MoveShard(t.Context(), c.shard, from, to)
		return errors.Is(err, cluster.ErrNodeAway)
	}, "a node that is away is no target")
	c.start(c.to)
	if l := layoutOf(c.nodes[0]); l.Version != 0 {
		t.Fatalf("a refused move has changed the layout: %+v", l)
	}

	hold := fault.Activate(fault.NewPlan(fault.Rule{Point: pointCopied, Do: fault.Fail(errors.New("held"))}))
	move := c.begin(c.from)
	c.at(c.from, peering.StepCopy)
	refused("a second move", try(c.shard, from, to), cluster.ErrMoving, "shard 1 from "+from)
	check.Eventually(t, func() bool { return c.nodes[c.to].services.Load().numbered(c.shard) != nil },
		"the new node has the shard")
	// As if the node had missed the end of an earlier move: what it has open then does not count.
	open := c.nodes[c.to].services.Load()
	was := open.numbered(c.shard)
	check.Must(open.node.Arrive(move.Number + 100))(t)
	check.Eventually(t, func() bool {
		of := open.numbered(c.shard)
		return of != nil && of != was && open.node.Arriving() == move.Number
	}, "the new node opens the shard with another folder")
	c.have("first", c.to)
	c.stop(c.to)
	check.Eventually(t, func() bool {
		_, err := c.nodes[c.from].CancelMove(t.Context())
		return err == nil
	}, "the move is cancelled")
	hold()
	c.at(c.from, peering.StepClean)
	c.start(c.to)
	c.ended(move)
	c.empty(c.to)
	if l := layoutOf(c.nodes[c.to]); l.Hosts.Revision != 1 || !l.Move.Cancelled() {
		t.Errorf("after a cancelled move the layout is %+v", l)
	}

	// The log says that the old node has left, and the layout does not yet: the node starts without the shard.
	plan := fault.NewPlan(fault.Rule{Point: pointLeft, Do: fault.Fail(errors.New("held"))})
	hold = fault.Activate(plan)
	move = c.begin(c.to)
	check.Eventually(t, func() bool { return plan.Hits(pointLeft) > 0 }, "the old node has left")
	_, err = c.nodes[c.to].CancelMove(t.Context())
	refused("a move whose streams have moved", err, cluster.ErrMovedOn, "cannot be cancelled")
	c.stop(c.from)
	c.start(c.from)
	if c.nodes[c.from].services.Load().numbered(c.shard) != nil {
		t.Error("a node that has left serves the shard")
	}
	c.have("first", c.from)
	c.stop(c.from)
	hold()
	c.at(c.to, peering.StepDelete)
	for i, name := range c.names {
		c.of([]int{c.to, c.other}[i%2], name).fill(t, "second"+name)
	}
	c.start(c.from)
	c.ended(move)
	c.empty(c.from)
	c.have("first", 0, 1, 2, 3, 4)
	c.have("second", 0, 1, 2, 3, 4)
	c.complete(0, 1, 2, 3, 4)
	c.testPlaces(t)
}

// layoutOf returns the layout that a node knows, an empty one while it is not open.
func layoutOf(s *Server) peering.Layout {
	l, _ := s.Layout()
	return l
}
