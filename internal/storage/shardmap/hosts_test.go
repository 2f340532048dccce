package shardmap

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
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
