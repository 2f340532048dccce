package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"sync"
	"syscall"

	bolt "go.etcd.io/bbolt"
)

const (
	// memtableSize is the memory from which a memtable is frozen and written to bbolt, in bytes. Two may be alive.
	memtableSize = 8 << 20
	// memtableWait is the multiple of that at which writers wait.
	memtableWait = 4

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
	if err := db.commit(frozen, db.frozenGen); err != nil {
		return fmt.Errorf("store: checkpoint: %w", err)
	}
	for {
		l := db.layers.Load()
		if db.layers.CompareAndSwap(l, &layers{active: l.active}) {
			return nil
		}
	}
}

// commit writes a memtable to bbolt, together with the generation it came from.
func (db *DB) commit(m *memtable, gen uint64) (err error) {
	before := db.fileSize()
	defer func() {
		// A panic of bbolt must not end the process: the data is in the log.
		if v := recover(); v != nil {
			err = fmt.Errorf("%w: %v", ErrFormat, v)
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
	n := 0
	for i := range m.lists {
		b := tx.Bucket([]byte(db.buckets[i]))
		b.FillPercent = fillPercent
		list := &m.lists[i]
		for e := list.seek(nil, math.MaxUint64); e != nil; e = list.after(e, math.MaxUint64) {
			if e.Deleted() {
				err = b.Delete(e.Key)
			} else {
				err = b.Put(e.Key, e.Value)
			}
			if err != nil {
				return err
			}
			if n++; n%1024 == 0 {
				db.trim.add(1024 * touchSeek)
			}
		}
	}
	if err := tx.Bucket(formatBucket).Put(logKey, binary.BigEndian.AppendUint64(nil, gen)); err != nil {
		return err
	}
	if db.fault != nil {
		if err := db.fault(); err != nil {
			return err
		}
	}
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
	case !errors.As(err, &errno) && !errors.Is(err, ErrFormat) && db.fileSize() == sizeBefore && db.readable():
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
