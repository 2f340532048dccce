package store

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"sync"
	"sync/atomic"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// A Bucket names a keyspace. All buckets of a file are given to Open.
type Bucket string

// Options configure Open. The zero value is a durable store without buckets.
type Options struct {
	// Buckets are created if absent. Using a bucket that is not listed panics.
	Buckets []Bucket
	// Relaxed acknowledges writes before they are synced. They survive the death of the process; a power failure may
	// lose the latest ones, but damages nothing.
	Relaxed bool
	// Ephemeral starts with an empty file, never syncs it and removes its name at once: nothing survives Close, nor
	// the death of the process. Where an open file cannot be removed (Windows), Close removes it.
	Ephemeral bool
	// ReadOnly opens an existing file for View only and shares the lock with other readers. Buckets that the file
	// lacks read as empty.
	ReadOnly bool
	// LockTimeout bounds the wait for a file that another process holds; 0 means one second.
	LockTimeout time.Duration
	// MaxMapped bounds, roughly, the file-backed memory that the process keeps resident, in bytes; 0 means
	// DefaultMaxMapped, negative means no bound. It has no effect but on Linux.
	MaxMapped int64
}

// DefaultMaxMapped is the default of Options.MaxMapped.
const DefaultMaxMapped = 96 << 20

// Limits of one key and value, in bytes.
const (
	MaxKeySize   = bolt.MaxKeySize
	MaxValueSize = 64 << 20
)

// DB is one open file. Its methods are safe for concurrent use.
type DB struct {
	bolt     *bolt.DB
	buckets  []Bucket
	path     string
	readOnly bool
	leftover bool // path must be removed by Close

	layers       atomic.Pointer[layers]
	log          *wal   // of the leader; nil if ephemeral or read-only
	gen          uint64 // of the leader: generation of the active memtable
	frozenGen    uint64 // generation of the frozen memtable; set before it is
	memtableSize int    // tests make it small, as
	chunkSize    int    // this
	checkpoints  checkpoints

	trim   *trimmer
	direct *direct // nil if the file is always read through its mapping

	mu      sync.Mutex // guards queue, leading, closed
	idle    sync.Cond  // signalled when leading becomes false
	queue   []*call
	leading bool
	closed  bool

	failed atomic.Pointer[error] // why Update answers ErrFailed
	fault  func() error          // tests only: runs before a commit of bbolt and may fail it
}

// Open opens the file at path, or creates it. The folder must exist.
//
// Errors: ErrLocked, ErrFormat, or what the operating system answered.
func Open(path string, o Options) (db *DB, err error) {
	defer func() {
		// bbolt panics on some kinds of damage.
		if v := recover(); v != nil {
			db, err = nil, fmt.Errorf("%w: open %s: %v", ErrFormat, path, v)
		}
	}()
	if o.Ephemeral {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("store: open: %w", err)
		}
	}
	if o.LockTimeout == 0 {
		o.LockTimeout = time.Second
	}
	b, err := bolt.Open(path, 0o600, boltOptions(o))
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, fmt.Errorf("%w: %s", ErrLocked, path)
	case errors.Is(err, bolterrors.ErrInvalid), errors.Is(err, bolterrors.ErrVersionMismatch), errors.Is(err, bolterrors.ErrChecksum):
		return nil, fmt.Errorf("%w: open %s: %v", ErrFormat, path, err)
	case err != nil:
		return nil, fmt.Errorf("store: open %s: %w", path, err)
	}
	b.AllocSize = allocSize
	db = &DB{bolt: b, buckets: o.Buckets, path: path, readOnly: o.ReadOnly, memtableSize: memtableSize, chunkSize: chunkSize}
	db.idle.L = &db.mu
	db.checkpoints.ended.L = &db.checkpoints.mu
	db.layers.Store(&layers{active: newMemtable(len(o.Buckets))})
	db.trim = newTrimmer(o.MaxMapped)
	db.direct, err = newDirect(path, b, len(o.Buckets), db.trim.limit)
	if err == nil {
		err = db.prepare(o)
	}
	if err == nil && !o.Ephemeral {
		err = db.replay()
	}
	if err == nil && !o.ReadOnly {
		err = db.recover(o)
	}
	if err != nil {
		_ = b.Close()
		_ = db.direct.close()
		return nil, fmt.Errorf("store: open %s: %w", path, err)
	}
	if o.Ephemeral {
		db.leftover = os.Remove(path) != nil
	}
	return db, nil
}

