package store

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"path/filepath"

	"github.com/lazuli-storage/lazuli/internal/storage/bboltpage"
)

// Get returns the value of key, or nil if the key does not exist. The value must not be modified and is valid until the
// closure returns.
func (tx *Tx) Get(b Bucket, key []byte) []byte {
	value, err := tx.get(b, key)
	if err != nil {
		tx.failRead(err)
	}
	return value
}

// Read is Get for a caller that continues when the value is damaged: then it returns ErrDamaged.
func (tx *Tx) Read(b Bucket, key []byte) ([]byte, error) {
	value, err := tx.get(b, key)
	if err = asDamage(tx.db.path, err); err != nil && !errors.Is(err, ErrDamaged) {
		tx.failRead(err)
	}
	return value, err
}

func (tx *Tx) get(b Bucket, key []byte) ([]byte, error) {
	i := tx.bucketIndex(b)
	if tx.writes != nil {
		if w := tx.writes.get(b, key); w != nil {
			return w.Value, nil
		}
		if w := tx.group.get(b, key); w != nil {
			return w.Value, nil
		}
	}
	for _, m := range tx.flying {
		if e := m.get(i, key, math.MaxUint64); e != nil {
			return tx.unsealed(e.Write).Value, nil
		}
	}
	for j, m := range tx.mem {
		if m != nil {
			if e := tx.entry(j, i, key); e != nil {
				return tx.unsealed(e.Write).Value, nil
			}
		}
	}
	t := tx.tree(i)
	if !t.exists {
		return nil, nil
	}
	sealed, err := tx.file.Get(t.Tree, key, tx.db.verifiers[i])
	if err != nil || sealed == nil {
		return nil, err
	}
	return tx.db.strip(sealed), nil
}

// found is the entry of a memtable that get has found last.
type found struct {
	bucket int
	e      *entry
}

// maxSteps is the number of entries after the last one that are looked at before a memtable is searched.
const maxSteps = 3

// entry returns the entry of key in memtable j that the transaction sees, or nil. A caller that reads many keys mostly
// reads them in order: the entries after the last one are looked at first.
func (tx *Tx) entry(j, bucket int, key []byte) *entry {
	last, snapshot := &tx.last[j], tx.snapshot[j]
	if e := last.e; e != nil && last.bucket == bucket && !bytes.Equal(e.Key, key) {
		// Of a key, the newest entry comes first: the first one of key that is visible is the one.
		for range maxSteps {
			if e = e.next[0].Load(); e == nil {
				break
			}
			if e.group <= snapshot && bytes.Equal(e.Key, key) {
				last.e = e
				return e
			}
		}
	}
	e := tx.mem[j].get(bucket, key, snapshot)
	if e != nil {
		*last = found{bucket, e}
	}
	return e
}

// unsealed returns a write of a memtable with its value only. The checksum is verified when the write goes to the file.
func (tx *Tx) unsealed(w Write) Write {
	if w.Deleted() {
		return w
	}
	return Write{w.Key, tx.db.strip(w.Value)}
}

// Put sets the value of key. The caller must not modify either slice before Update returns. They may be slices that Get
// or a Cursor of the same transaction returned. A nil value is stored as an empty one.
//
// If the size of a key or value is out of range, Update returns ErrKey. Put panics in a View.
func (tx *Tx) Put(b Bucket, key, value []byte) {
	if value == nil {
		value = []byte{}
	}
	tx.write(b, key, value)
}

// Delete removes key, which need not exist. The caller must not modify the slice before Update returns. Delete panics
// in a View.
func (tx *Tx) Delete(b Bucket, key []byte) { tx.write(b, key, nil) }

// Note describes the transaction in the headers of its message in the replicated log, for people: what it does to what,
// in a few words. Equal notes of a group are counted. It does nothing for a store without Options.Log.
func (tx *Tx) Note(text string) {
	if tx.db.replica != nil {
		tx.writes.notes = append(tx.writes.notes, text)
	}
}

// Group identifies the transactions that are committed together, one after another, on the same state: each of them has
// seen the writes of those before it. What one of them has found out about the state holds for the next one, but for
// their writes. It is never 0 in an Update, and 0 in a View. A group that begins again has another number.
func (tx *Tx) Group() uint64 { return tx.round }

func (tx *Tx) write(b Bucket, key, value []byte) {
	if tx.writes == nil {
		panic("store: write in a View")
	}
	tx.bucketIndex(b) // detects an unknown bucket here, not in the commit
	if len(key) == 0 || len(key) > MaxKeySize || len(value) > MaxValueSize {
		if tx.err == nil {
			tx.err = fmt.Errorf("%w: bucket %q, key of %d bytes, value of %d bytes", ErrKey, b, len(key), len(value))
		}
		return
	}
	tx.writes.put(b, key, value)
}

func (tx *Tx) bucketIndex(b Bucket) int {
	// A transaction mostly reads one bucket many times, and comparing a text with itself costs nothing.
	if i := tx.bucket; i < len(tx.db.buckets) && tx.db.buckets[i] == b {
		return i
	}
	if i := tx.db.bucketIndex(b); i >= 0 {
		tx.bucket = i
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

// open returns the file as the transaction sees it. The closures of a group run one after another and share it, with
// the pages that it has read.
func (tx *Tx) open() *bboltpage.Snapshot {
	if tx.parent != nil {
		tx = tx.parent
	}
	if tx.file == nil {
		tx.own = tx.reader.file.Snapshot(bboltpage.SnapshotOptions{
			Direct: tx.reader.file.Size() > tx.db.directAbove, Copies: tx.group != nil, Touched: tx.touch,
		})
		tx.file = &tx.own
	}
	return tx.file
}

// closeFile gives up what the transaction has read of the file. The next read opens it again.
func (tx *Tx) closeFile() {
	if tx.file != nil {
		tx.file.Release()
		tx.file = nil
	}
}

// tree returns a bucket in the file. Only a read-only file can lack a bucket.
func (tx *Tx) tree(i int) *tree {
	if tx.file == nil {
		tx.file = tx.open()
	}
	if t := tx.reader.trees[i].Load(); t != nil {
		return t
	}
	t := &tree{}
	var err error
	t.Tree, t.exists, err = tx.file.Bucket([]byte(tx.db.buckets[i]), &tx.db.depths[i])
	if err == nil && !t.exists && !tx.db.readOnly {
		err = &DamageError{File: filepath.Base(tx.db.path),
			Problem: fmt.Sprintf("the bucket %q is missing", string(tx.db.buckets[i]))}
	}
	if err != nil {
		tx.failRead(err)
	}
	tx.reader.trees[i].Store(t)
	return t
}

// touch counts n pages that were read through the mapping. Long transactions pass the count on while they run.
func (tx *Tx) touch(n int) {
	if tx.touched += n * touchPage; tx.touched >= trimEvery {
		tx.flushTouched()
	}
}

// flushTouched must be called before the transaction of bbolt ends.
func (tx *Tx) flushTouched() {
	tx.db.trim.add(tx.touched, tx.reader.tx)
	tx.touched = 0
}
