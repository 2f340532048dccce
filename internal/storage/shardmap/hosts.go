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

// Hosts says which nodes have a shard: the table of a cluster in which a node has a part of the shards only. A value
// does not change, and is safe for concurrent use; a move makes another one ([Hosts.Moved]).
type Hosts struct {
	// Revision is the number of the version of the table. A new table has 1.
	Revision uint64 `json:"revision"`
	// Nodes are all nodes, by name.
	Nodes []Place `json:"nodes"`
	// Shards are the nodes of each shard, by name.
	Shards [][]string `json:"shards"`
}

// NewHosts places the shards of a new cluster, each on [Copies] nodes. Its result depends on the arguments alone, and
// not on the order of the nodes, so that all nodes get the same one by themselves. Where the nodes have zones, no
// shard is twice in one. Errors: [ErrHosts].
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

// better reports whether node a is to have a shard rather than node b: the one with fewer shards, and then the one
// that has fewer of them in common with the nodes that were chosen, so that the loss of two nodes meets few shards.
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

// Moved returns the table in which a node has a shard in place of another one, with the next revision. h stays as it
// is. Errors: [ErrHosts], which says what is wrong with the numbers or names, or that two copies would be in one
// zone.
func (h *Hosts) Moved(shard int, from, to string) (*Hosts, error) {
	for _, name := range []string{from, to} {
		if !slices.Contains(h.Names(), name) {
			return nil, fmt.Errorf("%w: the cluster has no node %q: its nodes are %s", ErrHosts, name,
				strings.Join(h.Names(), ", "))
		}
	}
	switch {
	case shard < 0 || shard >= len(h.Shards):
		return nil, fmt.Errorf("%w: there is no shard %d: the numbers are 0 to %d", ErrHosts, shard, len(h.Shards)-1)
	case !h.On(from, shard):
		return nil, fmt.Errorf("%w: node %s does not have shard %d, which is on %s", ErrHosts, from, shard,
			strings.Join(h.Shards[shard], ", "))
	case h.On(to, shard):
		return nil, fmt.Errorf("%w: node %s has shard %d already", ErrHosts, to, shard)
	}
	next := &Hosts{Revision: h.Revision + 1, Nodes: h.Nodes, Shards: slices.Clone(h.Shards)}
	names := slices.Clone(h.Shards[shard])
	names[slices.Index(names, from)] = to
	slices.Sort(names)
	next.Shards[shard] = names
	for _, other := range names {
		if zone := h.Zone(to); other != to && zone != "" && h.Zone(other) == zone {
			return nil, fmt.Errorf("%w: node %s is in zone %s, where %s has a copy of shard %d", ErrHosts, to, zone, other,
				shard)
		}
	}
	return next, next.Check()
}

// Added returns the table with a further node, which has no shard yet, with the next revision. Errors: [ErrHosts] if
// the name is taken, if there are too many nodes, and if it has a zone and the others have none, or the other way
// round.
func (h *Hosts) Added(p Place) (*Hosts, error) {
	switch zoned := h.Nodes[0].Zone != ""; {
	case slices.Contains(h.Names(), p.Node):
		return nil, fmt.Errorf("%w: the cluster has a node %s already", ErrHosts, p.Node)
	case len(h.Nodes) == MaxNodes:
		return nil, fmt.Errorf("%w: the cluster has %d nodes, which is the largest number", ErrHosts, MaxNodes)
	case zoned && p.Zone == "":
		return nil, fmt.Errorf("%w: the nodes of this cluster have zones, and node %s has none: give it one, as "+
			"%s=ADDRESS@%s", ErrHosts, p.Node, p.Node, h.Nodes[0].Zone)
	case !zoned && p.Zone != "":
		return nil, fmt.Errorf("%w: node %s has zone %s, and the nodes of this cluster have no zones", ErrHosts, p.Node,
			p.Zone)
	}
	next := &Hosts{Revision: h.Revision + 1, Nodes: append(slices.Clone(h.Nodes), p), Shards: h.Shards}
	slices.SortFunc(next.Nodes, func(a, b Place) int { return strings.Compare(a.Node, b.Node) })
	return next, next.Check()
}

// Removed returns the table without a node, with the next revision. Errors: [ErrHosts] if the node has a shard, and if
// too few nodes or zones would be left.
func (h *Hosts) Removed(node string) (*Hosts, error) {
	switch on := h.Of(node); {
	case !slices.Contains(h.Names(), node):
		return nil, fmt.Errorf("%w: the cluster has no node %q: its nodes are %s", ErrHosts, node,
			strings.Join(h.Names(), ", "))
	case len(on) > 0:
		return nil, fmt.Errorf("%w: node %s has %d shards", ErrHosts, node, len(on))
	}
	next := &Hosts{Revision: h.Revision + 1, Shards: h.Shards,
		Nodes: slices.DeleteFunc(slices.Clone(h.Nodes), func(p Place) bool { return p.Node == node })}
	return next, next.Check()
}

// Step is a move of a shard's copy from a node to another one.
type Step struct {
	Shard int    `json:"shard"`
	From  string `json:"from"`
	To    string `json:"to"`
}

// Drain returns the moves after which a node has no shard. Each goes to the node that has the fewest by then, of
// several to the one with the fewest bytes. Errors: [ErrHosts] if no node can take a shard.
func (h *Hosts) Drain(node string, sizes Sizes) (steps []Step, err error) {
	if !slices.Contains(h.Names(), node) {
		return nil, fmt.Errorf("%w: the cluster has no node %q: its nodes are %s", ErrHosts, node,
			strings.Join(h.Names(), ", "))
	}
	for _, shard := range h.Of(node) {
		var next *Hosts
		for _, to := range h.byLoad(sizes) {
			moved, failed := h.Moved(shard, node, to)
			if failed == nil {
				next, steps = moved, append(steps, Step{shard, node, to})
				break
			}
		}
		if next == nil {
			return nil, fmt.Errorf("%w: no other node can take shard %d: each has it, or is in a zone that has it",
				ErrHosts, shard)
		}
		h = next
	}
	return steps, nil
}

// Replace returns the move of a shard away from a node that is lost, to the node that has the fewest shards of those
// that may get it. Errors: [ErrHosts] if none can.
func (h *Hosts) Replace(shard int, node string, may func(node string) bool) (Step, error) {
	for _, to := range h.byLoad(nil) {
		if !may(to) {
			continue
		}
		if _, err := h.Moved(shard, node, to); err == nil {
			return Step{shard, node, to}, nil
		}
	}
	return Step{}, fmt.Errorf("%w: no other node that runs can take shard %d: each has it, or is in a zone that has it",
		ErrHosts, shard)
}

// Zone returns the zone of a node, "" without one.
func (h *Hosts) Zone(node string) string {
	for _, n := range h.Nodes {
		if n.Node == node {
			return n.Zone
		}
	}
	return ""
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
