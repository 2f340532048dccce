package store

import "bytes"

// Scan is Cursor for walks of any length: the slices that it returns are valid until its next Seek or Next only. For that
// it reads files that are larger than what may be mapped with few system calls, see direct, and keeps no more than one
// buffer. In an Update it is Cursor.
func (tx *Tx) Scan(b Bucket) *Cursor {
	d := tx.db.direct
	if tx.writes != nil || !d.serves(tx.bolt) {
		return tx.Cursor(b)
	}
	i := tx.bucketIndex(b)
	bucket := tx.bucket(i)
	if bucket == nil || bucket.Root() == 0 { // 0: the bucket is inline, in its parent's page
		return tx.Cursor(b)
	}
	s := &scanSource{tx: tx, bucket: i, root: uint64(bucket.Root())}
	s.levels = s.room[:0]
	s.branch, s.run = d.pages.Get().(*[]byte), d.runs.Get().(*[]byte)
	tx.scans = append(tx.scans, s)
	c := &Cursor{}
	// The file comes last: what it returned is overwritten when it moves on.
	c.sources = append(c.above(tx, b, i), s)
	return c
}

// scanSource reads the file in key order.
type scanSource struct {
	tx     *Tx
	bucket int
	root   uint64
	other  *boltSource // goes on instead, once something did not look as it should

	depth  int           // level of the leaves, 0 if not known
	levels []branchLevel // from the root down to the branch above the leaf
	room   [8]branchLevel
	leaf   page // nil at the end
	i      int  // element of the leaf
	k, v   []byte
	passed []byte

	branch *[]byte // where the branch above the leaf lies, unless it is mapped
	run    *[]byte // what was read last: leaves that follow each other in the file
	start  uint64  // id of the first page of run
	have   int     // pages of run
	ahead  int     // how many pages are read at once: more with each read that goes on where the last one ended
}

type branchLevel struct {
	p page
	i int
}

func (s *scanSource) seek(key []byte) {
	if s.other == nil {
		s.levels, s.leaf, s.depth = s.levels[:0], nil, s.tx.db.direct.depthOf(s.bucket)
		if s.descend(s.root, key) && s.settle() {
			return
		}
		s.leave()
	}
	s.other.seek(key)
}

// leave leaves the rest to bbolt.
func (s *scanSource) leave() {
	s.other = &boltSource{tx: s.tx, c: s.tx.bucket(s.bucket).Cursor()}
	s.tx.db.direct.found(s.bucket, 0)
}

// descend goes from a page, of the level below those we have, down to where key is, or would be.
func (s *scanSource) descend(id uint64, key []byte) (ok bool) {
	d := s.tx.db.direct
	for s.depth == 0 || len(s.levels) < s.depth {
		level := len(s.levels)
		p, ok := d.node(s.tx, s.depth, id, level, *s.branch)
		if !ok {
			return false
		}
		if p.leaf() {
			d.found(s.bucket, level)
			s.depth = level
			break
		}
		i, ok := p.search(key)
		if !ok {
			return false
		}
		s.levels = append(s.levels, branchLevel{p, i})
		if _, id, ok = p.child(i); !ok {
			return false
		}
	}
	if s.leaf, ok = s.fetch(id); !ok || !s.leaf.leaf() {
		return false
	}
	s.i, ok = s.leaf.search(key)
	return ok
}

// fetch returns the page id with those that it overflows to, from the run if it is there, which else it replaces.
func (s *scanSource) fetch(id uint64) (p page, ok bool) {
	d := s.tx.db.direct
	for need := 1; ; {
		if id >= s.start && id < s.start+uint64(s.have) {
			p = page(*s.run)[int(id-s.start)*d.pageSize : s.have*d.pageSize]
			if !p.is(id) {
				return nil, false
			}
			n := p.pages() * d.pageSize
			if n <= len(p) {
				return p[:n], true
			}
			if n > maxRead {
				s.tx.touch(p.pages())
				p, ok = d.mapped(s.tx.bolt, id, p.pages())
				return p, ok && p.is(id)
			}
			if need > 1 {
				return nil, false // the file ends in this page
			}
			need = p.pages()
		}
		if s.have > 0 && id > s.start && id <= s.start+uint64(s.have) {
			s.ahead *= 2
		} else {
			s.ahead = 1
		}
		s.ahead = min(max(s.ahead, need), maxRead/d.pageSize)
		s.have = 0
		if p, ok = d.read(s.tx.bolt, id, (*s.run)[:s.ahead*d.pageSize]); !ok {
			return nil, false
		}
		s.start, s.have = id, len(p)/d.pageSize
	}
}

// settle moves to the next leaf while the position is past the last element of one, and reads the element.
func (s *scanSource) settle() (ok bool) {
	for s.leaf != nil && s.i >= s.leaf.count() {
		s.leaf = nil
		for len(s.levels) > 0 {
			l := &s.levels[len(s.levels)-1]
			if l.i++; l.i < l.p.count() {
				_, id, ok := l.p.child(l.i)
				if !ok || !s.descend(id, nil) {
					return false
				}
				break
			}
			s.levels = s.levels[:len(s.levels)-1]
		}
	}
	if s.leaf == nil {
		s.k, s.v = nil, nil
		return true
	}
	s.k, s.v, ok = s.leaf.pair(s.i)
	return ok
}

func (s *scanSource) pass(key []byte) {
	if s.other == nil {
		if s.k == nil || !bytes.Equal(s.k, key) {
			return
		}
		// The key may lie in the buffer that is overwritten.
		s.passed = append(s.passed[:0], key...)
		s.i++
		if s.settle() {
			return
		}
		key = s.passed
		s.leave()
		s.other.seek(key)
	}
	s.other.pass(key)
}

func (s *scanSource) at() Write {
	if s.other != nil {
		return s.other.at()
	}
	return Write{s.k, s.v}
}

// release returns the buffers.
func (s *scanSource) release() {
	d := s.tx.db.direct
	d.pages.Put(s.branch)
	d.runs.Put(s.run)
	s.branch, s.run, s.leaf = nil, nil, nil
}
