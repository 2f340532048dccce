package state

// Queues can have millions of messages, so what the index is made of neither holds pointers, which the garbage
// collector would follow, nor moves when it grows, which would leave as much garbage as there is index.

// Pages are small, because most queues are.
const (
	entriesPerPage = 64
	slotsPerPage   = 64
)

// entryPages is a list of entries, by handle.
type entryPages struct {
	pages []*[entriesPerPage]entry
	count int32
}

// at returns the entry of a handle. The pointer stays valid.
func (p *entryPages) at(h int32) *entry { return &p.pages[h/entriesPerPage][h%entriesPerPage] }

// add makes an entry and returns its handle.
func (p *entryPages) add() int32 {
	if int(p.count) == len(p.pages)*entriesPerPage {
		p.pages = append(p.pages, new([entriesPerPage]entry))
	}
	p.count++
	return p.count - 1
}

// slotPages says which handle a slot has. A front-end numbers its slots on end, so pages of neighbours are well filled.
type slotPages struct {
	pages map[slot]*slotPage // by the slot without its lowest bits
	count int
}

type slotPage struct {
	handles [slotsPerPage]int32 // one more than the handle; 0 is none
	used    int32
}

func (p *slotPages) get(s slot) (int32, bool) {
	page := p.pages[s/slotsPerPage]
	if page == nil {
		return 0, false
	}
	h := page.handles[s%slotsPerPage]
	return h - 1, h != 0
}

// set notes the handle of a slot that has none.
func (p *slotPages) set(s slot, h int32) {
	page := p.pages[s/slotsPerPage]
	if page == nil {
		if p.pages == nil {
			p.pages = make(map[slot]*slotPage)
		}
		page = new(slotPage)
		p.pages[s/slotsPerPage] = page
	}
	page.handles[s%slotsPerPage] = h + 1
	page.used++
	p.count++
}

// remove takes out a slot that has a handle.
func (p *slotPages) remove(s slot) {
	page := p.pages[s/slotsPerPage]
	page.handles[s%slotsPerPage] = 0
	page.used--
	p.count--
	if page.used == 0 {
		delete(p.pages, s/slotsPerPage)
	}
}
