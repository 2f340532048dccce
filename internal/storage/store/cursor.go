package store

import (
	"bytes"
	"math"

	"github.com/lazuli-storage/lazuli/internal/storage/bboltpage"
)

// Cursor walks the keys of one bucket in byte order. The slices it returns must not be modified and are valid until
// the closure returns.
//
// It merges sorted sources, of which the newer hide the older: the closure's own writes, the writes of its group, those
// of groups in flight, the memtables, and bbolt.
type Cursor struct {
	sources []source // the newest first
	key     []byte   // last key returned, nil before Seek and at the end
	end     []byte   // of the span of the last Seek, nil for none
	ended   bool

	// In a View the sources do not change. Then the source of the last key is asked alone as long as its keys are below
	// those of all others: below bound, which is nil if the others are at their ends.
	static bool
	lead   source // nil if another source has the last key too, or may get one before the next
	bound  []byte

	// Space for the sources, so that a cursor needs one allocation.
	room  [5]source
	own   overlaySource
	group overlaySource
	mem   [2]memSource
	file  fileSource
}

// source is a sorted sequence of writes with a position.
type source interface {
	// seek moves to the first key at or after key. A source may be at its end behind the span.
	seek(key []byte, in Span)
	// pass moves past key, if the position is at it.
	pass(key []byte)
	// at returns the write at the position; a nil Key means the end.
	at() Write
}

// Cursor returns a cursor over b, which sees the transaction's own writes, also later ones.
func (tx *Tx) Cursor(b Bucket) *Cursor { return tx.cursor(b, (*bboltpage.Snapshot).Cursor) }

// Scan is like Cursor, but the slices that it returns are valid only until its next Seek or Next. In return it reads
// files that are larger than the mapping limit with few system calls. In an Update it is the same as Cursor.
func (tx *Tx) Scan(b Bucket) *Cursor {
	if tx.writes != nil {
		return tx.Cursor(b)
	}
	return tx.cursor(b, (*bboltpage.Snapshot).Scan)
}

func (tx *Tx) cursor(b Bucket,
	open func(*bboltpage.Snapshot, bboltpage.Tree, bboltpage.Verify) *bboltpage.Cursor) *Cursor {
	i := tx.bucketIndex(b)
	c := &Cursor{static: tx.writes == nil}
	c.sources = c.above(tx, b, i)
	if t := tx.tree(i); t.exists {
		// The file comes last: the next move overwrites the slices that a Scan returned.
		c.file = fileSource{tx: tx, c: open(tx.file, t.Tree, tx.db.verifiers[i])}
		c.sources = append(c.sources, &c.file)
	}
	return c
}

// above returns the sources above the file. The cursor has space for the file's source as well.
func (c *Cursor) above(tx *Tx, b Bucket, i int) []source {
	sources := c.room[:0]
	if tx.writes != nil {
		c.own.b = tx.writes.of(b)
		c.group.b = tx.group.of(b)
		sources = append(sources, &c.own)
		if len(c.group.b.runs) > 0 {
			sources = append(sources, &c.group)
		}
	}
	for _, m := range tx.flying {
		if !m.lists[i].empty() {
			sources = append(sources, &memSource{tx: tx, list: &m.lists[i], snapshot: math.MaxUint64})
		}
	}
	for j, m := range tx.mem {
		if m != nil && !m.lists[i].empty() {
			c.mem[j] = memSource{tx: tx, list: &m.lists[i], snapshot: tx.snapshot[j]}
			sources = append(sources, &c.mem[j])
		}
	}
	return sources
}

// Seek moves to the first key at or after key and returns it with its value; k is nil if no such key exists. A nil key
// means the first key of the bucket.
func (c *Cursor) Seek(key []byte) (k, v []byte) { return c.SeekWithin(key, Span{}) }

// Span is the keys k with From <= k < To. A nil To sets no end.
type Span = bboltpage.Span

// SeekWithin is like Seek for a walk within a span: the cursor ends with it. The slices of the span must not change
// until the next Seek. Damage of what lies outside does not end the walk, unless it can be a value of the span whose
// key has changed.
func (c *Cursor) SeekWithin(key []byte, in Span) (k, v []byte) {
	c.end = in.To
	for _, s := range c.sources {
		s.seek(key, in)
	}
	return c.current()
}

