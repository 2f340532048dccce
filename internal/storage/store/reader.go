package store

import (
	"sync"
	"sync/atomic"

	bolt "go.etcd.io/bbolt"

	"github.com/lazuli-storage/lazuli/internal/storage/bboltpage"
)

// reader is a read transaction of bbolt with what was found in the file. Several transactions of the store may use it
// at the same time.
type reader struct {
	tx     *bolt.Tx
	layers *layers // the layers above the file when the transaction began
	file   bboltpage.File
	trees  []atomic.Pointer[tree] // by index in DB.buckets, filled on first use
	users  int                    // guarded by readers.mu
}

// readers keeps a read transaction of bbolt open for the next reads: to begin and end one costs about as much as a
// search in a small file. Before a write transaction it is closed, since bbolt moves the mapping only when no
// transaction is open, and keeps the pages of open ones.
type readers struct {
	mu        sync.Mutex // guards what follows
	kept      *reader    // is one of its users; may be nil
	suspended int        // write transactions that are under way
}

// acquire returns a reader for the current layers. Call release for it.
func (db *DB) acquire() (*reader, error) {
	for {
		l := db.layers.Load()
		if r := db.readers.use(l); r != nil {
			return r, nil
		}
		b, err := db.bolt.Begin(false)
		if err != nil {
			return nil, closedOr(err)
		}
		if db.layers.Load().active != l.active {
			// The file may contain entries that were frozen meanwhile, which are newer than our memtable.
			_ = b.Rollback()
			continue
		}
		r := &reader{tx: b, layers: l, file: db.pages.File(b), trees: make([]atomic.Pointer[tree], len(db.buckets)), users: 1}
		db.readers.keep(r)
		return r, nil
	}
}

// use returns the kept reader if it belongs to these layers.
func (k *readers) use(l *layers) *reader {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.kept == nil || k.kept.layers != l {
		return nil
	}
	k.kept.users++
	return k.kept
}

// keep keeps r instead of the former reader, if no write is under way.
func (k *readers) keep(r *reader) {
	k.mu.Lock()
	if k.suspended > 0 {
		k.mu.Unlock()
		return
	}
	former := k.kept
	k.kept = r
	r.users++
	k.mu.Unlock()
	if former != nil {
		k.release(former)
	}
}

// release ends the use of r. Its last user closes the transaction.
func (k *readers) release(r *reader) {
	k.mu.Lock()
	r.users--
	last := r.users == 0
	k.mu.Unlock()
	if last {
		_ = r.tx.Rollback() // cannot fail for a read-only transaction
	}
}

// suspend closes the kept reader, and keeps none until resume is called.
func (k *readers) suspend() {
	k.mu.Lock()
	k.suspended++
	former := k.kept
	k.kept = nil
	k.mu.Unlock()
	if former != nil {
		k.release(former)
	}
}

func (k *readers) resume() {
	k.mu.Lock()
	k.suspended--
	k.mu.Unlock()
}

// tree is a bucket in the file.
type tree struct {
	bboltpage.Tree
	exists bool
}
