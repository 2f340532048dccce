package peering

import (
	"slices"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/storage/shardmap"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// A node keeps the newest layout that it has seen over its restarts, and passes it to nodes that join.
func TestLayout(t *testing.T) {
	t.Parallel()
	var config Config
	s := open(t, "n1", func(c *Config) { spread(c); config = *c })
	check.OK(t, s.Discover(t.Context(), func(string) {}))
	first := s.Layout()
	if first.Version != 0 || first.Hosts == nil || first.Moving() != nil || s.identity.Version != identityVersion {
		t.Fatalf("a new cluster has the layout %+v", first)
	}
	shard, from, to := aMove(t, first.Hosts)
	moved := check.Must(first.Hosts.Moved(shard, from, to))(t)
	move := &Move{Number: 1, Shard: shard, From: from, To: to, Step: StepCopy}
	take := func(l Layout, want bool) {
		t.Helper()
		if newer, err := s.Take(l); newer != want || err != nil {
			t.Errorf("taken: %v, %v; want %v", newer, err, want)
		}
	}
	take(Layout{Version: 2, Hosts: first.Hosts, Move: move}, true)
	take(Layout{Version: 2, Hosts: moved}, false)
	take(Layout{Version: 1, Hosts: moved}, false)
	if id := check.Must(ReadIdentity(config.Dir))(t); id.Version != movedVersion {
		t.Errorf("the file has version %d: a release before would call it damaged", id.Version)
	}
	if firstTime := check.Must(s.Arrive(1))(t); !firstTime || check.Must(s.Arrive(1))(t) {
		t.Error("the node does not know for which move its folder is")
	}
	s = check.Must(Open(config))(t)
	if l := s.Layout(); l.Version != 2 || l.Moving() == nil || *l.Move != *move || s.Arriving() != 1 {
		t.Errorf("after a restart the layout is %+v", l)
	}
	take(Layout{Version: 9, Hosts: moved, Move: move, Ended: true}, true)
	if s.Hosts().Revision != 2 || s.Layout().Moving() != nil {
		t.Errorf("the table is %+v", s.Hosts())
	}
	s = check.Must(Open(config))(t) // whose ID has the sum of another table

	other := open(t, "n2", spread)
	check.OK(t, other.settle(s.Identity().Cluster, Joining))
	r := s.Roster()
	r.Members["n2"] = other.Identity().Incarnation
	check.OK(t, other.Adopt(r))
	if l := other.Layout(); l.Version != 9 || l.Hosts.Sum() != moved.Sum() {
		t.Errorf("a node that joins has the layout %+v", l)
	}
	for name, l := range map[string]Layout{
		"no table":     {Version: 10},
		"other shards": {Version: 10, Hosts: check.Must(shardmap.NewHosts(moved.Nodes, 6))(t)},
	} {
		if newer, err := s.Take(l); newer || err == nil {
			t.Errorf("%s: taken: %v, %v", name, newer, err)
		}
	}
	all := open(t, "n1", nil)
	check.OK(t, all.Discover(t.Context(), func(string) {}))
	if newer, err := all.Take(Layout{Version: 1, Hosts: moved}); newer || err != nil || all.Hosts() != nil {
		t.Errorf("a cluster whose nodes have all shards has a table: %v, %v", newer, err)
	}
}

// aMove returns a move that a table allows.
func aMove(t *testing.T, h *shardmap.Hosts) (shard int, from, to string) {
	t.Helper()
	for n := range h.Shards {
		for _, from := range h.Shards[n] {
			for _, to := range h.Names() {
				if _, err := h.Moved(n, from, to); err == nil {
					return n, from, to
				}
			}
		}
	}
	t.Fatal("the table allows no move")
	return 0, "", ""
}

// The nodes that have a folder of a shard, and those at which its streams are placed, by the step of its move.
func TestLayoutOfAMove(t *testing.T) {
	t.Parallel()
	s := open(t, "n1", spread)
	check.OK(t, s.Discover(t.Context(), func(string) {}))
	hosts := s.Hosts()
	shard, from, to := aMove(t, hosts)
	moved := check.Must(hosts.Moved(shard, from, to))(t)
	type at struct{ fromHas, toHas, fromPlaces, toPlaces bool }
	for step, want := range map[Step]at{
		StepJoin:    {true, false, true, false},
		StepCopy:    {true, true, true, false},
		StepStreams: {true, true, false, true},
		StepLeave:   {true, true, false, true},
		StepDelete:  {false, true, false, true},
		StepCancel:  {true, true, true, false},
		StepClean:   {true, false, true, false},
	} {
		l := Layout{Version: 1, Hosts: hosts, Move: &Move{Number: 1, Shard: shard, From: from, To: to, Step: step}}
		if step == StepDelete {
			l.Hosts = moved
		}
		places := func(node string) bool { return slices.Contains(l.tags(node), tagOf(shard)) }
		if got := (at{l.Has(from, shard), l.Has(to, shard), places(from), places(to)}); got != want {
			t.Errorf("step %s: %+v, want %+v", step, got, want)
		}
		for n := range hosts.Shards {
			if n != shard && l.Has(from, n) != hosts.On(from, n) {
				t.Errorf("step %s: %s and shard %d", step, from, n)
			}
		}
	}
}
