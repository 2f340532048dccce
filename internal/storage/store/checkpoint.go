package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/lazuli-storage/lazuli/internal/storage/bboltpage"
	"github.com/lazuli-storage/lazuli/internal/storage/replog"
)

const (
	// memtableWait is the multiple of DB.memtableSize at which writers wait. One more is for accounts that have written
	// little of it: see group.passLead.
	memtableWait = 3

	// chunkPages is the approximate number of pages from which a transaction of bbolt ends: of those that its keys belong
	// in, and of those that its values fill. bbolt holds their old and new content in memory until it commits. chunkKeys
	// is the maximum number of keys.
	chunkPages = 640
	chunkKeys  = 8192

	// trimTimeout is the time limit for cutting the log of a store with Options.Private.
	trimTimeout = 10 * time.Second

	// fillPercent is the fill level at which bbolt splits pages. Its default of 0.5 wastes half of the file on ascending
	// keys.
	fillPercent = 0.8
)

// makeRoom is called by the leader before a group. It freezes a full memtable, and waits if the previous one is not yet
// written and the active one has wait times its size. It returns an error if the previous one cannot be written.
func (db *DB) makeRoom(wait int) error {
	for {
		l := db.layers.Load()
		switch {
		case l.frozen == nil && db.writeOut.CompareAndSwap(true, false) && !l.active.empty():
			return db.freeze()
		case l.active.bytes < db.memtableSize && l.active.attached < db.attachedSize:
			return nil
		case l.frozen == nil:
			return db.freeze()
		// The active memtable may grow beyond its size while the frozen one is written, so that writers seldom wait.
		case !db.full(l, wait):
			db.startCheckpoint() // again, if the last one failed
			return nil
		}
		db.startCheckpoint()
		// Without a frozen memtable the next round freezes, whatever error an earlier checkpoint has left.
		if err := db.awaitCheckpoint(); err != nil && db.layers.Load().frozen != nil {
			return fmt.Errorf("%w: %w", ErrDisk, err)
		}
	}
}

// full reports whether the active memtable has n times its size.
func (db *DB) full(l *layers, n int) bool {
	return l.active.bytes >= n*db.memtableSize || l.active.attached >= n*db.attachedSize
}

// checkRoom is makeRoom for a private log, before a record is appended: what was appended must be applied.
func (db *DB) checkRoom() (err error) {
	db.replica.log.At(func(replog.Position) {
		if l := db.layers.Load(); l.frozen != nil && l.active.bytes >= db.memtableSize*memtableWait {
			err = db.makeRoom(memtableWait)
		}
	})
	return err
}

// WriteOut writes what only the memtable and the log have to the file, and returns when it is there. It is for a store
// that is idle: it frees up to memtableSize of memory, and the next Open has less to read from the log. It reports
// whether there was something to write. After an error later writes try again.
func (db *DB) WriteOut() (wrote bool, err error) {
	if db.readOnly {
		return false, ErrReadOnly
	}
	l := db.layers.Load()
	if l.frozen == nil && l.active.empty() {
		return false, nil
	}
	db.startCheckpoint() // again, if the last one failed
	if err := db.awaitCheckpoint(); err != nil {
		return false, err
	}
	if r := db.replica; r != nil {
		r.log.At(func(replog.Position) {
			// Close marks the store as closed before it takes this lock, and waits for a checkpoint that has begun.
			if l := db.layers.Load(); l.frozen == nil && !l.active.empty() && !db.isClosed() {
				err = db.freeze()
			}
		})
	} else {
		// Only the leader of a group may freeze, so there is a group, which writes nothing. Close waits for it.
		db.writeOut.Store(true)
		err = db.Update(func(*Tx) error { return nil })
	}
	return err == nil, errors.Join(err, db.awaitCheckpoint())
}

// freeze begins a new memtable and a new generation of the log, and starts a checkpoint of the old one. The caller
// leads, and there is no frozen memtable.
func (db *DB) freeze() error {
	l := db.layers.Load()
	if db.log != nil {
		// A generation of the log has the records of one memtable, so that its file can be overwritten once that is in
		// bbolt. The only error of rotate is that of a sync, after which it is unknown what the log has: the store fails.
		if err := db.log.rotate(); err != nil {
			db.failed.CompareAndSwap(nil, &err)
			return err
		}
	}
	db.frozenGen = db.gen
	db.gen++
	active := newMemtable(len(db.buckets))
	// The numbers of groups go on without a gap, although the new memtable is empty.
	active.publish(l.active.newest)
	active.position = l.active.position
	db.layers.Store(&layers{active: active, frozen: l.active})
	db.mu.Lock()
	db.written.reset()
	db.mu.Unlock()
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
		c.running, c.err = false, err
		c.ended.Broadcast()
		c.mu.Unlock()
		db.mu.Lock()
		defer db.mu.Unlock()
		db.endStall()
	}()
}

