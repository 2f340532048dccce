package state

import (
	"math"
	"slices"
)

// index has every slot of a queue: it orders the slots with a message by the time at which the message becomes visible, and keeps the free slots
// for new messages. It holds no bodies: an entry with its positions in the heap and among the slots takes about 40 bytes. It is not safe for
// concurrent use.
type index struct {
	entries entryPages // by handle; unused cells have no seq, and are linked through pos
	unused  int32      // the first unused handle, or none
	bySlot  slotPages  // slot to handle
	// heap has the handles of messages that are not being claimed: the one that becomes visible first on top, then in the order of sequence
	// numbers.
	heap []int32
	// spare has handles of free slots. Some may no longer be free: see pos.
	spare []int32
	// live is the number of slots with a message, free the number of slots that can be used for a new one.
	live, free int
	// aside is the number of slots whose message cannot be read: it is not handed out, and the slot is not used again.
	aside int
	// bytes is the total size of all messages' records.
	bytes int64
	// nextSweep is the earliest time at which a search for expired messages can find some. It is not after any message's expiry.
	nextSweep int64
}

// entry is a slot with its current record.
type entry struct {
	slot slot
	seq  uint64
}

// cell is the state of one slot.
type cell struct {
	seqLow  uint32 // of the slot's current record
	seqHigh uint16
	units   uint16 // the size of a message's record, in units of sizeUnit bytes
	visible int64
	expires int64
	pos     int32 // position in the heap, or one of the following
	at      spot  // position of the slot
}

// sizeUnit is the unit of record sizes in the index.
const sizeUnit = 64

// seq returns the sequence of the slot's current record.
func (e *cell) seq() uint64 { return uint64(e.seqHigh)<<32 | uint64(e.seqLow) }

// put sets the slot's current record and its size, and returns the growth in bytes.
func (e *cell) put(seq uint64, size int) int64 {
	before := e.units
	e.seqLow, e.seqHigh, e.units = uint32(seq), uint16(seq>>32), uint16(min((size+sizeUnit-1)/sizeUnit, math.MaxUint16))
	return (int64(e.units) - int64(before)) * sizeUnit
}

const (
	none    int32 = -1 // end of the list of unused handles
	claimed int32 = -2 // a message that is being claimed
	free    int32 = -3 // no message: it was deleted, or expired
	taken   int32 = -4 // a message is being put here
	aside   int32 = -5 // a message that cannot be read
)

func newIndex() *index {
	return &index{unused: none, nextSweep: math.MaxInt64}
}

// get returns the cell of a slot with a message, or nil. The pointer is valid until the next change of the index.
func (x *index) get(s slot) *cell {
	if h, ok := x.bySlot.get(s); ok && x.entries.at(h).holds() {
		return x.entries.at(h)
	}
	return nil
}

// occupied reports whether a slot has a message, readable or not.
func (x *index) occupied(s slot) bool {
	h, ok := x.bySlot.get(s)
	return ok && (x.entries.at(h).holds() || x.entries.at(h).pos == aside)
}

// holds reports whether the slot has a readable message.
func (e *cell) holds() bool { return e.pos >= 0 || e.pos == claimed }

// entry returns the slot and record of a handle.
func (x *index) entry(h int32) entry {
	e := x.entries.at(h)
	return entry{slot: x.bySlot.slot(e.at), seq: e.seq()}
}

// known returns the handle of a slot, and whether its record is older than seq. It adds a slot that was unknown.
func (x *index) known(s slot, seq uint64) (int32, bool) {
	h, ok := x.bySlot.get(s)
	if !ok {
		h = x.allocate()
		*x.entries.at(h) = cell{pos: taken, at: x.bySlot.set(s, h)}
	}
	return h, x.entries.at(h).seq() < seq
}

// apply records a message's record, unless a newer record of that slot is known.
func (x *index) apply(s slot, seq uint64, size int, state *State) {
	h, newer := x.known(s, seq)
	if !newer {
		return
	}
	e := x.entries.at(h)
	if !e.holds() {
		x.live++
		x.leaveSpare(e)
	}
	x.bytes += e.put(seq, size)
	e.visible, e.expires = state.NextVisible, state.Expires
	if e.expires != Never {
		x.nextSweep = min(x.nextSweep, e.expires)
	}
	x.place(h)
}

// applyFree records that a slot is free, unless a newer record of it is known.
func (x *index) applyFree(s slot, seq uint64) {
	if h, newer := x.known(s, seq); newer {
		x.vacate(h)
		x.entries.at(h).put(seq, 0)
	}
}

// vacate frees a slot whose message no longer exists; its current record stays.
func (x *index) vacate(h int32) {
	e := x.entries.at(h)
	if e.pos == free {
		return
	}
	x.leave(e)
	e.pos = free
	x.free++
	x.spare = append(x.spare, h)
	if len(x.spare) > 2*x.free+1024 { // another front-end has used most of them
		x.spare = x.spare[:0]
		for h := range x.entries.count {
			if x.entries.at(h).pos == free {
				x.spare = append(x.spare, h)
			}
		}
	}
}

