package shardmap

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// places returns nodes, in zones of equal size unless zones is 0.
func places(nodes, zones int) (list []Place) {
	for i := range nodes {
		p := Place{Node: fmt.Sprint("n", i)}
		if zones > 0 {
			p.Zone = fmt.Sprint("zone-", i%zones)
		}
		list = append(list, p)
	}
	return list
}

// Whatever the numbers of nodes, zones and shards, each shard is on three nodes in three zones, and the nodes have
// nearly equally many.
func TestNewHosts(t *testing.T) {
	for nodes := Copies; nodes <= MaxNodes; nodes++ {
		for _, zones := range []int{0, 3, 4, 5} {
			for _, shards := range []int{(nodes + 2) / 3, nodes, 4 * nodes} {
				if shards < 2 || zones > nodes || shards > Max || zones > 0 && nodes%zones > 0 {
					continue
				}
				name := fmt.Sprintf("%d nodes, %d zones, %d shards", nodes, zones, shards)
				h, err := NewHosts(places(nodes, zones), shards)
				if err != nil {
					t.Errorf("%s: %v", name, err)
					continue
				}
				check.OK(t, h.Check())
				least, most := shards, 0
				for _, n := range h.Names() {
					least, most = min(least, len(h.Of(n))), max(most, len(h.Of(n)))
				}
				if most-least > 2 {
					t.Errorf("%s: nodes have %d to %d of them", name, least, most)
				}
			}
		}
	}
}

// The figure that was asked for: 36 shards on nine nodes in three zones.
func TestNewHostsOfNine(t *testing.T) {
	h := check.Must(NewHosts(places(9, 3), 36))(t)
	for _, a := range h.Names() {
		if n := len(h.Of(a)); n != 12 {
			t.Errorf("node %s has %d shards", a, n)
		}
		for _, b := range h.Names() {
			both := 0
			for n := range h.Shards {
				if a != b && h.On(a, n) && h.On(b, n) {
					both++
				}
			}
			if both > 6 {
				t.Errorf("the loss of %s and %s would stop %d of 36 shards", a, b, both)
			}
		}
	}
}

// The table is what all nodes compute by themselves, so it must never change for the same nodes.
func TestHostsAreKept(t *testing.T) {
	list := places(5, 0)
	h := check.Must(NewHosts(list, 4))(t)
	const want = "[[n0 n1 n2] [n1 n3 n4] [n2 n3 n4] [n0 n3 n4]]"
	if got := fmt.Sprint(h.Shards); got != want || h.Sum() != "49d8091f55106f33" {
		t.Errorf("the shards are on %s, with the sum %s", got, h.Sum())
	}
	slices.Reverse(list)
	if again := check.Must(NewHosts(list, 4))(t); again.Sum() != h.Sum() {
		t.Error("another order of the nodes gives another table")
	}
	var read Hosts
	check.OK(t, json.Unmarshal(check.Must(json.Marshal(h))(t), &read))
	if read.Sum() != h.Sum() || read.Check() != nil {
		t.Errorf("the table that was read is %+v", read)
	}
	if h.On("n9", 0) || h.On("n0", 4) || h.On("n0", -1) || h.Of("n9") != nil {
		t.Error("the table knows what it does not have")
	}
}

