package bboltpage

import (
	"bytes"
	"errors"
)

// Verify checks a key with its value. It returns an error that describes how they differ from what was written.
type Verify func(key, value []byte) error

// Cursor walks one bucket in key order. It checks each leaf that it enters. Its methods return a *DamageError, the
// error of Verify, or the error of a system call. After an error the Cursor must not be used.
type Cursor struct {
	s       *Snapshot
	tree    Tree
	direct  bool
	verify  Verify
	buckets bool // nested buckets are elements like others

	span   Span
	depth  int     // level of the leaves, 0 if not known
	levels []level // from the root down to the branch above the leaf
	room   [8]level
	leaf   Page // nil at the end
	leafID uint64
	stop   int // the first element of the leaf at or after span.To
	i      int // element of the leaf
	key    []byte
	value  []byte

	branch *[]byte // buffer for the branch above the leaf; unused if the branch is mapped
	run    *[]byte // the last read: consecutive leaves of the file
	start  uint64  // id of the first page of run
	have   int     // pages of run
	ahead  int     // number of leaves to read at once; it grows with each read of a walk
	walks  bool    // the leaf is the next one of a walk, not that of a Seek
}

type level struct {
	p  Page
	id uint64
	i  int
}

// Span is the keys k with From <= k < To. A nil To sets no end.
type Span struct{ From, To []byte }

// Contains reports whether key is in the span.
func (s *Span) Contains(key []byte) bool {
	return bytes.Compare(key, s.From) >= 0 && (s.To == nil || bytes.Compare(key, s.To) < 0)
}

// Cursor returns a cursor whose keys and values are valid until the transaction ends. verify, which may be nil, is
// called with each pair that the cursor moves to, and with the pair before the key of a Seek: if that pair's key is
// damaged, it may be the key that was sought.
func (s *Snapshot) Cursor(t Tree, verify Verify) *Cursor {
	c := s.mappedCursor(t)
	c.verify = verify
	return c
}

func (s *Snapshot) mappedCursor(t Tree) *Cursor {
	c := &Cursor{s: s, tree: t}
	c.levels = c.room[:0]
	return c
}

// Scan is like Cursor, but the returned slices are valid only until the next Seek or Next. It reads a direct snapshot
// with few system calls.
func (s *Snapshot) Scan(t Tree, verify Verify) *Cursor {
	c := s.Cursor(t, verify)
	if s.direct && t.inline == nil {
		c.direct = true
		c.branch, c.run = s.r.pages.Get().(*[]byte), s.r.runs.Get().(*[]byte)
		s.cursors = append(s.cursors, c)
	}
	return c
}

func (c *Cursor) release() {
	c.s.r.pages.Put(c.branch)
	c.s.r.runs.Put(c.run)
	c.branch = nil
	c.run = nil
	c.leaf = nil
	c.key = nil
	c.value = nil
}

// Pair returns the pair at the position; the key is nil at the end.
func (c *Cursor) Pair() (key, value []byte) { return c.key, c.value }

// Seek moves to the first key at or after key.
func (c *Cursor) Seek(key []byte) error { return c.SeekWithin(key, Span{}) }

// SeekWithin is Seek for a walk within a span, at whose end the cursor is at its end. The caller does not change the
// span's keys until the next Seek. Damage of a pair outside of the span is an error only if the pair can be one of the
// span whose key has changed.
func (c *Cursor) SeekWithin(key []byte, s Span) error {
	c.span = s
	c.levels, c.leaf, c.depth, c.walks = c.levels[:0], nil, c.tree.hint(), false
	if c.tree.inline != nil {
		if err := c.enter(c.tree.inline, 0, nil); err != nil {
			return err
		}
	} else if err := c.fromRoot(key); err != nil {
		return err
	}
	var ok bool
	if c.i, ok = c.leaf.search(key); !ok {
		return damaged(c.leafID, "an element reaches past the end")
	}
	// A flipped bit may have made the sought key smaller, so that it stands just before the position. Without this a
	// damaged key would be reported as absent.
	if c.verify != nil && c.i > 0 {
		if err := c.verified(c.i - 1); err != nil && c.concerns(c.i-1) {
			return err
		}
	}
	return c.load()
}

