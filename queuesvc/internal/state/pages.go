package state

// Queues can have millions of messages, so what the index is made of neither holds pointers, which the garbage
// collector would follow, nor moves when it grows, which would leave as much garbage as there is index.

// Pages are small, because most queues are.
const (
	entriesPerPage = 64
	slotsPerPage   = 64
)

// entryPages is a list of cells, by handle.
type entryPages struct {
	pages []*[entriesPerPage]cell
	count int32
}

// at returns the cell of a handle. The pointer stays valid.
func (p *entryPages) at(h int32) *cell { return &p.pages[h/entriesPerPage][h%entriesPerPage] }

// add makes a cell and returns its handle.
func (p *entryPages) add() int32 {
	if int(p.count) == len(p.pages)*entriesPerPage {
		p.pages = append(p.pages, new([entriesPerPage]cell))
	}
	p.count++
	return p.count - 1
}

// slotPages says which handle a slot has. A front-end numbers its slots on end, so pages of neighbours are well filled.
type slotPages struct {
	numbers map[slot]uint32 // of pages, by the slots without their lowest bits
	pages   []*slotPage     // by number; nil where there is none any more
	unused  []uint32        // the numbers of those
	count   int
}

type slotPage struct {
	handles [slotsPerPage]int32 // one more than the handle; 0 is none
	used    int32
	slots   slot // without their lowest bits
}

// spot is the place of a slot among the pages: the page's number, and the lowest bits of the slot. It takes half the room.
type spot uint32

func (p *slotPages) get(s slot) (int32, bool) {
	n, ok := p.numbers[s/slotsPerPage]
	if !ok {
		return 0, false
	}
	h := p.pages[n].handles[s%slotsPerPage]
	return h - 1, h != 0
}

// slot returns the slot that has its handle at a spot.
func (p *slotPages) slot(at spot) slot {
	return p.pages[at/slotsPerPage].slots*slotsPerPage + slot(at%slotsPerPage)
}

// slotOr is slot where the spot may be of a page that is gone; then the slot is 0.
func (p *slotPages) slotOr(at spot) slot {
	if n := int(at / slotsPerPage); n >= len(p.pages) || p.pages[n] == nil {
		return 0
	}
	return p.slot(at)
}

// set notes the handle of a slot that has none, and returns where.
func (p *slotPages) set(s slot, h int32) spot {
	n, ok := p.numbers[s/slotsPerPage]
	if !ok {
		n = p.addPage(s / slotsPerPage)
	}
	page := p.pages[n]
	page.handles[s%slotsPerPage] = h + 1
	page.used++
	p.count++
	return spot(n)*slotsPerPage + spot(s%slotsPerPage)
}

func (p *slotPages) addPage(slots slot) uint32 {
	n := uint32(len(p.pages))
	if last := len(p.unused) - 1; last >= 0 {
		n, p.unused = p.unused[last], p.unused[:last]
	} else {
		p.pages = append(p.pages, nil)
	}
	p.pages[n] = &slotPage{slots: slots}
	if p.numbers == nil {
		p.numbers = make(map[slot]uint32)
	}
	p.numbers[slots] = n
	return n
}

// remove takes out a slot that has a handle.
func (p *slotPages) remove(s slot) {
	n := p.numbers[s/slotsPerPage]
	page := p.pages[n]
	page.handles[s%slotsPerPage] = 0
	page.used--
	p.count--
	if page.used == 0 {
		delete(p.numbers, page.slots)
		p.pages[n] = nil
		p.unused = append(p.unused, n)
	}
}
