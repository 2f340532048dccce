package server

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/cluster"
	"github.com/lazuli-storage/lazuli/internal/cluster/peering"
	"github.com/lazuli-storage/lazuli/internal/storage/shardmap"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// further adds the configuration of a node that is in no other node's list, and returns its index.
func (c *moving) further(name string) int {
	c.t.Helper()
	o := c.configs[0]
	o.Location = c.t.TempDir()
	self := peering.Peer{Name: name, Address: check.FreeAddress(c.t)}
	node := *o.Cluster
	node.Node, node.Listen, node.Peers = name, self.Address, append(slices.Clone(node.Peers), self)
	o.Cluster = &node
	c.configs, c.nodes = append(c.configs, o), append(c.nodes, nil)
	return len(c.configs) - 1
}

// refused starts a node that cannot join, and checks why.
func (c *moving) refused(node int, change func(*peering.Config), want error, text string) {
	c.t.Helper()
	o := c.configs[node]
	o.Location = c.t.TempDir()
	p := *o.Cluster
	p.Peers = slices.Clone(p.Peers)
	change(&p)
	o.Cluster = &p
	if _, err := StartContext(c.t.Context(), o); !errors.Is(err, want) || !strings.Contains(fmt.Sprint(err), text) {
		c.t.Errorf("%s: error %v, want %v with %q", p.Node, err, want, text)
	}
}

// connected waits until all nodes that run are connected to as many others as all of them need.
func (c *moving) connected(voters int) {
	c.t.Helper()
	for i, n := range c.nodes {
		if n == nil {
			continue
		}
		node := n.services.Load().node
		check.Eventually(c.t, func() bool { return node.Voters() == voters && node.View().Connected == voters-1 },
			"node %d counts %d nodes", i, voters)
	}
}

