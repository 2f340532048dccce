package store

import (
	"bytes"
	"slices"
)

// Writes are changes that a repair plans, in their order.
type Writes []fix

// fix is a write; a nil value deletes.
type fix struct {
	bucket     Bucket
	key, value []byte
}

// Put plans a write.
func (w *Writes) Put(b Bucket, key, value []byte) {
	*w = append(*w, fix{b, bytes.Clone(key), bytes.Clone(value)})
}

// Delete plans a deletion.
func (w *Writes) Delete(b Bucket, key []byte) { w.Put(b, key, nil) }

// writesBatch is the number of writes of one transaction.
const writesBatch = 1000

// Apply writes everything, in several transactions. It can be interrupted: what is left is found again.
func (w Writes) Apply(db *DB) error {
	for batch := range slices.Chunk(w, writesBatch) {
		err := db.Update(func(tx *Tx) error {
			for _, w := range batch {
				if w.value == nil {
					tx.Delete(w.bucket, w.key)
				} else {
					tx.Put(w.bucket, w.key, w.value)
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Fixes are writes that put the records of a damaged file in order: one for each key, and a record that is written is
// not deleted. On a nil Fixes, Put and Delete do nothing.
type Fixes struct {
	writes Writes
	keys   map[string]int // index in writes
}

func (f *Fixes) add(b Bucket, key, value []byte) {
	if f == nil {
		return
	}
	name := string(b) + "\x00" + string(key)
	if i, planned := f.keys[name]; planned {
		if f.writes[i].value == nil {
			f.writes[i].value = bytes.Clone(value)
		}
		return
	}
	if f.keys == nil {
		f.keys = make(map[string]int)
	}
	f.keys[name] = len(f.writes)
	f.writes.Put(b, key, value)
}

// Put plans a write, unless one of the same key is planned.
func (f *Fixes) Put(b Bucket, key, value []byte) { f.add(b, key, value) }

// Delete plans a deletion, unless a write of the same key is planned.
func (f *Fixes) Delete(b Bucket, key []byte) { f.add(b, key, nil) }

// Len returns the number of writes.
func (f *Fixes) Len() int { return len(f.writes) }

// Apply writes everything, as [Writes.Apply] does.
func (f *Fixes) Apply(db *DB) error { return f.writes.Apply(db) }
