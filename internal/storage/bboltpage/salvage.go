package bboltpage

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
)

// Salvage reads the intact part of a damaged file. It calls pair for each key and value whose layout is valid; the
// caller verifies their content. bucket is "" for pairs of pages that cannot be assigned to a tree, because the path to
// them is damaged. damage is called for each problem, and lost, if it is not nil, for each page of a bucket that cannot
// be read. Free pages are not read, because they hold former states.
//
// An error means that nothing can be read: neither meta page is valid, or f returned an error.
func Salvage(f io.ReaderAt, size int64, pair func(bucket string, key, value []byte), damage func(error),
	lost func(Lost)) error {
	m, err := ReadMeta(f, size)
	if err != nil && !errors.Is(err, ErrTruncated) {
		return err
	}
	if err != nil {
		damage(err)
		// The part that is there can still be read.
		m.Pages = uint64(size / int64(m.PageSize))
	}
	if m.Alone {
		damage(damaged(0, "one of the two meta pages is damaged"))
	}
	s := &salvage{structure: structure{f: f, m: m, use: make([]use, m.Pages)}, pair: pair, damage: damage, gone: lost,
		leaves: map[string][2]int{}}
	if m.Pages < 3 {
		return fmt.Errorf("%w: %d pages", ErrTruncated, m.Pages)
	}
	s.use[0], s.use[1] = used, used
	freeKnown := true
	if err := s.freelist(); err != nil {
		damage(err)
		freeKnown = false
		// Without the list it is not known which pages hold former states: no page is taken for free, and none for an
		// orphan.
		clear(s.use[2:])
	}
	s.root(m.Root, 0)
	// Pages that hang below a damaged branch are still in the file. Without the free list, former states of the pairs
	// would be read with them, and deleted pairs would come back.
	if s.broken && freeKnown {
		s.orphans()
	}
	s.reportLost()
	return nil
}

type salvage struct {
	structure
	pair   func(bucket string, key, value []byte)
	damage func(error)
	gone   func(Lost)
	pages  []Lost            // pages that cannot be read
	leaves map[string][2]int // of each bucket, the number of leaves that were read and of their pairs
	broken bool              // a page with references to other pages is damaged
}

func (s *salvage) lost(err error) {
	s.broken = true
	s.damage(err)
}

// take reads a page that was not read before.
func (s *salvage) take(id uint64) (Page, bool) {
	p, err := s.read(id)
	if err != nil {
		s.lost(err)
		return nil, false
	}
	for i := id; i < id+uint64(len(p)/s.m.PageSize); i++ {
		// Two pointers to one page: one of them is damaged. The first tree that reaches it has it; reading it twice
		// would give the pairs of one bucket to another.
		if s.use[i] != unknown {
			s.lost(damaged(i, "is used twice, or is used although it is free"))
			if i == id {
				return nil, false
			}
			continue
		}
		s.use[i] = used
	}
	return p, true
}

// read reads a page with as many of its overflow pages as its elements need. A damaged header may name more: they would
// be taken from the pages that they belong to.
func (s *salvage) read(id uint64) (Page, error) {
	p, err := s.page(id)
	var wrong *DamageError
	if err != nil && !errors.As(err, &wrong) {
		return nil, err
	}
	first := make(Page, s.m.PageSize)
	if id < 2 || id >= s.m.Pages {
		return nil, err
	}
	if _, readErr := s.f.ReadAt(first, int64(id)*int64(s.m.PageSize)); readErr != nil {
		return nil, readErr
	}
	need := (s.end(first) + uint64(s.m.PageSize) - 1) / uint64(s.m.PageSize)
	if !first.is(id) || need >= uint64(first.pages()) || need > s.m.Pages-id {
		return p, err
	}
	p = make(Page, need*uint64(s.m.PageSize))
	_, err = s.f.ReadAt(p, int64(id)*int64(s.m.PageSize))
	return p, err
}

// end returns the offset behind the last element of a page, of which p may be only the first page. If that does not
// have all elements, it returns a number above all others.
func (*salvage) end(p Page) uint64 {
	end := uint64(headerSize)
	for i := range p.count() {
		at := headerSize + i*elementSize
		if at+elementSize > len(p) {
			return math.MaxInt64
		}
		if p.leaf() {
			end = max(end, uint64(at)+p.u32(at+4)+p.u32(at+8)+p.u32(at+12))
		} else {
			end = max(end, uint64(at)+p.u32(at)+p.u32(at+4))
		}
	}
	return end
}

// root reads the tree of buckets.
func (s *salvage) root(id uint64, depth int) {
	p, ok := s.take(id)
	if ok && p.kind() != kindBranch && p.kind() != kindLeaf {
		s.lost(notA(p, id))
		ok = false
	}
	// Lost without a bucket means that every bucket may have lost pairs: the page that names them cannot be read. The
	// bound of the depth ends a circle of damaged pages.
	if !ok || depth > maxDepth {
		s.pages = append(s.pages, Lost{})
		return
	}
	if p.kind() == kindBranch {
		for i := range p.count() {
			if _, id, ok := p.child(i); ok {
				s.root(id, depth+1)
			} else {
				s.pages = append(s.pages, Lost{})
			}
		}
		return
	}
	if problem := p.check(s.m.PageSize); problem != "" {
		s.lost(damaged(id, "%s", problem))
	}
	for i := range s.elements(p) {
		name, value, _, ok := p.pair(i)
		if !ok || len(value) < 16 {
			s.lost(damaged(id, "element %d is not a bucket", i))
			s.pages = append(s.pages, Lost{})
			continue
		}
		// A small bucket has no page of its own: its only leaf follows its header in the value.
		if root := Page(value).u64(0); root != 0 {
			s.tree(string(name), root, nil, nil, 0)
		} else if inline := Page(value[16:]); len(inline) >= headerSize {
			s.leaf(string(name), id, inline, nil, nil, 0)
		}
	}
}

