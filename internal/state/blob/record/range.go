package record

import (
	"bytes"

	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// Range visits the keys of a bucket that begin with a prefix.
type Range struct {
	// Key and Value are those of the present record, valid for as long as a cursor's; nil behind the last one.
	Key, Value []byte

	cursor *store.Cursor
	within []byte
	to     []byte // the first key behind all with the prefix, nil if none exists
}

// Within makes r a range of the keys that begin with a prefix, which it keeps. It has no record before Seek. A range
// that is used again keeps its cursor, and with it the bucket.
func (r *Range) Within(tx *store.Tx, b store.Bucket, prefix []byte) {
	if r.cursor == nil {
		r.cursor = tx.Cursor(b)
	}
	r.within = prefix
	r.to = appendSuccessor(r.to[:0], prefix)
}

// Seek goes to the first record whose key is not before k.
func (r *Range) Seek(k []byte) { r.take(r.cursor.SeekWithin(k, store.Span{From: r.within, To: r.to})) }

// Next goes to the record behind the present one.
func (r *Range) Next() { r.take(r.cursor.Next()) }

func (r *Range) take(k, v []byte) {
	if !bytes.HasPrefix(k, r.within) {
		k, v = nil, nil
	}
	r.Key = k
	r.Value = v
}