// concerns reports whether the damage of a pair is one of the span: its key is in it, or is after the inversion of one
// bit, with which the pair can be verified. A value that was damaged elsewhere must not end a walk here.
func (c *Cursor) concerns(i int) bool {
	k, v, bucket, ok := c.leaf.pair(i)
	if !ok || bucket || c.span.Contains(k) {
		return true
	}
	k = bytes.Clone(k)
	for bit := range 8 * len(k) {
		// Few of the keys with one other bit are in the span, mostly none.
		k[bit/8] ^= 1 << (bit % 8)
		if c.span.Contains(k) && c.verify(k, v) == nil {
			return true
		}
		k[bit/8] ^= 1 << (bit % 8)
	}
	return false
}

// fromRoot descends from the root to the leaf that contains key, or would contain it.
func (c *Cursor) fromRoot(key []byte) error {
	err := c.descend(c.tree.root, key, nil)
	if err == errDepth {
		c.tree.found(0)
		c.levels, c.depth = c.levels[:0], 0
		err = c.descend(c.tree.root, key, nil)
	}
	return err
}

// errDepth means that the hint for the level of the leaves was too low, because the tree has grown.
var errDepth = errors.New("the leaves are at a lower level")

// Next moves to the next key.
func (c *Cursor) Next() error {
	if c.leaf == nil {
		return nil
	}
	c.i++
	return c.load()
}

func (c *Cursor) verified(i int) error {
	k, v, bucket, ok := c.leaf.pair(i)
	if !ok || bucket {
		return damaged(c.leafID, "element %d is not a pair", i)
	}
	return c.verify(k, v)
}

// descend goes from a page of the level below levels down to the leaf that contains key, or would contain it. bound is
// the key by which the page was reached; nil means no bound.
func (c *Cursor) descend(id uint64, key, bound []byte) error {
	for c.depth == 0 || len(c.levels) < c.depth {
		at := len(c.levels)
		if at > maxDepth {
			return damaged(id, "lies too deep")
		}
		var buf []byte
		if c.branch != nil {
			buf = *c.branch
		}
		p, err := c.s.node(c.direct, c.depth, id, at, buf)
		if err != nil {
			return err
		}
		if p.leaf() {
			c.tree.found(at)
			c.depth = at
			break
		}
		// A branch that was swapped with another, or a pointer with a flipped bit, would lead to well-formed pages of
		// other keys. The first key is the only thing that ties a page to its place.
		if first, ok := p.key(0); !ok || bound != nil && !bytes.Equal(first, bound) {
			return damaged(id, "does not begin with the key by which it was reached")
		}
		i, ok := p.search(key)
		if !ok {
			return damaged(id, "an element reaches past the end")
		}
		c.levels = append(c.levels, level{p, id, i})
		if id, bound, err = c.levels[at].follow(); err != nil {
			return err
		}
	}
	p, err := c.fetch(id)
	if err != nil {
		return err
	}
	if !p.leaf() {
		return errDepth
	}
	return c.enter(p, id, bound)
}

const maxDepth = 64

// follow returns the page at the current position and the key of the branch element that points to it.
func (l *level) follow() (id uint64, bound []byte, err error) {
	bound, id, ok := l.p.child(l.i)
	if !ok {
		return 0, nil, damaged(l.id, "an element reaches past the end")
	}
	return id, bound, nil
}

// enter makes p the leaf of the position.
func (c *Cursor) enter(p Page, id uint64, bound []byte) error {
	pageSize := c.s.r.pageSize
	if c.tree.inline != nil {
		pageSize = 0
	}
	if problem := p.check(pageSize); problem != "" {
		return damaged(id, "%s", problem)
	}
	if bound != nil {
		if first, ok := p.key(0); !ok || p.count() == 0 || !bytes.Equal(first, bound) {
			return damaged(id, "does not begin with the key by which it was reached")
		}
	}
	c.leaf, c.leafID, c.i, c.stop = p, id, 0, p.count()
	// Once per leaf, so that the keys before the end need no comparison. That of the last one mostly is enough.
	if to := c.span.To; to != nil && c.stop > 0 {
		if last, ok := p.key(c.stop - 1); !ok || bytes.Compare(last, to) >= 0 {
			c.stop, _ = p.search(to) // checked
		}
	}
	return nil
}

