package store

import (
	"fmt"

	bolt "go.etcd.io/bbolt"
)

// Tx is one View or Update. It belongs to the closure it was given to, and to its goroutine.
//
// It sees a stack of layers, of which the upper hide the lower.
type Tx struct {
	db *DB

	writes   *WriteSet      // the closure's own; nil in a View
	group    *WriteSet      // of earlier closures of the group; nil in a View
	mem      [2]*memtable   // active and frozen, either may be nil
	snapshot [2]uint64      // up to which group they are seen
	bolt     *bolt.Tx       // the file
	open     []*bolt.Bucket // by index in db.buckets, filled on first use

	err     error         // first error of a Put or Delete
	touched int           // see trim.go
	kept    []kept        // buffers to be returned at the end, see direct.go
	scans   []*scanSource // likewise
	last    *lastLeaf     // likewise
}

// Get returns the value of key, or nil if there is none. The value must not be modified and is valid until the
// closure returns.
func (tx *Tx) Get(b Bucket, key []byte) []byte {
	i := tx.bucketIndex(b)
	if tx.writes != nil {
		if w := tx.writes.get(b, key); w != nil {
			return w.Value
		}
		if w := tx.group.get(b, key); w != nil {
			return w.Value
		}
	}
	for j, m := range tx.mem {
		if m != nil {
			if e := m.get(i, key, tx.snapshot[j]); e != nil {
				return e.Value
			}
		}
	}
	bucket := tx.bucket(i)
	if bucket == nil {
		return nil
	}
	if d := tx.db.direct; d.serves(tx.bolt) {
		if v, ok := d.get(tx, i, uint64(bucket.Root()), key); ok {
			return v
		}
	}
	tx.touch(touchSeek)
	return bucket.Get(key)
}

// Put sets the value of key. The caller must not modify either slice before Update returns. They may be slices that
// Get or a Cursor of the same transaction returned. A nil value is stored as an empty one.
//
// A key or value of a size out of range makes Update return ErrKey. Put panics in a View.
func (tx *Tx) Put(b Bucket, key, value []byte) {
	if value == nil {
		value = []byte{}
	}
	tx.write(b, key, value)
}

// Delete removes key, which need not exist. The caller must not modify the slice before Update returns. Delete panics
// in a View.
func (tx *Tx) Delete(b Bucket, key []byte) { tx.write(b, key, nil) }

func (tx *Tx) write(b Bucket, key, value []byte) {
	if tx.writes == nil {
		panic("store: write in a View")
	}
	tx.bucketIndex(b) // a misspelt bucket shows here, not in the commit
	if len(key) == 0 || len(key) > MaxKeySize || len(value) > MaxValueSize {
		if tx.err == nil {
			tx.err = fmt.Errorf("%w: bucket %q, key of %d bytes, value of %d bytes", ErrKey, b, len(key), len(value))
		}
		return
	}
	tx.writes.put(b, key, value)
}

func (tx *Tx) bucketIndex(b Bucket) int {
	if i := tx.db.bucketIndex(b); i >= 0 {
		return i
	}
	panic(fmt.Sprintf("store: bucket %q is not among Options.Buckets", string(b)))
}

func (db *DB) bucketIndex(b Bucket) int {
	for i, name := range db.buckets {
		if name == b {
			return i
		}
	}
	return -1
}

// bucket is nil only for a bucket that a read-only file lacks.
func (tx *Tx) bucket(i int) *bolt.Bucket {
	if tx.open[i] == nil {
		tx.open[i] = tx.bolt.Bucket([]byte(tx.db.buckets[i]))
	}
	return tx.open[i]
}