// Lost is a page of a bucket that cannot be read.
type Lost struct {
	// Bucket is "" if the page, or one above it, has the root of the bucket: any bucket may have lost all pairs then.
	Bucket string
	// The keys of the page were between From and To; nil means no bound.
	From, To []byte
	// Pairs is the number of pairs that were lost; of a whole page it is that of other pages of the bucket.
	Pairs int
	// Partly means that other pairs of the page were read.
	Partly bool
}

// reportLost passes on the pages that cannot be read.
func (s *salvage) reportLost() {
	if s.gone == nil {
		return
	}
	for _, l := range s.pages {
		if n := s.leaves[l.Bucket]; l.Pairs == 0 && l.Bucket != "" {
			l.Pairs = max(n[1]/max(n[0], 1), 1)
		}
		s.gone(l)
	}
}

// tree reads the pages below one. bound is the key of the branch element that points to the page, and end that of the
// next one; nil means no bound.
func (s *salvage) tree(bucket string, id uint64, bound, end []byte, depth int) {
	p, ok := s.take(id)
	if !ok || depth > maxDepth {
		s.pages = append(s.pages, Lost{Bucket: bucket, From: bound, To: end})
		return
	}
	switch p.kind() {
	case kindLeaf:
		s.leaf(bucket, id, p, bound, end, s.m.PageSize)
	case kindBranch:
		if problem := p.check(s.m.PageSize); problem != "" {
			s.lost(damaged(id, "%s", problem))
		}
		s.begins(id, p, bound)
		for i := range s.elements(p) {
			key, child, ok := p.child(i)
			if !ok {
				s.pages = append(s.pages, Lost{Bucket: bucket, From: bound, To: end})
				continue
			}
			// The range of a lost child reaches to the next key that can be read, so that the report names no key too
			// few.
			next := end
			if following, _, ok := p.child(i + 1); ok {
				next = following
			}
			s.tree(bucket, child, key, next, depth+1)
		}
	default:
		s.lost(notA(p, id))
		s.pages = append(s.pages, Lost{Bucket: bucket, From: bound, To: end})
	}
}

// begins reports a page whose first key differs from the key of the branch element that points to it: searches for keys
// between the two would end in the wrong page.
func (s *salvage) begins(id uint64, p Page, bound []byte) {
	if first, ok := p.key(0); bound != nil && (!ok || !bytes.Equal(first, bound)) {
		s.damage(damaged(id, "does not begin with the key by which it is reached"))
	}
}

// leaf reads the pairs of a leaf that lie within the page.
func (s *salvage) leaf(bucket string, id uint64, p Page, bound, end []byte, pageSize int) {
	read := 0
	defer func() {
		s.leaves[bucket] = [2]int{s.leaves[bucket][0] + 1, s.leaves[bucket][1] + read}
		if n := s.elements(p) - read; n > 0 {
			s.pages = append(s.pages, Lost{Bucket: bucket, From: bound, To: end, Pairs: n, Partly: true})
		}
	}()
	if problem := p.check(pageSize); problem != "" {
		s.damage(damaged(id, "%s", problem))
		if pageSize > 0 {
			p = s.whole(id, p)
		}
	}
	s.begins(id, p, bound)
	for i := range s.elements(p) {
		at := headerSize + i*elementSize
		if at+elementSize > len(p) {
			return
		}
		flags, position, k, v := p.u32(at), p.u32(at+4), p.u32(at+8), p.u32(at+12)
		if flags == flagBucket {
			s.damage(damaged(id, "element %d is a nested bucket", i)) // Lazuli has none; readers refuse it
		}
		if both, ok := p.span(i, position, k+v); ok && k > 0 {
			read++
			s.pair(bucket, both[:k:k], both[k:])
		}
	}
}

// elements returns the number of elements of a page. The header and the position of the first key must agree on it.
func (s *salvage) elements(p Page) int {
	at := headerSize + 4
	if !p.leaf() {
		at = headerSize
	}
	if len(p) < headerSize+elementSize {
		return 0
	}
	room := (len(p) - headerSize) / elementSize
	if n := int(p.u32(at)); n%elementSize == 0 && n/elementSize <= room {
		return max(n/elementSize, min(p.count(), room))
	}
	return min(p.count(), room)
}

// whole reads a leaf again if its header may have a too low number of overflow pages.
func (s *salvage) whole(id uint64, p Page) Page {
	end := uint64(len(p))
	for i := range s.elements(p) {
		at := headerSize + i*elementSize
		if at+elementSize <= len(p) {
			if e := uint64(at) + p.u32(at+4) + p.u32(at+8) + p.u32(at+12); e > end && e < maxNode {
				end = e
			}
		}
	}
	pages := min((end+uint64(s.m.PageSize)-1)/uint64(s.m.PageSize), s.m.Pages-id)
	long := make(Page, pages*uint64(s.m.PageSize))
	if _, err := s.f.ReadAt(long, int64(id)*int64(s.m.PageSize)); err != nil {
		return p
	}
	return long
}

// orphans reads the leaves that are neither reachable nor free.
func (s *salvage) orphans() {
	for id := uint64(2); id < s.m.Pages; id++ {
		if s.use[id] != unknown {
			continue
		}
		p, err := s.read(id)
		if err != nil || p.kind() != kindLeaf {
			continue // overflow pages have no header
		}
		for i := id; i < id+uint64(len(p)/s.m.PageSize); i++ {
			s.use[i] = used
		}
		s.leaf("", id, p, nil, nil, s.m.PageSize)
	}
}
