package shardmap

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Copies is the number of nodes that have a shard, when not all of them have it.
const Copies = 3

// MaxNodes is the largest number of nodes in a table of hosts.
const MaxNodes = 16

// ErrHosts means that nodes cannot have the shards as it was asked for. The error that wraps it says why.
var ErrHosts = errors.New("the shards cannot be placed")

// Place is a node, and the zone that it is in: what fails together, such as a rack. Zone is "" for all nodes or for
// none.
type Place struct {
	Node string `json:"node"`
	Zone string `json:"zone,omitempty"`
}

// Hosts says which nodes have a shard: the table of a cluster in which a node has a part of the shards only. It does
// not change, and is safe for concurrent use.
type Hosts struct {
	// Revision is the number of the version of the table. A new table has 1.
	Revision uint64 `json:"revision"`
	// Nodes are all nodes, by name.
	Nodes []Place `json:"nodes"`
	// Shards are the nodes of each shard, by name.
	Shards [][]string `json:"shards"`
}

// NewHosts places the shards of a new cluster, each on [Copies] nodes. Its result depends on the arguments alone, and
// not on the order of the nodes, so that all nodes get the same one by themselves. Where the nodes have zones, no shard
// is twice in one. Errors: [ErrHosts].
func NewHosts(places []Place, shards int) (*Hosts, error) {
	h := &Hosts{Revision: 1, Nodes: slices.Clone(places)}
	slices.SortFunc(h.Nodes, func(a, b Place) int { return strings.Compare(a.Node, b.Node) })
	if shards < 2 || shards > Max {
		return nil, fmt.Errorf("%w: there must be 2 to %d shards, not %d", ErrHosts, Max, shards)
	}
	if err := h.checkNodes(); err != nil {
		return nil, err
	}
	load := make([]int, len(h.Nodes))
	together := map[[2]int]int{} // shards that two nodes both have
	for shard := range shards {
		var chosen []int
		for range Copies {
			best := -1
			for i := range h.Nodes {
				// The first of equals would be the same node for each shard: begin with another one.
				i = (i + shard) % len(h.Nodes)
				if h.conflicts(chosen, i) {
					continue
				}
				if best < 0 || h.better(load, together, chosen, i, best) {
					best = i
				}
			}
			chosen = append(chosen, best)
		}
		var names []string
		for _, i := range chosen {
			load[i]++
			for _, j := range chosen {
				together[[2]int{i, j}]++
			}
			names = append(names, h.Nodes[i].Node)
		}
		slices.Sort(names)
		h.Shards = append(h.Shards, names)
	}
	for i, n := range load {
		if n == 0 {
			return nil, fmt.Errorf("%w: node %s would have none of %d: give more shards, or make it a front-end", ErrHosts,
				h.Nodes[i].Node, shards)
		}
	}
	return h, nil
}

// conflicts reports whether a node cannot have a shard that the chosen ones have.
func (h *Hosts) conflicts(chosen []int, i int) bool {
	return slices.ContainsFunc(chosen, func(j int) bool {
		return i == j || h.Nodes[i].Zone != "" && h.Nodes[i].Zone == h.Nodes[j].Zone
	})
}

// better reports whether node a is to have a shard rather than node b: the one with fewer shards, and then the one that
// has fewer of them in common with the nodes that were chosen, so that the loss of two nodes meets few shards.
func (h *Hosts) better(load []int, together map[[2]int]int, chosen []int, a, b int) bool {
	if load[a] != load[b] {
		return load[a] < load[b]
	}
	shared := 0
	for _, j := range chosen {
		shared += together[[2]int{a, j}] - together[[2]int{b, j}]
	}
	return shared < 0
}

// checkNodes checks the nodes, which are in the order of their names.
func (h *Hosts) checkNodes() error {
	if n := len(h.Nodes); n < Copies || n > MaxNodes {
		return fmt.Errorf("%w: there must be %d to %d nodes, not %d", ErrHosts, Copies, MaxNodes, n)
	}
	zones, without := map[string]bool{}, 0
	for i, n := range h.Nodes {
		if n.Node == "" || i > 0 && n.Node <= h.Nodes[i-1].Node {
			return fmt.Errorf("%w: node %q has no name, or that of another one", ErrHosts, n.Node)
		}
		if n.Zone == "" {
			without++
			continue
		}
		zones[n.Zone] = true
	}
	switch {
	case len(zones) == 0:
	case without > 0:
		return fmt.Errorf("%w: some nodes have a zone, and %d have none", ErrHosts, without)
	case len(zones) < Copies:
		return fmt.Errorf("%w: %d zones are too few for %d copies in different ones", ErrHosts, len(zones), Copies)
	}
	return nil
}

// On reports whether a node has a shard.
func (h *Hosts) On(node string, shard int) bool {
	return shard >= 0 && shard < len(h.Shards) && slices.Contains(h.Shards[shard], node)
}

// Of returns the numbers of the shards that a node has, in order.
func (h *Hosts) Of(node string) (shards []int) {
	for n := range h.Shards {
		if h.On(node, n) {
			shards = append(shards, n)
		}
	}
	return shards
}

// Names returns the names of all nodes, in order.
func (h *Hosts) Names() (names []string) {
	for _, n := range h.Nodes {
		names = append(names, n.Node)
	}
	return names
}

// Sum is a checksum of the table: two nodes with the same one agree about all shards.
func (h *Hosts) Sum() string {
	text, _ := json.Marshal(h) // texts and numbers
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// Check returns what is wrong with a table that was read. Errors: [ErrHosts].
func (h *Hosts) Check() error {
	if h.Revision == 0 || len(h.Shards) < 2 || len(h.Shards) > Max {
		return fmt.Errorf("%w: the table has revision %d and %d shards", ErrHosts, h.Revision, len(h.Shards))
	}
	if err := h.checkNodes(); err != nil {
		return err
	}
	for n, names := range h.Shards {
		var chosen []int
		for _, name := range names {
			i := slices.IndexFunc(h.Nodes, func(p Place) bool { return p.Node == name })
			if i < 0 || h.conflicts(chosen, i) {
				return fmt.Errorf("%w: shard %d is on %s", ErrHosts, n, strings.Join(names, ", "))
			}
			chosen = append(chosen, i)
		}
		if len(chosen) != Copies {
			return fmt.Errorf("%w: shard %d is on %d nodes", ErrHosts, n, len(chosen))
		}
	}
	return nil
}