// awaitCheckpoint waits for the running checkpoint, if any, and returns the error of the last one.
func (db *DB) awaitCheckpoint() error {
	c := &db.checkpoints
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.running {
		c.ended.Wait()
	}
	return c.err
}

// checkpoint writes the frozen memtable to bbolt. If that fails, the memtable and the log stay.
func (db *DB) checkpoint() error {
	if err := db.Failed(); err != nil {
		return err
	}
	frozen := db.layers.Load().frozen
	if err := db.commit(frozen, db.frozenGen, false); err != nil {
		return fmt.Errorf("store: checkpoint: %w", err)
	}
	// The memtable goes only after the commit. In between, readers find the entries in both, which is the same view.
	for {
		l := db.layers.Load()
		if db.layers.CompareAndSwap(l, &layers{active: l.active}) {
			return nil
		}
	}
}

// commit writes a memtable to bbolt, a chunk at a time, and at the end the progress of the file: the generation of the
// memtable. An interruption does no harm: the log has all entries, and so has the memtable, which hides those of the
// file.
//
// The log has no further use for that generation then, so attachments must be durable elsewhere first.
func (db *DB) commit(m *memtable, gen uint64, closed bool) error {
	if err := db.syncAttached(); err != nil {
		return err
	}
	if db.archive != nil {
		db.archive.Sync()
	}
	if r := db.replica; r != nil {
		// The file must not become durable ahead of its log: see replog.Log.Sync.
		if err := r.log.Sync(); err != nil {
			return err
		}
	}
	for next, ended := m.first(0), false; !ended; {
		err := db.transact(func(tx *bolt.Tx) (err error) {
			if next, err = db.commitChunk(tx, m, next); err != nil {
				return err
			}
			if ended = next.entry == nil; ended {
				return db.putEnd(tx, m, gen, closed)
			}
			if r := db.replica; r != nil {
				// The file says up to where it may have writes. An interrupted checkpoint leaves some of them; the next
				// Open then applies the log from r.from again, and refuses a log that ends before m.position.
				return db.putReplica(tx, r.from, m.position)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	r := db.replica
	if r == nil {
		return nil
	}
	r.from = m.position
	if !closed && r.trim > 0 {
		ctx, cancel := context.WithTimeout(context.Background(), trimTimeout)
		defer cancel()
		// After the commit: the file no longer needs what is cut. A failure only leaves the log long.
		if err := r.log.Trim(ctx, r.from, r.trim); err != nil {
			r.log.Logger().Debug("cannot remove old messages of the log; trying again later", "err", err)
		}
	}
	return nil
}

// putEnd records that the file has all of a memtable. It belongs in the transaction of the last chunk, since each
// transaction costs two syncs.
func (db *DB) putEnd(tx *bolt.Tx, m *memtable, gen uint64, closed bool) error {
	r := db.replica
	if r == nil {
		return putProgress(tx, gen, m.newest, closed)
	}
	// A view that other nodes can make again always counts as closed: there are no log files and no mark of its own that
	// an Open could lack. The only view of a log needs its mark until it is closed.
	return errors.Join(putProgress(tx, gen, m.newest, closed || !r.private || db.ephemeral),
		db.putReplica(tx, m.position, m.position))
}

// room is what a chunk may still have.
type room struct{ keys, pages int }

// commitChunk writes the entries from a spot on, of one bucket or several, until they fill a chunk. It returns the
// first entry that it did not write. A transaction a chunk bounds the memory that bbolt needs.
func (db *DB) commitChunk(tx *bolt.Tx, m *memtable, from spot) (spot, error) {
	room := room{db.chunkKeys, chunkPages}
	for from.entry != nil && room.keys > 0 && room.pages > 0 {
		e, err := db.commitBucket(tx, from.bucket, from.entry, &room)
		if err != nil {
			return from, err
		}
		if from.entry = e; e == nil {
			from = m.first(from.bucket + 1)
		}
	}
	return from, nil
}

// commitBucket writes the entries of a bucket from e on, as many as there is room for, and returns the first entry that
// it did not write.
func (db *DB) commitBucket(tx *bolt.Tx, bucket int, e *entry, room *room) (*entry, error) {
	keys, absent, err := db.checkLeaves(tx, bucket, e, room)
	if err != nil {
		return e, err
	}
	b := tx.Bucket([]byte(db.buckets[bucket]))
	b.FillPercent = fillPercent
	// The checksum is checked before a value goes to the file, so that damage in memory ends here and the log still has
	// the right value.
	for i := 0; e != nil && i < keys && err == nil; i++ {
		if e.Deleted() {
			// What came and went between two checkpoints, as messages do, is not in the file: bbolt need not search it.
			if !absent.has(i) {
				err = b.Delete(e.Key)
			}
		} else if _, err = db.unseal(bucket, e.Key, e.Value); err == nil {
			err = b.Put(e.Key, e.Value)
		}
		e = e.following()
	}
	return e, err
}

// checkLeaves determines which entries from e on there is room for, and verifies the leaves that they change. Otherwise
// bbolt would write a damaged leaf again without the lost entries, and the loss could not be detected any more. It
// returns the number of these entries, and which of their keys are not in the file.
func (db *DB) checkLeaves(tx *bolt.Tx, bucket int, e *entry, room *room) (keys int, absent bitset, err error) {
	s := db.pages.Snapshot(tx, bboltpage.SnapshotOptions{})
	defer s.Release()
	t, ok, err := s.Bucket([]byte(db.buckets[bucket]), nil)
	if err != nil || !ok {
		keys, room.keys = room.keys, 0
		return keys, nil, err
	}
	size, pageSize := 0, tx.DB().Info().PageSize
	pages := func() int { return s.Leaves() + size/pageSize }
	for ; e != nil && keys < room.keys && pages() < room.pages; keys++ {
		exists, err := s.CheckLeaf(t, e.Key, e.Deleted(), db.verifiers[bucket])
		if err != nil {
			return 0, nil, asDamage(db.path, err)
		}
		if !exists {
			absent.add(keys)
		}
		size += len(e.Key) + len(e.Value)
		e = e.following()
	}
	room.keys, room.pages = room.keys-keys, room.pages-pages()
	return keys, absent, nil
}

// bitset is a set of small numbers.
type bitset []uint64

func (s *bitset) add(i int) {
	for len(*s) <= i/64 {
		*s = append(*s, 0)
	}
	(*s)[i/64] |= 1 << (i % 64)
}

func (s bitset) has(i int) bool { return i/64 < len(s) && s[i/64]>>(i%64)&1 != 0 }

// transact runs fn in a transaction of bbolt and commits.
func (db *DB) transact(fn func(*bolt.Tx) error) (err error) {
	before := db.fileSize()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		// A panic of bbolt must not end the process: the log has the data.
		if v := recover(); v != nil {
			err = &DamageError{File: filepath.Base(db.path), Problem: fmt.Sprint(v)}
		}
		if err != nil {
			db.checkFailure(err, before)
		}
	}()
	// An open reader keeps the pages of its snapshot. Without the kept one, bbolt can use them again, and the file does
	// not grow with each checkpoint.
	db.readers.suspend()
	defer db.readers.resume()
	// Before Begin, which decides from the meta pages which pages are free.
	if db.unsynced != nil {
		if err := db.resync(); err != nil {
			return err
		}
	}
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
	db.trim.add(chunkPages*touchSeek, tx)
	return db.writer.Commit(tx)
}

// checkFailure decides whether the store may continue after a commit has failed with err.
//
// It may continue if a write was refused, for example for lack of space: bbolt writes to free pages first, and discards
// them. It may also if a sync failed, after resync: the kernel reports that once and then marks the pages as clean, so
// that a later sync would succeed without them. The next transaction writes all of its pages again; but the two pages
// that refer to all others may be on the disk as they were before, so they are kept here.
func (db *DB) checkFailure(err error, sizeBefore int64) {
	var refused *fs.PathError
	var errno syscall.Errno
	switch {
	case errors.As(err, &refused):
		// The error of a write; all others have no path.
	case errors.As(err, &errno) && !errors.Is(err, ErrDamaged) && db.keepMetas() == nil:
	case !errors.As(err, &errno) && !errors.Is(err, ErrDamaged) && db.fileSize() == sizeBefore && db.readable():
		// The file could not grow: bbolt grows it before it writes.
	// It is unknown what bbolt has written. Only the next Open can tell, from the file and the log.
	default:
		db.failed.CompareAndSwap(nil, &err)
	}
}

// keepMetas reads the two pages that refer to all others, as bbolt sees them now: from the page cache. The kernel may
// drop what it could not write, and bbolt's list of free pages would then be newer than the file.
func (db *DB) keepMetas() error {
	f, err := os.Open(db.path)
	if err != nil {
		return err
	}
	defer f.Close()
	p := make([]byte, 2*db.bolt.Info().PageSize)
	if _, err := f.ReadAt(p, 0); err != nil {
		return err
	}
	db.unsynced = p
	return nil
}

// resync writes the two pages again and syncs them, after a sync has failed. Until they are durable, no page may be
// used again that the older of them refers to.
func (db *DB) resync() error {
	f, err := os.OpenFile(db.path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	if _, err = f.WriteAt(db.unsynced, 0); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		db.unsynced = nil
	}
	return err
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
