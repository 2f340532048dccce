package store

import (
	"fmt"

	bolt "go.etcd.io/bbolt"
)

// Tx is one View or Update. It belongs to the closure it was given to, and to its goroutine.
type Tx struct {
	db      *DB
	bolt    *bolt.Tx
	open    []*bolt.Bucket // by index in db.buckets, filled on first use
	writes  *WriteSet      // nil in a View
	err     error          // first error of a Put or Delete
	touched int            // see trim.go
}

// Get returns the value of key, or nil if there is none. The value must not be modified and is valid until the
// closure returns.
func (tx *Tx) Get(b Bucket, key []byte) []byte {
	if tx.writes != nil {
		if w := tx.writes.get(b, key); w != nil {
			return w.Value
		}
	}
	tx.touch(touchSeek)
	bucket := tx.bucket(b)
	if bucket == nil {
		return nil
	}
	return bucket.Get(key)
}

// Put sets the value of key. The store keeps both slices: the caller must not modify them afterwards. They may be
// slices that Get or a Cursor of the same transaction returned. A nil value is stored as an empty one.
//
// A key or value of a size out of range makes Update return ErrKey. Put panics in a View.
func (tx *Tx) Put(b Bucket, key, value []byte) {
	if value == nil {
		value = []byte{}
	}
	tx.write(b, key, value)
}

// Delete removes key, which need not exist. The store keeps the slice: the caller must not modify it afterwards.
// Delete panics in a View.
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

// Cursor returns a cursor over b, which sees the transaction's own writes, also later ones. It must be positioned by
// Seek.
func (tx *Tx) Cursor(b Bucket) *Cursor {
	c := &Cursor{tx: tx}
	if bucket := tx.bucket(b); bucket != nil {
		c.bolt = bucket.Cursor()
	}
	if tx.writes != nil {
		c.over = tx.writes.of(b)
	}
	return c
}

func (tx *Tx) bucketIndex(b Bucket) int {
	for i, name := range tx.db.buckets {
		if name == b {
			return i
		}
	}
	panic(fmt.Sprintf("store: bucket %q is not among Options.Buckets", string(b)))
}

// bucket is nil only for a bucket that a read-only file lacks.
func (tx *Tx) bucket(b Bucket) *bolt.Bucket {
	i := tx.bucketIndex(b)
	if tx.open[i] == nil {
		tx.open[i] = tx.bolt.Bucket([]byte(b))
	}
	return tx.open[i]
}
