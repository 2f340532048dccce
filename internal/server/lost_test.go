package server

import (
	"errors"
	"slices"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/cluster"
	"github.com/lazuli-storage/lazuli/internal/cluster/peering"
	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/storage/shardmap"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// lose gives a node up as another one is asked, and waits until it has left, as the others know.
func (c *moving) lose(node, at int) {
	c.t.Helper()
	name := c.name(node)
	check.Eventually(c.t, func() bool { // streams may have no leader, and not all nodes know what they lack
		err := c.nodes[at].LoseNode(c.t.Context(), name, false)
		if err != nil && !errors.Is(err, cluster.ErrCopies) && !errors.Is(err, cluster.ErrNoAnswer) &&
			!errors.Is(err, cluster.ErrNodeConnected) && !errors.Is(err, cluster.ErrNotLost) {
			c.t.Fatal(err)
		}
		return err == nil
	}, "%s is given up", name)
	for i, n := range c.nodes {
		if n == nil {
			continue
		}
		check.Eventually(c.t, func() bool { return !slices.Contains(layoutOf(n).Hosts.Names(), name) },
			"node %d knows that %s has left", i, name)
	}
}

// A node is lost, and another one that was about to get a shard while its streams move. Their shards get other nodes,
// everything is there, the old folder is refused, and the name comes again with an empty one. What must not be given up
// is refused, and changes nothing.
//
// It is not parallel: the fault that holds the move would hold those of other tests.
func TestLostNodes(t *testing.T) {
	if check.Size(0, 1) == 0 {
		t.Skip("starts five nodes, some of them twice: with LAZULI_TEST_FULL")
	}
	c := newMoving(t)
	lost := c.from
	other := c.index(slices.DeleteFunc(slices.Clone(c.hosts().Shards[c.shard]),
		func(name string) bool { return name == c.name(lost) })[0])
	at := c.to
	try := func(name string) error { return c.nodes[at].LoseNode(t.Context(), name, false) }
	if err := try("n9"); !errors.Is(err, cluster.ErrUnknownNode) {
		t.Errorf("an unknown node: %v", err)
	}
	if err := try(c.name(at)); !errors.Is(err, cluster.ErrNodeConnected) {
		t.Errorf("the node that is asked: %v", err)
	}
	if err := try(c.name(lost)); !errors.Is(err, cluster.ErrNodeConnected) {
		t.Errorf("a node that runs: %v", err)
	}
	c.stop(lost)
	c.stop(other)
	node := c.nodes[at].services.Load().node
	check.Eventually(t, func() bool { return node.View().Connected == 2 }, "the others know that two nodes have stopped")
	if err := try(c.name(lost)); !errors.Is(err, cluster.ErrCopies) && !errors.Is(err, cluster.ErrNotLost) {
		t.Errorf("a node whose shard has one copy beside: %v", err)
	}
	if l := layoutOf(c.nodes[at]); l.Version != 0 {
		t.Fatalf("what was refused has changed the layout: %+v", l)
	}
	c.start(other)
	c.lose(lost, at)
	var left []int
	for i, n := range c.nodes {
		if n != nil {
			left = append(left, i)
		}
	}
	c.have("first", left...)
	c.complete(left...)
	for i, name := range c.names {
		c.of(left[i%len(left)], name).fill(t, "second"+name)
	}

	if _, err := StartContext(t.Context(), c.configs[lost]); !errors.Is(err, peering.ErrLost) &&
		!errors.Is(err, cluster.ErrRemoved) {
		t.Errorf("the folder that was lost starts: %v", err)
	}
	c.configs[lost].Location = t.TempDir()
	c.start(lost)
	c.connected(5)
	check.Eventually(t, func() bool { return len(layoutOf(c.nodes[at]).Filling) == 0 }, "the name has its share again")
	check.Eventually(t, func() bool { return layoutOf(c.nodes[at]).Moving() == nil }, "nothing moves")
	c.have("second", 0, 1, 2, 3, 4)
	c.testPlaces(t)

	c.place()
	hold := fault.Activate(fault.NewPlan(fault.Rule{Point: pointMoved, Do: fault.Fail(errors.New("held"))}))
	move := c.begin(c.from)
	c.at(c.from, peering.StepStreams)
	lost = c.to
	c.stop(lost)
	hold()
	c.lose(lost, c.from)
	hosts := c.hosts()
	if !hosts.On(c.name(c.from), c.shard) || len(hosts.Names()) != 4 || hosts.Check() != nil {
		t.Errorf("after the move %+v to a node that was lost the table is %+v", move, hosts)
	}
	left = slices.DeleteFunc([]int{0, 1, 2, 3, 4}, func(i int) bool { return i == lost })
	c.have("first", left...)
	c.have("second", left...)
	c.complete(left...)
	// Four are left. With two more lost, a shard would have less than three nodes.
	c.stop(c.from)
	third := left[slices.IndexFunc(left, func(i int) bool { return i != c.from })]
	c.lose(c.from, third)
	left = slices.DeleteFunc(left, func(i int) bool { return i == c.from })
	c.stop(left[2])
	check.Eventually(t, func() bool { // another reason, as long as streams have no leader
		return errors.Is(c.nodes[left[0]].LoseNode(t.Context(), c.name(left[2]), false), shardmap.ErrHosts)
	}, "with three nodes none can take a shard")
}