func TestHostsRefused(t *testing.T) {
	some := places(5, 0)
	some[1].Zone = "a"
	twice := append(places(4, 0), Place{Node: "n0"})
	for name, try := range map[string]struct {
		places []Place
		shards int
	}{
		"one shard":            {places(5, 0), 1},
		"too many shards":      {places(5, 0), Max + 1},
		"two nodes":            {places(2, 0), 4},
		"too many nodes":       {places(MaxNodes+1, 0), 16},
		"two zones":            {places(6, 2), 4},
		"a node without shard": {places(9, 0), 2},
		"a node without zone":  {some, 4},
		"a node twice":         {twice, 4},
		"a node without name":  {append(places(4, 0), Place{}), 4},
	} {
		if h, err := NewHosts(try.places, try.shards); !errors.Is(err, ErrHosts) {
			t.Errorf("%s: %v, error %v", name, h, err)
		}
	}
	change := func(f func(*Hosts)) *Hosts {
		h := check.Must(NewHosts(places(6, 3), 4))(t)
		f(h)
		return h
	}
	for name, h := range map[string]*Hosts{
		"no revision":      change(func(h *Hosts) { h.Revision = 0 }),
		"no shards":        change(func(h *Hosts) { h.Shards = nil }),
		"no nodes":         change(func(h *Hosts) { h.Nodes = nil }),
		"an unknown node":  change(func(h *Hosts) { h.Shards[1][0] = "n9" }),
		"two copies":       change(func(h *Hosts) { h.Shards[1] = h.Shards[1][:2] }),
		"a node twice":     change(func(h *Hosts) { h.Shards[1][0] = h.Shards[1][1] }),
		"one zone for two": change(func(h *Hosts) { h.Shards[1] = []string{"n0", "n1", "n3"} }),
	} {
		if err := h.Check(); !errors.Is(err, ErrHosts) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// A node comes without a shard, and goes when it has none.
func TestAddedAndRemoved(t *testing.T) {
	h := check.Must(NewHosts(places(6, 3), 4))(t)
	before := h.Sum()
	next := check.Must(h.Added(Place{"m", "zone-1"}))(t)
	if next.Revision != 2 || next.Nodes[0].Node != "m" || next.Of("m") != nil || next.Zone("m") != "zone-1" ||
		h.Sum() != before {
		t.Errorf("with a further node %+v", next)
	}
	if back := check.Must(next.Removed("m"))(t); !slices.Equal(back.Nodes, h.Nodes) || back.Revision != 3 {
		t.Errorf("without it again %+v", back)
	}
	if got := len(next.Balance(nil)); got != 1 { // 12 copies on seven nodes: one or two each
		t.Errorf("%d moves give the node its share", got)
	}
	flat := check.Must(NewHosts(places(3, 0), 4))(t)
	full := check.Must(NewHosts(places(MaxNodes, 0), 16))(t)
	last := check.Must(check.Must(NewHosts(places(3, 3), 4))(t).Added(Place{"m", "zone-1"}))(t)
	for want, err := range map[string]error{
		"has a node n1 already":      second(h.Added(Place{"n1", "zone-1"})),
		"give it one, as m=ADDRESS@": second(h.Added(Place{"m", ""})),
		"have no zones":              second(flat.Added(Place{"m", "zone-1"})),
		"which is the largest":       second(full.Added(Place{"m", ""})),
		"has no name":                second(flat.Added(Place{})),
		"has no node":                second(h.Removed("m")),
		"node n1 has 2 shards":       second(h.Removed("n1")),
		"node n1 has 4 shards":       second(last.Removed("n1")),
	} {
		if !errors.Is(err, ErrHosts) || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// A node gets its share by moves that lead to it alone, each from a node with more.
func TestFill(t *testing.T) {
	// In three zones each shard has a node in each, so a node takes from those of its own zone alone.
	for zones, want := range map[int]int{0: 10, 3: 9} {
		zone := map[int]string{3: "zone-1"}[zones]
		h := check.Must(check.Must(NewHosts(places(9, zones), 36))(t).Added(Place{"m", zone}))(t)
		moves := 0
		for ; ; moves++ {
			step, more := h.Fill("m", nil, func(int) bool { return true })
			if !more {
				break
			}
			if step.To != "m" || len(h.Of(step.From)) < len(h.Of("m"))+2 {
				t.Fatalf("%d zones: the move %+v", zones, step)
			}
			h = check.Must(h.Moved(step.Shard, step.From, step.To))(t)
		}
		if moves != len(h.Of("m")) || moves != want {
			t.Errorf("%d zones: %d moves, and the node has %d of 36 shards", zones, moves, len(h.Of("m")))
		}
	}
	h := check.Must(check.Must(NewHosts(places(3, 0), 4))(t).Added(Place{"m", ""}))(t)
	step, more := h.Fill("m", nil, func(shard int) bool { return shard == 2 })
	if _, other := h.Fill("m", nil, func(int) bool { return false }); !more || step.Shard != 2 || other {
		t.Errorf("only shard 2 is allowed, and the move is %+v, %v", step, more)
	}
}

func second(_ *Hosts, err error) error { return err }

// A move changes one shard, and what breaks a rule is refused with the reason.
func TestMoved(t *testing.T) {
	h := check.Must(NewHosts([]Place{{"a1", "a"}, {"a2", "a"}, {"b1", "b"}, {"b2", "b"}, {"c1", "c"}}, 4))(t)
	before := h.Sum()
	from := h.Shards[0][0] // a1 or a2
	to := map[string]string{"a1": "a2", "a2": "a1"}[from]
	next := check.Must(h.Moved(0, from, to))(t)
	if next.Revision != 2 || !next.On(to, 0) || next.On(from, 0) || !slices.Equal(next.Shards[1], h.Shards[1]) {
		t.Errorf("after the move %+v", next)
	}
	if h.Sum() != before {
		t.Error("the table before has changed")
	}
	back := check.Must(next.Moved(0, to, from))(t)
	if !slices.Equal(back.Shards[0], h.Shards[0]) || back.Revision != 3 {
		t.Errorf("moved back %+v", back)
	}
	for name, try := range map[string]struct {
		shard    int
		from, to string
		want     string
	}{
		"shard":      {4, from, to, "there is no shard 4"},
		"negative":   {-1, from, to, "there is no shard -1"},
		"no node":    {0, "x", to, `the cluster has no node "x"`},
		"no target":  {0, from, "", `the cluster has no node ""`},
		"not there":  {0, to, from, "does not have shard 0"},
		"there":      {0, from, "c1", "has shard 0 already"},
		"same":       {0, from, from, "has shard 0 already"},
		"other zone": {0, "c1", to, "is in zone a, where " + from + " has a copy"},
	} {
		_, err := h.Moved(try.shard, try.from, try.to)
		if !errors.Is(err, ErrHosts) || !strings.Contains(err.Error(), try.want) {
			t.Errorf("%s: error %v, want %q", name, err, try.want)
		}
	}
	drained := h
	for _, step := range check.Must(h.Drain(from, nil))(t) {
		drained = check.Must(drained.Moved(step.Shard, step.From, step.To))(t)
	}
	if n := len(drained.Of(from)); n > 0 {
		t.Errorf("a drained node has %d shards", n)
	}
	if _, err := h.Drain("x", nil); !errors.Is(err, ErrHosts) {
		t.Errorf("an unknown node is drained: %v", err)
	}
	if _, err := h.Drain("c1", nil); !errors.Is(err, ErrHosts) || !strings.Contains(err.Error(), "no other node can take") {
		t.Errorf("the only node of a zone is drained: %v", err)
	}
}

// A shard of a lost node goes to the node that has the fewest of those that may get it, and to no zone that has it.
func TestReplace(t *testing.T) {
	h := check.Must(NewHosts([]Place{{"a1", "a"}, {"a2", "a"}, {"a3", "a"}, {"b1", "b"}, {"c1", "c"}}, 6))(t)
	h = check.Must(h.Moved(0, h.Shards[0][0], map[string]string{"a1": "a2", "a2": "a3", "a3": "a1"}[h.Shards[0][0]]))(t)
	for shard, names := range h.Shards {
		lost := names[0]
		step := check.Must(h.Replace(shard, lost, func(string) bool { return true }))(t)
		next := check.Must(h.Moved(step.Shard, step.From, step.To))(t)
		for _, other := range []string{"a1", "a2", "a3"} {
			if other != lost && len(h.Of(other)) < len(h.Of(step.To)) {
				t.Errorf("shard %d of %s goes to %s, and %s has fewer", shard, lost, step.To, other)
			}
		}
		if step.From != lost || next.Zone(step.To) != "a" {
			t.Errorf("shard %d of %s: %+v", shard, lost, step)
		}
		only := check.Must(h.Replace(shard, lost, func(node string) bool { return node != step.To }))(t)
		if only.To == step.To {
			t.Errorf("shard %d goes to a node that may not get it", shard)
		}
		if _, err := h.Replace(shard, "b1", func(string) bool { return true }); !errors.Is(err, ErrHosts) {
			t.Errorf("the only node of a zone: %v", err)
		}
	}
}

// Whatever was moved, the moves of Balance give each node its share, with the rules of zones kept, and an even table
// has none.
func TestBalance(t *testing.T) {
	for nodes := Copies + 1; nodes <= MaxNodes; nodes++ {
		for _, zones := range []int{0, 3} {
			if zones > 0 && nodes%zones > 0 {
				continue
			}
			h := check.Must(NewHosts(places(nodes, zones), min(4*nodes, Max)))(t)
			node := h.Names()[0]
			steps, err := h.Drain(node, nil)
			if err != nil {
				t.Errorf("%d nodes, %d zones: %v", nodes, zones, err)
				continue
			}
			for _, s := range steps {
				h = check.Must(h.Moved(s.Shard, s.From, s.To))(t)
			}
			back := h.Balance(nil)
			for _, s := range back {
				h = check.Must(h.Moved(s.Shard, s.From, s.To))(t)
			}
			order := h.byLoad(nil)
			least, most := len(h.Of(order[0])), len(h.Of(order[nodes-1]))
			if most-least > 1 || len(back) > len(steps) || len(h.Balance(nil)) > 0 {
				t.Errorf("%d nodes, %d zones: %d to %d shards a node after %d moves, and %d to drain", nodes, zones, least,
					most, len(back), len(steps))
			}
		}
	}
}