// View runs fn on a snapshot of what is committed, and returns what fn returns. What fn reads is valid until it returns.
//
// A View must not call View or Update of the same DB. A long View keeps the pages of its snapshot from being reused,
// so the file grows while others write.
func (db *DB) View(fn func(*Tx) error) error {
	for {
		l := db.layers.Load()
		tx := db.newTx(l)
		b, err := db.bolt.Begin(false)
		if err != nil {
			return closedOr(err)
		}
		if db.layers.Load().active != l.active {
			// The file may have what was frozen meanwhile, which is later than our memtable.
			_ = b.Rollback()
			continue
		}
		tx.bolt = b
		defer tx.endView()
		return fn(&tx)
	}
}

// newTx returns a transaction that sees what is committed at the moment. It lacks the file.
func (db *DB) newTx(l *layers) Tx {
	tx := Tx{db: db, open: make([]*bolt.Bucket, len(db.buckets))}
	tx.mem = [2]*memtable{l.active, l.frozen}
	tx.snapshot = [2]uint64{l.active.visible.Load(), math.MaxUint64}
	return tx
}

func (tx *Tx) endView() {
	tx.flushTouched()
	tx.release()
	_ = tx.bolt.Rollback() // of a read-only transaction: cannot fail
	tx.bolt = nil
}

// Close waits for the transactions in flight, then closes the file. Calls of Update that are waiting for a commit are
// served; later ones, and later calls of View, answer ErrClosed. Closing twice is allowed.
func (db *DB) Close() error {
	db.mu.Lock()
	if db.closed {
		db.mu.Unlock()
		return nil
	}
	db.closed = true
	for db.leading {
		db.idle.Wait()
	}
	db.mu.Unlock()

	err := db.settle()
	err = errors.Join(err, db.bolt.Close(), db.direct.close())
	if db.leftover {
		err = errors.Join(err, os.Remove(db.path))
	}
	return err
}

// settle moves everything from the log into the file, and removes the log if that succeeds.
func (db *DB) settle() error {
	if db.readOnly {
		return nil
	}
	db.startCheckpoint() // again, if the last one failed
	err := db.awaitCheckpoint()
	if l := db.layers.Load(); err == nil && l.active.bytes > 0 {
		if err = db.freeze(); err == nil {
			err = db.awaitCheckpoint()
		}
	}
	if db.log == nil {
		return err
	}
	err = errors.Join(err, db.log.close())
	for i := range uint64(2) {
		if err == nil {
			err = os.Remove(logPath(db.path, i))
		}
	}
	return err
}

// Size returns the size of the file in bytes.
func (db *DB) Size() (n int64, err error) {
	err = closedOr(db.bolt.View(func(tx *bolt.Tx) error { n = tx.Size(); return nil }))
	return n, err
}

// Check verifies the structure of the file: every page is reachable once or free, every bucket is in key order. It
// calls report for every violation and returns an error only if it could not run. It reads the whole file.
func (db *DB) Check(report func(error)) error {
	tx, err := db.bolt.Begin(!db.readOnly) // bbolt's check must not see a writer at work
	if err != nil {
		return closedOr(err)
	}
	defer func() { _ = tx.Rollback() }()
	for err := range tx.Check() {
		report(err)
	}
	return nil
}

func closedOr(err error) error {
	if errors.Is(err, bolterrors.ErrDatabaseNotOpen) {
		return ErrClosed
	}
	return err
}
