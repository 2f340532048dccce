package bboltpage

import (
	"sync/atomic"
	"time"
)

// checkedFor is how long a leaf need not be checked again. A page that the kernel has read from the disk stays in memory, so that checking it for
// each scan finds nothing new; but the kernel may drop it and read it again.
const checkedFor = time.Minute

// chunkPages is the number of pages for which one chunk of a checkedLeaves has a bit.
const chunkPages = 1 << 15

// checkedLeaves are the leaves of an unchanged file that a cursor has checked with all of their values, within the last minute. It takes one bit
// for a page. It is safe for concurrent use. The zero value is empty.
type checkedLeaves struct {
	set atomic.Pointer[leafSet]
}

type leafSet struct {
	since  time.Time
	chunks []atomic.Pointer[[chunkPages / 64]atomic.Uint64]
}

// at returns the leaves that were checked in the minute before now, for a file of some number of pages.
func (c *checkedLeaves) at(now time.Time, pages uint64) *leafSet {
	s := c.set.Load()
	if s != nil && now.Sub(s.since) < checkedFor {
		return s
	}
	fresh := &leafSet{since: now, chunks: make([]atomic.Pointer[[chunkPages / 64]atomic.Uint64], pages/chunkPages+1)}
	if c.set.CompareAndSwap(s, fresh) {
		return fresh
	}
	return c.set.Load()
}

// has reports whether the leaf id was checked. A nil set is empty.
func (s *leafSet) has(id uint64) bool {
	if s == nil || id/chunkPages >= uint64(len(s.chunks)) {
		return false
	}
	chunk := s.chunks[id/chunkPages].Load()
	return chunk != nil && chunk[id%chunkPages/64].Load()>>(id%64)&1 != 0
}

// add adds the leaf id.
func (s *leafSet) add(id uint64) {
	if s == nil || id/chunkPages >= uint64(len(s.chunks)) {
		return
	}
	at := &s.chunks[id/chunkPages]
	if at.Load() == nil {
		at.CompareAndSwap(nil, new([chunkPages / 64]atomic.Uint64))
	}
	at.Load()[id%chunkPages/64].Or(1 << (id % 64))
}
