package state

// Queues can have millions of messages. So the parts of the index have no pointers, which the garbage collector would follow, and do not move
// when they grow, which would leave as much garbage as there is index.

// Pages are small, because most queues are small.
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

// slotPages maps slots to handles. A front-end numbers its slots consecutively, so the pages are well filled.
type slotPages struct {
	numbers map[slot]uint32 // page numbers, by the slots without their lowest bits
	pages   []*slotPage     // by number; nil if the page was removed
	unused  []uint32        // numbers of the removed pages
	count   int
}

type slotPage struct {
	handles [slotsPerPage]int32 // handle + 1; 0 means no handle
	used    int32
	slots   slot // slots of the page without their lowest bits
}

// spot is the position of a slot in the pages: the page's number, and the lowest bits of the slot. It takes half the space of a slot.
type spot uint32

func (p *slotPages) get(s slot) (int32, bool) {
	n, ok := p.numbers[s/slotsPerPage]
	if !ok {
		return 0, false
	}
	h := p.pages[n].handles[s%slotsPerPage]
	return h - 1, h != 0
}

// slot returns the slot whose handle is at a spot.
func (p *slotPages) slot(at spot) slot {
	return p.pages[at/slotsPerPage].slots*slotsPerPage + slot(at%slotsPerPage)
}

// slotOr is like slot, but the page of the spot may have been removed; then the slot is 0.
func (p *slotPages) slotOr(at spot) slot {
	if n := int(at / slotsPerPage); n >= len(p.pages) || p.pages[n] == nil {
		return 0
	}
	return p.slot(at)
}

// set adds the handle of a slot that has none, and returns its spot.
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

// remove removes a slot that has a handle.
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
