package store

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"syscall"

	bolt "go.etcd.io/bbolt"

	"github.com/lazuli-storage/lazuli/internal/storage/bboltpage"
)

const (
	// memtableSize is the memory from which a memtable is frozen and written to bbolt, in bytes. Two may be alive.
	memtableSize = 4 << 20
	// memtableWait is the multiple of that at which writers wait.
	memtableWait = 3

	// chunkSize is how many keys a transaction of bbolt takes. Each may need a page of its own, of which bbolt holds the
	// old and the new content in memory until it commits.
	chunkSize = 512

	// fillPercent is how full bbolt leaves the pages that it splits. Its own 0.5 wastes half of the file on ascending
	// keys.
	fillPercent = 0.8
)

// layers is what lies above the file. The file has everything up to the frozen memtable, and may have that as well:
// seen through it, it looks the same.
type layers struct {
	active *memtable
	frozen *memtable // nil if there is none
}

// checkpoints moves frozen memtables into bbolt, one at a time, in the background.
type checkpoints struct {
	mu      sync.Mutex // guards what follows
	ended   sync.Cond
	running bool
	err     error // of the last one
}

// makeRoom is called by the leader before a group. It freezes a memtable that is full, and waits if the one before is
// not yet written. Its error is why that cannot be written.
func (db *DB) makeRoom() error {
	for {
		l := db.layers.Load()
		switch {
		case l.active.bytes < db.memtableSize:
			return nil
		case l.frozen == nil:
			return db.freeze()
		case l.active.bytes < db.memtableSize*memtableWait:
			db.startCheckpoint() // again, if the last one failed
			return nil
		}
		db.startCheckpoint()
		if err := db.awaitCheckpoint(); err != nil && db.layers.Load().frozen != nil {
			return err
		}
	}
}

// freeze begins a new memtable and a new generation of the log, and has the old one written. The caller leads, and
// nothing is frozen.
func (db *DB) freeze() error {
	l := db.layers.Load()
	if db.log != nil {
		if err := db.log.turn(); err != nil {
			db.failed.CompareAndSwap(nil, &err)
			return err
		}
	}
	db.frozenGen = db.gen
	db.gen++
	active := newMemtable(len(db.buckets))
	active.publish(l.active.newest)
	db.layers.Store(&layers{active: active, frozen: l.active})
	db.startCheckpoint()
	return nil
}

func (db *DB) startCheckpoint() {
	c := &db.checkpoints
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running || db.layers.Load().frozen == nil {
		return
	}
	c.running = true
	go func() {
		err := db.checkpoint()
		c.mu.Lock()
		defer c.mu.Unlock()
		c.running, c.err = false, err
		c.ended.Broadcast()
	}()
}

// awaitCheckpoint waits for the one that is running, if any, and returns the error of the last.
func (db *DB) awaitCheckpoint() error {
	c := &db.checkpoints
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.running {
		c.ended.Wait()
	}
	return c.err
}

// checkpoint writes the frozen memtable to bbolt. If that fails, it stays where it is, and in the log.
func (db *DB) checkpoint() error {
	if cause := db.failed.Load(); cause != nil {
		return fmt.Errorf("%w: %w", ErrFailed, *cause)
	}
	frozen := db.layers.Load().frozen
	if err := db.commit(frozen, db.frozenGen, false); err != nil {
		return fmt.Errorf("store: checkpoint: %w", err)
	}
	for {
		l := db.layers.Load()
		if db.layers.CompareAndSwap(l, &layers{active: l.active}) {
			return nil
		}
	}
}

// commit writes a memtable to bbolt, a chunk at a time, and at last how far the file is: the generation that the memtable came from.
// Ending in between does no harm: the log has it all, and so has the memtable, through which the file is seen.
func (db *DB) commit(m *memtable, gen uint64, closed bool) error {
	for i := range m.lists {
		list := &m.lists[i]
		for e := list.seek(nil, math.MaxUint64); e != nil; {
			err := db.transact(func(tx *bolt.Tx) (err error) {
				e, err = db.commitChunk(tx, i, e)
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	return db.transact(func(tx *bolt.Tx) error { return putProgress(tx, gen, m.newest, closed) })
}

// commitChunk writes the entries of a bucket from e on, and returns the first that it leaves.
func (db *DB) commitChunk(tx *bolt.Tx, bucket int, e *entry) (*entry, error) {
	if err := db.checkLeaves(tx, bucket, e); err != nil {
		return e, err
	}
	b := tx.Bucket([]byte(db.buckets[bucket]))
	b.FillPercent = fillPercent
	var err error
	for n := 0; e != nil && n < db.chunkSize && err == nil; n++ {
		if e.Deleted() {
			err = b.Delete(e.Key)
		} else if _, err = db.unseal(bucket, e.Key, e.Value); err == nil {
			err = b.Put(e.Key, e.Value)
		}
		e = e.following()
	}
	return e, err
}

// checkLeaves verifies the leaves that a chunk changes, because bbolt would write a damaged one anew, without what was lost
// in it, and nothing would show the loss afterwards.
func (db *DB) checkLeaves(tx *bolt.Tx, bucket int, e *entry) error {
	s := db.pages.Snapshot(tx, bboltpage.SnapshotOptions{})
	defer s.Release()
	t, ok, err := s.Bucket([]byte(db.buckets[bucket]), nil)
	if err != nil || !ok {
		return err
	}
	for n := 0; e != nil && n < db.chunkSize; n++ {
		if err := s.CheckLeaf(t, e.Key, e.Deleted(), db.verifiers[bucket]); err != nil {
			return asDamage(db.path, err)
		}
		e = e.following()
	}
	return nil
}

// transact runs fn in a transaction of bbolt and commits.
func (db *DB) transact(fn func(*bolt.Tx) error) (err error) {
	before := db.fileSize()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		// A panic of bbolt must not end the process: the data is in the log.
		if v := recover(); v != nil {
			err = &DamageError{File: filepath.Base(db.path), Problem: fmt.Sprint(v)}
		}
		if err != nil {
			db.judge(err, before)
		}
	}()
	tx, err := db.bolt.Begin(true)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after Commit
	if err := fn(tx); err != nil {
		return err
	}
	if db.fault != nil {
		if err := db.fault(); err != nil {
			return err
		}
	}
	// Commit reads each page once more, and ends the transaction.
	db.trim.add(db.chunkSize*touchSeek, tx)
	return tx.Commit()
}

// judge decides whether the store may go on after a commit has failed with err.
//
// It may if a write was refused, say for lack of space: bbolt writes to free pages first, and forgets about them. It
// may not if a sync failed: the kernel reports that once, then takes the pages for clean, and a later sync would
// succeed without them.
func (db *DB) judge(err error, sizeBefore int64) {
	var refused *fs.PathError
	var errno syscall.Errno
	switch {
	case errors.As(err, &refused):
		// A write; all others come without a path.
	case !errors.As(err, &errno) && !errors.Is(err, ErrDamaged) && db.fileSize() == sizeBefore && db.readable():
		// The file could not grow: bbolt tries that before it writes.
	default:
		db.failed.CompareAndSwap(nil, &err)
	}
}

func (db *DB) readable() bool {
	return db.bolt.View(func(*bolt.Tx) error { return nil }) == nil
}

func (db *DB) fileSize() int64 {
	st, err := os.Stat(db.path)
	if err != nil {
		return -1
	}
	return st.Size()
}
