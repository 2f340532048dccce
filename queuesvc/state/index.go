package state

// index orders a queue's messages by when they become visible, and finds them by ID. It holds no bodies: an entry, its
// place in the heap and its place in the map are some 90 bytes together. It is not safe for concurrent use.
//
// An entry that is claimed is out of the heap, so that nobody else tries it, until the claim has succeeded or failed.
type index struct {
	entries []entry      // slots; free ones are linked through pos
	free    int32        // the first free slot, or none
	byID    map[ID]int32 // ID to slot
	heap    []int32      // slots, the one that becomes visible first on top; then in the order of sequence numbers
	// nextSweep is when looking for expired entries can find some: not after any entry's expiry.
	nextSweep int64
}

// entry is what is known of one message.
type entry struct {
	id      ID
	seq     uint64 // of the record that this is
	visible int64
	expires int64
	pos     int32 // in the heap; outside if it is claimed
}

const (
	none    int32 = -1
	outside int32 = -2
)

func newIndex() *index {
	return &index{free: none, byID: make(map[ID]int32), nextSweep: 1<<63 - 1}
}

// len is the number of messages, visible or not.
func (x *index) len() int { return len(x.byID) }

// get returns the entry of a message, or nil. The pointer is valid until the next change of the index.
func (x *index) get(id ID) *entry {
	if slot, ok := x.byID[id]; ok {
		return &x.entries[slot]
	}
	return nil
}

// apply takes over a record, unless a newer one of that message is known. A claimed entry comes back by it.
func (x *index) apply(id ID, seq uint64, s *State) {
	slot, ok := x.byID[id]
	if !ok {
		slot = x.allocate()
		x.byID[id] = slot
		x.entries[slot] = entry{id: id, pos: outside}
	}
	e := &x.entries[slot]
	if seq <= e.seq {
		return
	}
	e.seq, e.visible, e.expires = seq, s.NextVisible, s.Expires
	if s.Expires != Never && s.Expires < x.nextSweep {
		x.nextSweep = s.Expires
	}
	x.place(slot)
}

// place puts an entry into the heap, or where it belongs by its new time.
func (x *index) place(slot int32) {
	e := &x.entries[slot]
	if e.pos == outside {
		e.pos = int32(len(x.heap))
		x.heap = append(x.heap, slot)
	}
	if !x.up(e.pos) {
		x.down(e.pos)
	}
}

// restore gives a claimed entry back as it was, if it has not changed since.
func (x *index) restore(id ID, seq uint64) {
	if slot, ok := x.byID[id]; ok && x.entries[slot].seq == seq && x.entries[slot].pos == outside {
		x.place(slot)
	}
}

// remove forgets a message if what is known of it is not newer than seq.
func (x *index) remove(id ID, seq uint64) {
	slot, ok := x.byID[id]
	if !ok || x.entries[slot].seq > seq {
		return
	}
	delete(x.byID, id)
	if pos := x.entries[slot].pos; pos != outside {
		x.unheap(pos)
	}
	x.entries[slot] = entry{pos: x.free}
	x.free = slot
}

// clear forgets everything older than seq.
func (x *index) clear(seq uint64) {
	for id, slot := range x.byID {
		if x.entries[slot].seq < seq {
			x.remove(id, seq)
		}
	}
	if len(x.byID) == 0 { // give the memory back
		*x = *newIndex()
	}
}

// claim takes the next visible entry out of the heap and returns it. Expired ones are dropped on the way.
func (x *index) claim(now int64) (entry, bool) {
	for len(x.heap) > 0 {
		slot := x.heap[0]
		e := &x.entries[slot]
		if e.visible > now {
			return entry{}, false
		}
		if e.expires != Never && e.expires <= now {
			x.remove(e.id, e.seq)
			continue
		}
		x.unheap(0)
		e.pos = outside
		return *e, true
	}
	return entry{}, false
}

// look returns up to n visible entries in the order in which claim would.
func (x *index) look(n int, now int64) []entry {
	var found []entry
	// Walk the heap from the top, always on to the earliest of the entries that have been reached.
	reached := []int32{0}
	for len(found) < n && len(reached) > 0 {
		best := 0
		for i := range reached {
			if int(reached[i]) < len(x.heap) && x.less(reached[i], reached[best]) {
				best = i
			}
		}
		pos := reached[best]
		reached[best] = reached[len(reached)-1]
		reached = reached[:len(reached)-1]
		if int(pos) >= len(x.heap) {
			continue
		}
		e := x.entries[x.heap[pos]]
		if e.visible > now {
			continue
		}
		if e.expires == Never || e.expires > now {
			found = append(found, e)
		}
		for _, child := range [...]int32{2*pos + 1, 2*pos + 2} {
			if int(child) < len(x.heap) {
				reached = append(reached, child)
			}
		}
	}
	return found
}

// sweep drops what has expired. It looks at every entry, but only if one can have expired, and not more often than
// every pause nanoseconds.
func (x *index) sweep(now, pause int64) {
	if now < x.nextSweep {
		return
	}
	x.nextSweep = 1<<63 - 1
	for slot := range x.entries {
		e := &x.entries[slot]
		if e.seq == 0 || e.expires == Never {
			continue
		}
		if e.expires <= now {
			x.remove(e.id, e.seq)
		} else {
			x.nextSweep = min(x.nextSweep, e.expires)
		}
	}
	x.nextSweep = max(x.nextSweep, now+pause)
}

func (x *index) allocate() int32 {
	if slot := x.free; slot != none {
		x.free = x.entries[slot].pos
		return slot
	}
	x.entries = append(x.entries, entry{})
	return int32(len(x.entries) - 1)
}

// unheap takes the entry at pos out of the heap.
func (x *index) unheap(pos int32) {
	last := int32(len(x.heap) - 1)
	x.entries[x.heap[pos]].pos = outside
	if pos != last {
		x.heap[pos] = x.heap[last]
		x.entries[x.heap[pos]].pos = pos
	}
	x.heap = x.heap[:last]
	if pos != last && !x.up(pos) {
		x.down(pos)
	}
}

func (x *index) less(i, j int32) bool {
	a, b := &x.entries[x.heap[i]], &x.entries[x.heap[j]]
	if a.visible != b.visible {
		return a.visible < b.visible
	}
	return a.seq < b.seq
}

func (x *index) swap(i, j int32) {
	x.heap[i], x.heap[j] = x.heap[j], x.heap[i]
	x.entries[x.heap[i]].pos, x.entries[x.heap[j]].pos = i, j
}

// up moves an entry towards the top and reports whether it moved.
func (x *index) up(pos int32) bool {
	start := pos
	for pos > 0 {
		parent := (pos - 1) / 2
		if !x.less(pos, parent) {
			break
		}
		x.swap(pos, parent)
		pos = parent
	}
	return pos != start
}

func (x *index) down(pos int32) {
	for {
		child := 2*pos + 1
		if int(child) >= len(x.heap) {
			return
		}
		if int(child+1) < len(x.heap) && x.less(child+1, child) {
			child++
		}
		if !x.less(child, pos) {
			return
		}
		x.swap(pos, child)
		pos = child
	}
}
