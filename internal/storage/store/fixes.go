package store

import (
	"bytes"
	"slices"
)

// Fixes are writes that put the records of a damaged file in order: one for each key, and a record that is written is
// not deleted. On a nil Fixes, Put and Delete do nothing.
type Fixes struct {
	writes []fix
	keys   map[string]int // index in writes
}

// fix is a write; a nil value deletes.
type fix struct {
	bucket     Bucket
	key, value []byte
}

func (f *Fixes) add(b Bucket, key, value []byte) {
	if f == nil {
		return
	}
	name, w := string(b)+"\x00"+string(key), fix{b, bytes.Clone(key), bytes.Clone(value)}
	if i, planned := f.keys[name]; planned {
		if f.writes[i].value == nil {
			f.writes[i] = w
		}
		return
	}
	if f.keys == nil {
		f.keys = make(map[string]int)
	}
	f.keys[name] = len(f.writes)
	f.writes = append(f.writes, w)
}

// Put plans a write, unless one of the same key is planned.
func (f *Fixes) Put(b Bucket, key, value []byte) { f.add(b, key, value) }

// Delete plans a deletion, unless a write of the same key is planned.
func (f *Fixes) Delete(b Bucket, key []byte) { f.add(b, key, nil) }

// Len returns the number of writes.
func (f *Fixes) Len() int { return len(f.writes) }

// fixesBatch is the number of writes of one transaction.
const fixesBatch = 1000

// Apply writes everything, in several transactions. It can be interrupted: what is left is found again.
func (f *Fixes) Apply(db *DB) error {
	for batch := range slices.Chunk(f.writes, fixesBatch) {
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