// Next moves to the key after the last returned one. At the end it stays there. Without a Seek before it, it moves to
// the first key.
func (c *Cursor) Next() (k, v []byte) {
	switch {
	case c.ended:
		return nil, nil
	case c.key == nil:
		return c.Seek(nil)
	case c.lead != nil:
		return c.nextOfLead()
	}
	for _, s := range c.sources {
		s.pass(c.key)
	}
	return c.current()
}

// nextOfLead is Next of a cursor with a lead.
func (c *Cursor) nextOfLead() (k, v []byte) {
	var w Write
	if s := &c.file; c.lead == source(s) {
		s.moved(s.c.Next())
		w = Write{s.k, s.v}
	} else {
		c.lead.pass(c.key)
		w = c.lead.at()
	}
	if w.Key == nil || w.Deleted() || c.bound != nil && bytes.Compare(w.Key, c.bound) >= 0 {
		// The other sources are past the last key, so that none of them has to move before the smallest key is found.
		return c.current()
	}
	c.key = w.Key
	return w.Key, w.Value
}

// current returns the smallest key of all sources, from the newest source that has it, and skips deleted keys.
func (c *Cursor) current() (k, v []byte) {
	for {
		var first Write
		c.lead, c.bound = nil, nil
		for _, s := range c.sources {
			w := s.at()
			if w.Key == nil || c.end != nil && bytes.Compare(w.Key, c.end) >= 0 {
				continue
			}
			if first.Key == nil || bytes.Compare(w.Key, first.Key) < 0 {
				first, w, c.lead = w, first, s
			}
			// w is now the larger of both.
			if w.Key != nil && (c.bound == nil || bytes.Compare(w.Key, c.bound) < 0) {
				c.bound = w.Key
			}
		}
		c.key, c.ended = first.Key, first.Key == nil
		if !c.static || c.bound != nil && bytes.Equal(c.bound, first.Key) {
			c.lead = nil
		}
		if c.bound == nil && c.lead != source(&c.file) {
			c.bound = c.end // the file's source ends there by itself
		}
		if c.ended || !first.Deleted() {
			return first.Key, first.Value
		}
		for _, s := range c.sources {
			s.pass(first.Key)
		}
	}
}

// overlaySource reads a write set that may grow meanwhile.
type overlaySource struct {
	b   *bucketWrites
	pos position
	gen int // b.gen for which pos is valid
}

func (s *overlaySource) seek(key []byte, _ Span) { s.pos, s.gen = s.b.search(key), s.b.gen }

func (s *overlaySource) pass(key []byte) {
	if s.gen != s.b.gen {
		s.seek(key, Span{}) // what follows key may be new
	}
	if w := s.b.entry(s.pos); w != nil && bytes.Equal(w.Key, key) {
		s.pos = s.b.next(s.pos)
	}
}

func (s *overlaySource) at() Write {
	if w := s.b.entry(s.pos); w != nil {
		return *w
	}
	return Write{}
}

// memSource reads a memtable as of a snapshot.
type memSource struct {
	tx       *Tx
	list     *skiplist
	snapshot uint64
	e        *entry
	w        Write // of e, without the checksum
}

func (s *memSource) seek(key []byte, _ Span) { s.move(s.list.seek(key, s.snapshot)) }

func (s *memSource) pass(key []byte) {
	if s.e != nil && bytes.Equal(s.e.Key, key) {
		s.move(s.list.after(s.e, s.snapshot))
	}
}

func (s *memSource) move(e *entry) {
	s.e, s.w = e, Write{}
	if e != nil {
		s.w = s.tx.unsealed(e.Write)
	}
}

func (s *memSource) at() Write { return s.w }

// fileSource reads the file.
type fileSource struct {
	tx   *Tx
	c    *bboltpage.Cursor
	k, v []byte
}

func (s *fileSource) seek(key []byte, in Span) { s.moved(s.c.SeekWithin(key, in)) }

func (s *fileSource) pass(key []byte) {
	if s.k != nil && bytes.Equal(s.k, key) {
		s.moved(s.c.Next())
	}
}

func (s *fileSource) moved(err error) {
	if err != nil {
		s.tx.failRead(err)
	}
	if s.k, s.v = s.c.Pair(); s.k != nil {
		s.v = s.tx.db.strip(s.v)
	}
}

func (s *fileSource) at() Write { return Write{s.k, s.v} }
