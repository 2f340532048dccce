package mirror

import (
	"maps"
	"sync"
)

// behind holds what this node lacked when the other nodes were last asked for their extents. Its methods are safe for
// concurrent use.
type behind struct {
	mu sync.Mutex
	// sizes are the sizes up to which this node must have the extents of which it lacked something, by the name of the
	// peer that has them. A peer that has not answered yet is not in the map. What a peer has that no longer answers
	// stays.
	sizes map[string]map[uint64]int64
}

// note replaces what is known of a peer.
func (b *behind) note(peer string, sizes map[uint64]int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sizes == nil {
		b.sizes = map[string]map[uint64]int64{}
	}
	b.sizes[peer] = sizes
}

// forget drops what is known of a peer.
func (b *behind) forget(peer string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.sizes, peer)
}

// has notes that this node has all of an extent that a peer has.
func (b *behind) has(peer string, id uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.sizes[peer], id)
}

// union returns the largest size of each extent, and the number of peers that have answered.
func (b *behind) union() (sizes map[uint64]int64, peers int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	sizes = map[uint64]int64{}
	for _, of := range b.sizes {
		for id, size := range of {
			sizes[id] = max(sizes[id], size)
		}
	}
	return sizes, len(b.sizes)
}

// Behind returns how many bytes of content this node lacks of those that the other nodes have: what it had missed when
// it last asked them, without what it has received since. known is false until all of them have answered once; missing
// is then what it lacks of those that have.
func (m *Mirror) Behind() (missing int64, known bool) {
	sizes, peers := m.behind.union()
	for id, size := range sizes {
		missing += m.extents.Lacking(id, size)
	}
	return missing, peers == len(m.active())
}

// Lacks divides the missing bytes of Behind by the node that has the content. Nodes without an answer are left out.
func (m *Mirror) Lacks() map[string]int64 {
	m.behind.mu.Lock()
	of := maps.Clone(m.behind.sizes)
	for name, sizes := range of {
		of[name] = maps.Clone(sizes)
	}
	m.behind.mu.Unlock()
	lacks := map[string]int64{}
	for name, sizes := range of {
		lacks[name] = 0
		for id, size := range sizes {
			lacks[name] += m.extents.Lacking(id, size)
		}
	}
	return lacks
}

// lacking returns the sizes of the extents of which this node lacks something.
func (m *Mirror) lacking(list []want) map[uint64]int64 {
	sizes := map[uint64]int64{}
	for _, w := range list {
		if m.extents.Lacking(w.id, w.count) > 0 {
			sizes[w.id] = w.count
		}
	}
	return sizes
}

// survey asks all peers for their extents, so that Behind is known before the first copy, which may take long. It
// returns what is missing.
func (m *Mirror) survey() (missing int64) {
	for _, p := range m.active() {
		if l, ok, _ := m.listOf(p); ok { // catchUp reports the error
			m.behind.note(p.name, m.lacking(m.wants(&l, nil)))
		}
	}
	missing, _ = m.Behind()
	return missing
}