// leave removes a cell's message, if it has one, from the heap and the totals.
func (x *index) leave(e *cell) {
	switch {
	case e.pos == aside:
		x.aside--
	case e.holds():
		x.live--
		x.bytes += e.put(e.seq(), 0)
		if e.pos != claimed {
			x.unheap(e.pos)
		}
	}
}

// setAside records that the current record of a slot cannot be read, unless a newer one is known. It reports whether this changed the index.
func (x *index) setAside(s slot, seq uint64) bool {
	h, newer := x.known(s, seq)
	e := x.entries.at(h)
	if e.seq() > seq || e.pos == aside && !newer {
		return false
	}
	if e.pos == free {
		x.free--
	}
	x.leave(e)
	e.put(seq, 0)
	e.pos = aside
	x.aside++
	return true
}

// leaveSpare is called when a slot is used that may be counted as free.
func (x *index) leaveSpare(e *cell) {
	switch e.pos {
	case free:
		x.free--
	case aside:
		x.aside--
	}
	e.pos = taken
}

// take reserves a free slot until apply, applyFree, giveBack or forget. It returns the slot and the record that a new message in it replaces.
func (x *index) take() (s slot, seq uint64, ok bool) {
	for len(x.spare) > 0 {
		h := x.spare[len(x.spare)-1]
		x.spare = x.spare[:len(x.spare)-1]
		if e := x.entries.at(h); e.pos == free {
			x.leaveSpare(e)
			return x.bySlot.slot(e.at), e.seq(), true
		}
	}
	return 0, 0, false
}

// giveBack ends a take without a new message.
func (x *index) giveBack(s slot) {
	if h, ok := x.bySlot.get(s); ok && x.entries.at(h).pos == taken {
		x.vacate(h)
	}
}

// place adds a message to the heap, or moves it to the position for its new time.
func (x *index) place(h int32) {
	e := x.entries.at(h)
	if e.pos < 0 {
		e.pos = int32(len(x.heap))
		x.heap = append(x.heap, h)
	}
	if !x.up(e.pos) {
		x.down(e.pos)
	}
}

// restore makes a claimed message available again, if it has not changed since.
func (x *index) restore(s slot, seq uint64) {
	if h, ok := x.bySlot.get(s); ok && x.entries.at(h).seq() == seq && x.entries.at(h).pos == claimed {
		x.place(h)
	}
}

// forget removes a slot that has no record, if its known record is not newer than seq.
func (x *index) forget(s slot, seq uint64) {
	h, ok := x.bySlot.get(s)
	if !ok || x.entries.at(h).seq() > seq {
		return
	}
	x.vacate(h) // removes it from the heap and the totals
	x.leaveSpare(x.entries.at(h))
	x.bySlot.remove(s)
	*x.entries.at(h) = cell{pos: x.unused}
	x.unused = h
}

// void frees the slots of all messages whose record is older than seq: they were cleared.
func (x *index) void(seq uint64) {
	for h := range x.entries.count {
		if e := x.entries.at(h); e.seq() > 0 && e.seq() < seq && (e.holds() || e.pos == aside) {
			x.vacate(h)
		}
	}
}

// clear removes all slots whose record is older than seq: these records no longer exist.
func (x *index) clear(seq uint64) {
	for h := range x.entries.count {
		if e := x.entries.at(h); e.seq() > 0 && e.seq() < seq {
			x.forget(x.bySlot.slot(e.at), seq)
		}
	}
	switch {
	case x.bySlot.count == 0: // release the memory
		*x = *newIndex()
	case int(x.entries.count) > 4*entriesPerPage+4*x.bySlot.count:
		x.shrink()
	}
}

// shrink copies the index to one without unused space.
func (x *index) shrink() {
	fresh := newIndex()
	fresh.nextSweep = x.nextSweep
	fresh.live, fresh.free, fresh.aside, fresh.bytes = x.live, x.free, x.aside, x.bytes
	for h := range x.entries.count {
		e := *x.entries.at(h)
		if at, ok := x.bySlot.get(x.bySlot.slotOr(e.at)); !ok || at != h {
			continue // unused
		}
		moved := fresh.allocate()
		pos := e.pos
		e.at = fresh.bySlot.set(x.bySlot.slot(e.at), moved)
		if pos >= 0 {
			e.pos = claimed
		}
		*fresh.entries.at(moved) = e
		switch {
		case pos >= 0:
			fresh.place(moved)
		case pos == free:
			fresh.spare = append(fresh.spare, moved)
		}
	}
	*x = *fresh
}

// lowest returns the oldest record of a message, readable or not, and the newest record of all; oldest is 0 if there is no message.
func (x *index) lowest() (oldest, newest uint64) {
	for h := range x.entries.count {
		e := x.entries.at(h)
		newest = max(newest, e.seq())
		if (e.holds() || e.pos == aside) && (oldest == 0 || e.seq() < oldest) && e.seq() > 0 {
			oldest = e.seq()
		}
	}
	return oldest, newest
}

