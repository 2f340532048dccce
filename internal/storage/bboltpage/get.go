package bboltpage

import (
	"bytes"
)

// Get returns the value of key, or nil if the key does not exist. It calls verify with the pair. If the key does not
// exist, it checks the leaf and calls verify with the neighbouring pairs: a damaged key must not pass for an absent
// one. The value is valid until the snapshot is released.
//
// Errors: a *DamageError, the error of verify, or that of a system call.
func (s *Snapshot) Get(t Tree, key []byte, verify Verify) (value []byte, err error) {
	l, err := s.leafOf(t, key)
	if err != nil {
		return nil, err
	}
	i, ok := l.find(key)
	if !ok {
		return nil, l.damaged("an element reaches past the end")
	}
	if i < l.page.count() {
		k, value, bucket, ok := l.page.pair(i)
		if !ok || bucket {
			return nil, l.damaged("an element is not a pair")
		}
		if bytes.Equal(k, key) {
			if err := verify(k, value); err != nil {
				return nil, err
			}
			l.at = i
			// The buffer is used again for the next leaf. The mapping is not: it stays until the transaction ends.
			if s.copies && s.direct {
				return bytes.Clone(value), nil
			}
			l.shared = l.leaf.buf != nil
			return value, nil
		}
	}
	return s.absent(l, key, i, verify)
}

// find is the search of the leaf for key. A caller that reads many keys mostly reads them in order: the element after
// the last one is looked at first.
func (l *lastLeaf) find(key []byte) (i int, ok bool) {
	if i := l.at + 1; l.page.element(i) {
		if k, ok := l.page.key(i); ok && bytes.Equal(k, key) {
			return i, true
		}
	}
	return l.page.search(key)
}

// absent verifies that key, whose position would be element i of the leaf, does not exist.
func (s *Snapshot) absent(l *lastLeaf, key []byte, i int, verify Verify) ([]byte, error) {
	if i < l.page.count() || l.hi == nil {
		if problem := l.check(); problem != "" {
			return nil, l.damaged(problem)
		}
		// If the key is there with a flipped bit in it, it has moved to one side: it is now one of the two neighbours
		// of its own place, or the order of the keys is broken, which check has found.
		for j := max(i-1, 0); j <= i && j < l.page.count(); j++ {
			if l.verified[j-(i-1)] == j+1 {
				continue
			}
			k, v, _, _ := l.page.pair(j) // checked
			if err := verify(k, v); err != nil {
				return nil, err
			}
			l.verified[j-(i-1)] = j + 1
		}
		return nil, nil
	}
	// Past the last key of its leaf: the next leaf must begin with a higher key. It is looked at once for all such keys,
	// as a transaction often adds many in a row.
	if l.ended {
		return nil, nil
	}
	c := s.Cursor(l.tree, verify)
	if err := c.Seek(key); err != nil {
		return nil, err
	}
	k, v := c.Pair()
	if k != nil && bytes.Equal(k, key) {
		return v, nil
	}
	l.ended = bytes.Equal(k, l.hi)
	return nil, nil
}

// check verifies the leaf once.
func (l *lastLeaf) check() string {
	if l.checked {
		return ""
	}
	pageSize := l.s.r.pageSize
	if l.tree.inline != nil {
		pageSize = 0
	}
	if problem := l.page.check(pageSize); problem != "" {
		return problem
	}
	if l.lo != nil {
		if first, ok := l.page.key(0); !ok || l.page.count() == 0 || !bytes.Equal(first, l.lo) {
			return "does not begin with the key by which it was reached"
		}
	}
	l.checked = true
	return ""
}

func (l *lastLeaf) damaged(problem string) error { return damaged(l.id, "%s", problem) }

// lastLeaf is a leaf that a snapshot has read lately. The next key is often in the same leaf.
type lastLeaf struct {
	s       *Snapshot
	tree    Tree
	id      uint64
	page    Page   // nil if none exists
	lo, hi  []byte // the page holds all keys k of the bucket with lo <= k < hi; nil means no bound
	checked bool   // check found no damage in this leaf
	around  bool   // check found no damage in the neighbouring leaves
	ended   bool   // the last pair of the leaf is not damaged, and the next leaf begins with hi
	at      int    // the element that Get has found last, -1 before the first
	// verified are the elements that absent has verified last, plus one: those before and after the absent key. The next
	// key is often between them.
	verified [2]int
	branch   *[]byte // buffer of the branch above
	leaf     kept    // buffer of the leaf, if it is not mapped
	shared   bool    // a caller holds values in leaf
}

