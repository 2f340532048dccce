package store

import (
	"bytes"

	bolt "go.etcd.io/bbolt"
)

// Cursor walks the keys of one bucket in byte order. The slices it returns must not be modified and are valid until
// the closure returns.
//
// In an Update it merges two sorted sequences: what is committed, which does not change while the closure runs, and
// the closure's own writes, which may.
type Cursor struct {
	tx   *Tx
	bolt *bolt.Cursor  // nil if there is nothing committed
	over *bucketWrites // nil in a View

	bk, bv []byte // where the committed side stands; bk is nil at its end
	at     position
	gen    int    // over.gen for which at is valid
	key    []byte // last key returned, nil before Seek and at the end
	ended  bool
}

// Seek moves to the first key at or after key and returns it with its value; k is nil if there is none. A nil key
// means the first of the bucket.
func (c *Cursor) Seek(key []byte) (k, v []byte) {
	c.ended = false
	if c.bolt != nil {
		c.tx.touch(touchSeek)
		c.bk, c.bv = c.bolt.Seek(key)
	}
	if c.over == nil {
		return c.land(c.bk, c.bv)
	}
	c.at, c.gen = c.over.search(key), c.over.gen
	return c.settle()
}

// Next moves to the key after the last returned one. After the end it stays there. Without a Seek before it, it
// moves to the first key.
func (c *Cursor) Next() (k, v []byte) {
	switch {
	case c.ended:
		return nil, nil
	case c.key == nil:
		return c.Seek(nil)
	case c.over == nil:
		c.forward()
		return c.land(c.bk, c.bv)
	}
	if c.bk != nil && bytes.Equal(c.bk, c.key) {
		c.forward()
	}
	if c.gen != c.over.gen {
		// The closure wrote since: what follows the last key may be new.
		c.at, c.gen = c.over.search(c.key), c.over.gen
	}
	if w := c.over.entry(c.at); w != nil && bytes.Equal(w.Key, c.key) {
		c.at = c.over.next(c.at)
	}
	return c.settle()
}

// settle returns the smaller of the two sides and skips what the closure deleted.
func (c *Cursor) settle() (k, v []byte) {
	for {
		w := c.over.entry(c.at)
		if w == nil {
			return c.land(c.bk, c.bv)
		}
		order := -1
		if c.bk != nil {
			order = bytes.Compare(w.Key, c.bk)
		}
		if order > 0 {
			return c.land(c.bk, c.bv)
		}
		if !w.Deleted() {
			return c.land(w.Key, w.Value)
		}
		if order == 0 {
			c.forward()
		}
		c.at = c.over.next(c.at)
	}
}

func (c *Cursor) forward() {
	c.tx.touch(touchNext)
	c.bk, c.bv = c.bolt.Next()
}

func (c *Cursor) land(k, v []byte) ([]byte, []byte) {
	c.key, c.ended = k, k == nil
	return k, v
}
