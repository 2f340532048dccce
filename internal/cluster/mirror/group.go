package mirror

import (
	"maps"
	"reflect"
	"slices"
	"sync/atomic"
	"time"
)

// Group says which nodes have the content of a shard that is not on all nodes. The log of its metadata decides that;
// see package replica.
type Group struct {
	// Version rises with each change. What was acknowledged under an older group is not enough for a newer one.
	Version uint64
	// Nodes are those of which a majority must have content before it is acknowledged.
	Nodes []string
	// Next, unless it is empty, are the nodes after a change that is under way: a majority of them must have content as
	// well, so that it is enough whether the change comes or not.
	Next []string
	// Joining gets content too, and does not count for a majority; "" for none.
	Joining string
	// Lost are those of Nodes whose content is lost. They get nothing and have nothing, and still count: a majority of
	// Nodes has to be found among the others.
	Lost []string
}

// majorities are the lists of which each must have a majority.
func (g *Group) majorities() [][]string {
	if len(g.Next) == 0 {
		return [][]string{g.Nodes}
	}
	return [][]string{g.Nodes, g.Next}
}

// held are the writers whose content was acknowledged, and that are not closed: metadata may be about to refer to it.
type held struct {
	writers map[*writer]bool
	// stale is set while some of them may have been acknowledged under an older group.
	stale atomic.Bool
}

// SetGroup makes a group that of the content, unless it has a newer one. Of two with the same version the later one
// counts: a change that this node has proposed, and that another one has overtaken. Before the first call it is
// [Config.Nodes].
func (m *Mirror) SetGroup(g Group) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if have := m.group; have != nil && (have.Version > g.Version || reflect.DeepEqual(*have, g)) {
		return
	}
	m.group = &g
	m.held.stale.Store(true)
	peers := slices.Clone(m.peers) // their places stay, by which writers know them
	for _, name := range slices.Concat(g.Nodes, g.Next, []string{g.Joining}) {
		if name == "" || name == m.config.Node || slices.ContainsFunc(peers, func(p *peer) bool { return p.name == name }) {
			continue
		}
		peers = append(peers, newPeer(name))
	}
	for _, p := range peers {
		p.out.Store(slices.Contains(g.Lost, p.name) ||
			!slices.Contains(g.Nodes, p.name) && !slices.Contains(g.Next, p.name) && g.Joining != p.name)
	}
	m.peers = peers
}

// all returns all nodes that are or have been peers, by the numbers that writers have for them.
func (m *Mirror) all() []*peer {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.peers
}

// active returns the peers that have the content now.
func (m *Mirror) active() (peers []*peer) {
	for _, p := range m.all() {
		if !p.out.Load() {
			peers = append(peers, p)
		}
	}
	return peers
}

// groupNow returns the group, nil before the first one.
func (m *Mirror) groupNow() *Group {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.group
}

// enough reports whether a majority has what the peers have for which has returns true, together with this node.
func (m *Mirror) enough(g *Group, peers []*peer, has func(i int) bool) bool {
	if g == nil {
		n := 0
		for i := range peers {
			if has(i) {
				n++
			}
		}
		return n >= m.need()
	}
	for _, list := range g.majorities() {
		n := 0
		if slices.Contains(list, m.config.Node) {
			n = 1
		}
		for i, p := range peers {
			if slices.Contains(list, p.name) && has(i) {
				n++
			}
		}
		if n < len(list)/2+1 {
			return false
		}
	}
	return true
}

// hold notes that a writer's content was acknowledged under a group. It returns false if that is no longer the group.
func (m *Mirror) hold(w *writer, g *Group) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.group != g {
		return false
	}
	w.under = g
	if !w.closed {
		m.held.writers[w] = true
	}
	return true
}

// Renew returns nil once all content that was acknowledged, and to which metadata may be about to refer, is enough for
// the group of now: what was acknowledged under an older one is written again where it is missing. It costs nothing
// unless the group has changed. Errors: [extent.ErrUnavailable] if nodes do not answer.
func (m *Mirror) Renew() error {
	for m.held.stale.Load() {
		m.mu.Lock()
		var old []*writer
		for w := range m.held.writers {
			if w.under != m.group {
				old = append(old, w)
			}
		}
		if len(old) == 0 {
			m.held.stale.Store(false)
		}
		m.mu.Unlock()
		for _, w := range old {
			if err := w.commit(); err != nil && m.holds(w) {
				return err
			}
		}
	}
	return nil
}

// holds reports whether a writer is not closed.
func (m *Mirror) holds(w *writer) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.held.writers[w]
}

// relistEvery is the interval at which the nodes are asked whether they still have what this one lacks.
const relistEvery = 2 * time.Second

// Missing asks all nodes for what they have, and returns a function that returns how much of that this node still
// lacks, in bytes. What they write later does not count, nor do extents that they have deleted meanwhile. It fails if a
// node does not answer. The function must not be called concurrently.
func (m *Mirror) Missing() (lacking func() int64, err error) {
	sizes, err := m.listed()
	if err != nil {
		return nil, err
	}
	asked := m.now()
	count := func() (n int64) {
		for id, size := range sizes {
			n += m.extents.Lacking(id, size)
		}
		return n
	}
	return func() (n int64) {
		if n = count(); n == 0 || m.now().Sub(asked) < relistEvery {
			return n
		}
		// An extent that was deleted meanwhile comes from nowhere. Nothing refers to it any more, and nothing will.
		asked = m.now()
		if now, err := m.listed(); err == nil {
			maps.DeleteFunc(sizes, func(id uint64, _ int64) bool { return now[id] == 0 })
		}
		return count()
	}, nil
}

// listed asks all nodes for the sizes of the extents that this node must have as well.
func (m *Mirror) listed() (sizes map[uint64]int64, err error) {
	sizes = map[uint64]int64{}
	for _, p := range m.active() {
		l, ok, err := m.listOf(p)
		switch {
		case err != nil:
			return nil, err
		case !ok:
			return nil, &silentError{p.name}
		}
		for _, w := range m.wants(&l, nil) {
			sizes[w.id] = max(sizes[w.id], w.count)
		}
	}
	return sizes, nil
}

// silentError means that a node does not answer.
type silentError struct{ node string }

func (e *silentError) Error() string { return "mirror: node " + e.node + " does not answer" }