func (l *lastLeaf) covers(t Tree, key []byte) bool {
	return l.page != nil && l.tree.root == t.root && l.tree.name == t.name &&
		(l.lo == nil || bytes.Compare(l.lo, key) <= 0) && (l.hi == nil || bytes.Compare(key, l.hi) < 0)
}

// leafOf returns the leaf that contains key, or would contain it.
func (s *Snapshot) leafOf(t Tree, key []byte) (*lastLeaf, error) {
	for i, l := range s.last {
		if l != nil && l.covers(t, key) {
			s.last[0], s.last[i] = l, s.last[0]
			return l, nil
		}
	}
	l := s.replaced(t)
	s.leaves++
	// A caller still holds values in this buffer. It goes back to the pool when the snapshot is released.
	if l.shared {
		s.kept = append(s.kept, l.leaf)
		l.leaf, l.shared = kept{}, false
	}
	// Each kept buffer is memory that the transaction holds. Beyond the limit the mapping is read, whose pages the
	// kernel may take back.
	direct := s.direct && len(s.kept) < maxKept
	err := l.descend(t, key, direct, t.hint())
	if err == errDepth {
		t.found(0)
		err = l.descend(t, key, direct, 0)
	}
	if err != nil {
		l.page = nil
		return nil, err
	}
	return l, nil
}

// replaced returns the leaf to give up for another leaf of t, which becomes the first of s.last: that of the same tree,
// or the older one.
func (s *Snapshot) replaced(t Tree) *lastLeaf {
	i := 1
	if l := s.last[0]; l == nil || l.tree.root == t.root && l.tree.name == t.name {
		i = 0
	}
	l := s.last[i]
	if l == nil {
		l = &lastLeaf{s: s}
	}
	s.last[i] = s.last[0]
	s.last[0] = l
	return l
}

// descend finds and reads the leaf of key. depth is the level of the leaves, 0 if it is not known.
func (l *lastLeaf) descend(t Tree, key []byte, direct bool, depth int) (err error) {
	l.tree = t
	l.page = nil
	l.lo = nil
	l.hi = nil
	l.checked = false
	l.around = false
	l.ended = false
	l.at = -1
	l.verified = [2]int{}
	if t.inline != nil {
		l.id, l.page = 0, t.inline
		return nil
	}
	if direct && l.branch == nil {
		l.branch = l.s.r.pages.Get().(*[]byte)
	}
	var buf []byte
	if l.branch != nil {
		buf = *l.branch
	}
	id := t.root
	for at := 0; depth == 0 || at < depth; at++ {
		if at > maxDepth {
			return damaged(id, "lies too deep")
		}
		p, err := l.s.node(direct, depth, id, at, buf)
		if err != nil {
			return err
		}
		if p.leaf() {
			t.found(at)
			break
		}
		i, ok := p.search(key)
		if !ok {
			return damaged(id, "an element reaches past the end")
		}
		// The bounds only narrow on the way down: the leaf holds the keys from the greatest key below or equal that a
		// branch has to the smallest one above.
		if i > 0 {
			l.lo, _, _ = p.child(i)
		}
		if i+1 < p.count() {
			if l.hi, _, ok = p.child(i + 1); !ok {
				return damaged(id, "an element reaches past the end")
			}
		}
		if _, id, ok = p.child(i); !ok {
			return damaged(id, "an element reaches past the end")
		}
	}
	l.id = id
	// Nearly all leaves are one page. Only the header of a read page tells that there are more.
	if !direct {
		l.page, err = l.s.page(id)
	} else if err = l.load(id, 1); err == nil && l.page.pages() > 1 {
		err = l.load(id, l.page.pages())
	}
	if err == nil && !l.page.leaf() {
		err = errDepth
	}
	return err
}

// load reads a page that consists of n pages.
func (l *lastLeaf) load(id uint64, n int) (err error) {
	size := n * l.s.r.pageSize
	if size > maxRead {
		l.page, err = l.s.page(id)
		return err
	}
	pool := &l.s.r.pages
	if n > 1 {
		pool = &l.s.r.runs
	}
	if l.leaf.pool != pool {
		l.leaf.release()
		l.leaf = kept{pool, pool.Get().(*[]byte)}
	}
	if l.page, err = l.s.read(id, (*l.leaf.buf)[:size]); err != nil {
		return err
	}
	if !l.page.is(id) {
		return notA(l.page, id)
	}
	if len(l.page) < size {
		return damaged(id, "reaches past the end of the file")
	}
	return nil
}