// fetch returns the page id with its overflow pages. It takes them from run if they are there, and otherwise reads a
// new run.
func (c *Cursor) fetch(id uint64) (Page, error) {
	if !c.direct {
		return c.s.page(id)
	}
	size := c.s.r.pageSize
	// Each turn either returns or reads a longer run: the first one may turn out to be too short for the page's
	// overflow pages, which only its header tells. need > 1 at the second turn means that the file ends before them.
	for need := 1; ; {
		if id >= c.start && id < c.start+uint64(c.have) {
			p := Page(*c.run)[int(id-c.start)*size : c.have*size]
			if !p.is(id) {
				return nil, notA(p, id)
			}
			n := p.pages()
			if n*size <= len(p) {
				return p[:n*size], nil
			}
			// A very large value does not fit into the buffer of a run, and is read from the mapping.
			if n*size > maxRead {
				return c.s.page(id)
			}
			if need > 1 {
				return nil, damaged(id, "reaches past the end of the file")
			}
			need = n
		}
		// Reading ahead pays in a walk, and where Seeks go through the file in order: twice as many leaves each time. A
		// jump goes back to one leaf, so that random reads cost no more than they need.
		if c.walks || c.have > 0 && id > c.start && id <= c.start+uint64(c.have) {
			c.ahead = min(2*c.ahead, maxRead/size)
		} else {
			c.ahead = 1
		}
		pages := max(c.near(id), need)
		// Before the read: after an error, run no longer has the pages that have says.
		c.have = 0
		p, err := c.s.read(id, (*c.run)[:pages*size])
		if err != nil {
			return nil, err
		}
		c.start, c.have = id, len(p)/size
	}
}

// near returns the number of pages from a leaf on that have it and those of the next leaves of the walk that lie close
// behind each other in the file, ahead of them at most. The branch above tells: bbolt puts leaves anywhere.
func (c *Cursor) near(id uint64) int {
	last := id
	if len(c.levels) > 0 {
		above := &c.levels[len(c.levels)-1]
		for i := above.i + 1; i < above.i+c.ahead; i++ {
			key, next, ok := above.p.child(i)
			if !ok || next <= last || next-last > maxGap || next-id >= uint64(maxRead/c.s.r.pageSize) ||
				c.span.To != nil && bytes.Compare(key, c.span.To) >= 0 {
				break
			}
			last = next
		}
	}
	return int(last-id) + 1
}

// load moves to the next leaf while the position is past the last element of one, and reads the element.
func (c *Cursor) load() error {
	for c.leaf != nil && c.i >= c.stop {
		if c.i < c.leaf.count() {
			return c.end()
		}
		c.leaf = nil
		for len(c.levels) > 0 {
			// The lowest branch with a further child has the next leaf below it; branches above their last child are
			// left.
			l := &c.levels[len(c.levels)-1]
			if l.i++; l.i < l.p.count() {
				id, bound, err := l.follow()
				c.walks = true
				if err == nil {
					// A nil key sorts before all others: it leads to the first leaf below id.
					err = c.descend(id, nil, bound)
				}
				if err == errDepth {
					err = damaged(id, "is a branch among the leaves")
				}
				if err != nil {
					return err
				}
				break
			}
			c.levels = c.levels[:len(c.levels)-1]
		}
	}
	c.key, c.value = nil, nil
	if c.leaf == nil {
		return nil
	}
	k, v, bucket, ok := c.leaf.pair(c.i)
	if !ok || bucket && !c.buckets {
		return damaged(c.leafID, "element %d is not a pair", c.i)
	}
	c.key, c.value = k, v
	if c.verify != nil {
		return c.verify(k, v)
	}
	return nil
}

// end leaves the leaf at the first element behind the span.
func (c *Cursor) end() error {
	if c.verify != nil {
		// As before the first pair: the last one of the span may be here, with a higher key.
		if err := c.verified(c.i); err != nil && c.concerns(c.i) {
			return err
		}
	}
	c.leaf, c.key, c.value = nil, nil, nil
	return nil
}