// older returns up to n messages whose record is older than seq and that are not being claimed.
func (x *index) older(seq uint64, n int) (found []entry) {
	for h := range x.entries.count {
		if e := x.entries.at(h); e.pos >= 0 && e.seq() < seq && e.seq() > 0 {
			if found = append(found, x.entry(h)); len(found) == n {
				break
			}
		}
	}
	return found
}

// claim takes the next visible message out of the heap and returns it. It drops expired messages.
func (x *index) claim(now int64) (entry, bool) {
	for len(x.heap) > 0 {
		h := x.heap[0]
		e := x.entries.at(h)
		if e.visible > now {
			return entry{}, false
		}
		if e.expires != Never && e.expires <= now {
			x.vacate(h)
			continue
		}
		x.unheap(0)
		e.pos = claimed
		return x.entry(h), true
	}
	return entry{}, false
}

// peek returns up to n entries that are visible at until and not expired at now, in the order in which claim would return them.
func (x *index) peek(n int, until, now int64) []entry {
	if len(x.heap) == 0 {
		return nil
	}
	var found []entry
	// Walk the heap from the top, always continuing at the earliest of the reached entries.
	reached := []int32{0}
	for len(found) < n && len(reached) > 0 {
		best := 0
		for i := range reached {
			if x.less(reached[i], reached[best]) {
				best = i
			}
		}
		pos := reached[best]
		reached[best] = reached[len(reached)-1]
		reached = reached[:len(reached)-1]
		e := x.entries.at(x.heap[pos])
		if e.visible > until {
			continue
		}
		if e.expires == Never || e.expires > now {
			found = append(found, x.entry(x.heap[pos]))
		}
		for _, child := range [...]int32{2*pos + 1, 2*pos + 2} {
			if int(child) < len(x.heap) {
				reached = append(reached, child)
			}
		}
	}
	return found
}

// page is peek for the entries after a position, hidden ones included. It looks at every entry.
func (x *index) page(n int, after Position, now int64) []entry {
	var first []int32 // of the heap, in order
	for pos := range int32(len(x.heap)) {
		e := x.entries.at(x.heap[pos])
		if !after.before(e) || e.expires != Never && e.expires <= now || len(first) == n && !x.less(pos, first[n-1]) {
			continue
		}
		at, _ := slices.BinarySearchFunc(first, pos, func(a, b int32) int {
			if x.less(a, b) {
				return -1
			}
			return 1
		})
		first = slices.Insert(first, at, pos)[:min(len(first)+1, n)]
	}
	found := make([]entry, len(first))
	for i, pos := range first {
		found[i] = x.entry(x.heap[pos])
	}
	return found
}

// position returns that of an entry. It is zero if the slot has no such record any more.
func (x *index) position(e entry) Position {
	if c := x.get(e.slot); c != nil && c.seq() == e.seq {
		return Position{Visible: c.visible, Sequence: e.seq}
	}
	return Position{}
}

// sweep frees the slots of expired messages. It checks every entry, but only if one can have expired, and at most once per pause nanoseconds.
func (x *index) sweep(now, pause int64) {
	if now < x.nextSweep {
		return
	}
	x.nextSweep = math.MaxInt64
	for h := range x.entries.count {
		e := x.entries.at(h)
		if !e.holds() || e.seq() == 0 || e.expires == Never {
			continue
		}
		if e.expires <= now {
			x.vacate(h)
		} else {
			x.nextSweep = min(x.nextSweep, e.expires)
		}
	}
	x.nextSweep = max(x.nextSweep, now+pause)
}

func (x *index) allocate() int32 {
	if h := x.unused; h != none {
		x.unused = x.entries.at(h).pos
		return h
	}
	return x.entries.add()
}

// unheap removes the entry at pos from the heap.
func (x *index) unheap(pos int32) {
	last := int32(len(x.heap) - 1)
	x.entries.at(x.heap[pos]).pos = claimed
	if pos != last {
		x.heap[pos] = x.heap[last]
		x.entries.at(x.heap[pos]).pos = pos
	}
	x.heap = x.heap[:last]
	if pos != last && !x.up(pos) {
		x.down(pos)
	}
}

func (x *index) less(i, j int32) bool {
	a, b := x.entries.at(x.heap[i]), x.entries.at(x.heap[j])
	if a.visible != b.visible {
		return a.visible < b.visible
	}
	return a.seq() < b.seq()
}

func (x *index) swap(i, j int32) {
	x.heap[i], x.heap[j] = x.heap[j], x.heap[i]
	x.entries.at(x.heap[i]).pos, x.entries.at(x.heap[j]).pos = i, j
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

// visible counts messages that are visible at now, up to limit. It looks at most at three entries for each one that it counts, since no message of the
// heap becomes visible before its parent.
func (x *index) visible(now int64, limit int) (n int) {
	next := []int{0}
	for len(next) > 0 && n < limit {
		pos := next[len(next)-1]
		next = next[:len(next)-1]
		if pos < len(x.heap) && x.entries.at(x.heap[pos]).visible <= now {
			n++
			next = append(next, 2*pos+1, 2*pos+2)
		}
	}
	return n
}