// Two further nodes join at the same time, which are in no other node's list, and not in each other's. They get shards,
// all nodes count them, also when they start again as before, and one leaves again when it has none. Its name can join
// again, with an empty folder only.
func TestNodesJoinAndLeave(t *testing.T) {
	if check.Size(0, 1) == 0 {
		t.Skip("starts seven nodes, some of them twice: with LAZULI_TEST_FULL")
	}
	t.Parallel()
	c := newMoving(t)
	front := c.startFront("f1")
	a, b := c.further("m1"), c.further("m2")
	// Nothing of this changes the cluster.
	taken := c.configs[0].Cluster.Peers[1].Address
	c.refused(a, func(p *peering.Config) { p.Peers[5].Address = taken; p.Peers = slices.Delete(p.Peers, 1, 2) },
		cluster.ErrJoin, "is that of node n1")
	c.refused(a, func(p *peering.Config) {
		p.Node = "n2"
		p.Peers[2].Address, p.Peers[2].Zone = p.Peers[5].Address, ""
		p.Peers = p.Peers[:5]
		p.Peers = append(p.Peers, peering.Peer{Name: "m3", Address: check.FreeAddress(t)})
	}, cluster.ErrJoin, "with another data folder")
	c.refused(a, func(p *peering.Config) {
		for i := range p.Peers {
			p.Peers[i].Zone = []string{"a", "b", "c"}[i%3]
		}
	}, cluster.ErrJoin, "the nodes of this cluster have no zones")
	if l := layoutOf(c.nodes[0]); l.Version != 0 {
		t.Fatalf("nodes that were refused have changed the layout: %+v", l)
	}

	// Both at the same time. They get shards until no node has two more than they, and then nothing moves any more.
	c.start(a, b)
	c.connected(7)
	c.have("first", a, b)
	check.Eventually(t, func() bool { l := layoutOf(c.nodes[0]); return l.Version > 0 && len(l.Filling) == 0 },
		"the new nodes have their share")
	for _, i := range []int{a, b} {
		check.Eventually(t, func() bool { return len(c.nodes[i].services.Load().list()) == 2 }, "%s has two shards",
			c.name(i))
	}
	if l := layoutOf(c.nodes[0]); l.Hosts.Revision != 7 || len(l.Hosts.Balance(nil)) > 0 {
		t.Errorf("after four moves to two nodes the table is %+v", l.Hosts)
	}
	// What a person moves stays, and so does a node that joins afterwards.
	check.OK(t, c.nodes[a].SetAutomatic(t.Context(), false))
	c.shard = c.hosts().Of("m1")[0]
	c.place()
	c.from = a
	c.ended(c.begin(b))
	c.empty(a)
	for i, name := range c.names {
		c.of([]int{a, b}[i%2], name).fill(t, "second"+name)
	}
	c.have("second", 0, 1, 2, 3, 4, a, b)
	c.complete(0, 1, 2, 3, 4, a, b)
	c.testPlaces(t)
	check.Eventually(t, func() bool { return len(front.forward.Serving()) == 7 }, "the front-end knows all nodes")

	// All start again as they were started.
	var stop sync.WaitGroup
	for i := range c.nodes {
		stop.Go(func() { c.stop(i) })
	}
	stop.Wait()
	c.start(0, 1, 2, 3, 4, a, b)
	c.connected(7)
	c.have("second", 0, 1, 2, 3, 4, a, b)

	remove := func(name string) error {
		var err error
		check.Eventually(t, func() bool { // streams may have no leader for a moment
			err = c.nodes[a].RemoveNode(t.Context(), name)
			return !errors.Is(err, cluster.ErrCopies) && !errors.Is(err, cluster.ErrNoAnswer) &&
				(!errors.Is(err, cluster.ErrNodeConnected) || c.nodes[c.index(name)] != nil)
		}, "%s is removed, or refused", name)
		return err
	}
	if err := remove("m2"); !errors.Is(err, cluster.ErrNodeConnected) {
		t.Errorf("removing a node that runs: %v", err)
	}
	c.drain("m2", a)
	c.stop(b)
	check.OK(t, remove("m2"))
	c.connected(6)
	l := layoutOf(c.nodes[3])
	if slices.Contains(l.Hosts.Names(), "m2") || l.Addresses["m1"] != c.configs[a].Cluster.Listen {
		t.Errorf("after m2 has left the layout is %+v", l)
	}
	if err := remove("m2"); !errors.Is(err, cluster.ErrUnknownNode) {
		t.Errorf("removing it again: %v", err)
	}
	c.configs[b].Location = t.TempDir()
	c.start(b)
	c.connected(7)
	c.have("second", b)
	if l := layoutOf(c.nodes[b]); len(l.Filling) > 0 || len(l.Hosts.Of("m2")) > 0 || !l.Manual {
		t.Errorf("a node that joins without automatic moves: %+v", l)
	}

	// A node of the beginning goes the same way, and comes back with the list of the beginning, which names it.
	const gone = 2
	c.drain(c.name(gone), b)
	c.stop(gone)
	check.OK(t, remove(c.name(gone)))
	c.connected(6)
	c.configs[gone].Location = t.TempDir()
	c.start(gone)
	c.connected(7)
	c.have("first", gone)
}

// drain moves all shards of a node away, as another one is asked.
func (c *moving) drain(name string, at int) {
	c.t.Helper()
	for _, step := range check.Must(c.hosts().Drain(name, nil))(c.t) {
		c.shard, c.from, c.to = step.Shard, c.index(step.From), c.index(step.To)
		c.ended(c.begin(at))
	}
}

// index returns the index of a node.
func (c *moving) index(name string) int {
	return slices.IndexFunc(c.configs, func(o Config) bool { return o.Cluster.Node == name })
}

// A cluster with an older format takes no node in. It is not parallel, since it acts as another release.
func TestJoinNeedsTheFormat(t *testing.T) {
	if check.Size(0, 1) == 0 {
		t.Skip("starts five nodes: with LAZULI_TEST_FULL")
	}
	newest := peering.Supported.Newest
	defer func() { peering.Supported.Newest = newest }()
	peering.Supported.Newest = peering.JoinFormat - 1
	c := newMoving(t)
	a := c.further("m1")
	c.refused(a, func(*peering.Config) {}, cluster.ErrJoin, "it is 6, and a further node needs 7")
	if hosts := c.hosts(); len(hosts.Names()) != 5 || hosts.Revision != 1 || shardmap.Copies != 3 {
		t.Errorf("the nodes are %v", hosts.Names())
	}
}
