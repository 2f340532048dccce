package store

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/lazuli-storage/lazuli/internal/storage/bboltpage"
	"github.com/lazuli-storage/lazuli/internal/storage/disk"
	"github.com/lazuli-storage/lazuli/internal/storage/gather"
	"github.com/lazuli-storage/lazuli/internal/storage/replog"
)

// A Bucket names a keyspace. Options.Buckets lists all buckets of a file.
type Bucket string

// Options configure Open. The zero value is a durable store without buckets.
type Options struct {
	// Buckets are created if absent. Using a bucket that is not listed panics.
	Buckets []Bucket
	// Relaxed acknowledges writes before they are synced. A killed process loses nothing; a power failure may lose the
	// latest writes, but damages nothing.
	Relaxed bool
	// Ephemeral starts with an empty file, never syncs it and removes its name at once: nothing survives Close or the end
	// of the process. If an open file cannot be removed (Windows), Close removes it.
	Ephemeral bool
	// ReadOnly opens an existing file for View only and shares the lock with other readers. Buckets that the file lacks
	// read as empty.
	ReadOnly bool
	// LockTimeout is the maximum wait for a file that another process holds; 0 means one second.
	LockTimeout time.Duration
	// MaxMapped limits, approximately, the file-backed memory that the process keeps resident, in bytes; 0 means
	// DefaultMaxMapped, negative means no limit. It has an effect only on Linux.
	MaxMapped int64
	// Log makes the store a view of a replicated log: Update appends to it, and View waits until this node has applied
	// what any node has committed before. Open waits until the log was applied. Close closes the log. ReadOnly does not go
	// together with it, Relaxed only with Private: the log acknowledges before it syncs. With Ephemeral, each Open begins
	// with the snapshot, or the beginning, of the log.
	Log *replog.Log
	// ReadLocal lets View of a store with Log, and an Update that writes nothing, return without asking the other nodes:
	// they may see an old state. It is for a log that no other process appends to.
	ReadLocal bool
	// Private says that no other store follows Log: no snapshots are made, and what the file has is removed from a long
	// log. A file without a log's id is taken for the state before the first record. The file must exist, or the log be
	// complete.
	Private bool
	// Replay, with ReadOnly, reads the replicated log of the file without its servers: it calls apply with the payload of
	// each valid record after from.
	Replay func(from replog.Position, apply func(payload []byte, p replog.Position) error) error
	// SnapshotLog is the size of the log from which a node makes a snapshot of the store, so that older records can be
	// removed, in bytes; 0 means DefaultSnapshotLog, negative means never. The log becomes at least as long as the file.
	// With Private, it is the size from which the log is cut, and 0 means DefaultPrivateLog.
	SnapshotLog int64
	// Applied is called for each write that a store with Log applies, of any node, after it became visible, in order. It
	// must not call the store, and must not keep the slices.
	Applied func(Bucket, Write)
	// Guard is called with each state from which the closures of Update start; all of them fail with its error, and
	// nothing is written. Since a replicated record is valid only after the state that its closures have read, a write of
	// another node that makes Guard fail ends the writes of this node exactly there. Nil means none.
	Guard func(*Tx) error
	// Attachments receives what Tx.Attach adds to the log. Without it, a log with attachments opens only with ReadOnly,
	// which ignores them.
	Attachments Attachments
	// Archive receives every group that is committed, and those that Open finds in the log. ReadOnly and Ephemeral do not
	// go together with it.
	Archive Archive
	// Logger receives what Open has cut off or given up after a crash; nil means none.
	Logger *slog.Logger
	// FS is the file system to write the log through; nil means disk.OS. bbolt writes the main file and does not use it.
	FS disk.FS

	// reproducible, for tests, makes equal writes lead to equal files.
	reproducible bool
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
	leftover bool // Close must remove path

	ephemeral    bool
	fs           disk.FS
	logger       *slog.Logger
	reproducible bool
	mark         mark     // as found
	seeds        []uint32 // by index in buckets: initial value of the checksums

	pages       *bboltpage.Reader
	pagesFile   *os.File // nil if everything is read through the mapping
	directAbove int64    // size of the file from which it is read directly, in bytes
	verifiers   []bboltpage.Verify
	depths      []atomic.Int32 // level of the leaves of each bucket, see bboltpage.Snapshot.Bucket
	damages     atomic.Int64
	// commits counts the groups that were committed by this process, committed their Updates.
	commits, committed atomic.Int64
	rounds             atomic.Uint64 // see Tx.Group
	holds              holds

	layers       atomic.Pointer[layers]
	readers      readers
	log          *wal        // used by the leader; nil if ephemeral, read-only or replicated
	replica      *replica    // nil without Options.Log
	attachments  Attachments // nil if the store takes none
	archive      Archive     // nil if none receives the log
	guard        func(*Tx) error
	gen          uint64 // used by the leader: generation of the active memtable
	frozenGen    uint64 // generation of the frozen memtable; set before it is
	memtableSize int    // tests use smaller values
	attachedSize int
	scratch      []byte      // used by the leader: memory of a record with attachments, or for a replicated log
	spareSets    [2]WriteSet // used by the leader: memory for those of its group
	chunkKeys    int         // maximum number of keys in a transaction of bbolt; tests use smaller values
	checkpoints  checkpoints

	trim *trimmer

	mu        sync.Mutex // guards queue, leading, closed, gathering
	gathering gather.Gatherer
	idle      sync.Cond // signalled when leading becomes false
	queue     []*call
	leading   bool
	closed    bool

	found    format                // the file's format when it was opened
	failed   atomic.Pointer[error] // the cause of ErrFailed
	unsynced []byte                // of the file's beginning; used by the checkpoint: see resync
	fault    func() error          // tests only: runs before a commit of bbolt and may fail it
}

// Open opens the file at path, or creates it. The folder must exist.
//
// Errors: ErrLocked, ErrFormat, ErrDamaged, or an error of the operating system.
func Open(path string, o Options) (db *DB, err error) {
	defer func() {
		// bbolt panics on some kinds of damage.
		if v := recover(); v != nil {
			db, err = nil, fmt.Errorf("%w: open %s: %v", ErrFormat, path, v)
		}
	}()
	if o.Log != nil && (o.Relaxed && !o.Private || o.ReadOnly) {
		return nil, errors.New("store: open: Relaxed without Private, and ReadOnly, do not go together with Log")
	}
	if o.Archive != nil && (o.ReadOnly || o.Ephemeral) {
		return nil, errors.New("store: open: ReadOnly and Ephemeral do not go together with Archive")
	}
	if o.Ephemeral {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("store: open: %w", err)
		}
	}
	if o.LockTimeout == 0 {
		o.LockTimeout = time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.FS == nil {
		o.FS = disk.OS
	}
	if o.Log != nil {
		// Before the file is opened for writing, since join may replace it.
		if err := join(path, o); err != nil {
			o.Log.Close()
			return nil, openError(path, err)
		}
	}
	if !o.Ephemeral {
		if err := lostFile(path); err != nil {
			return nil, openError(path, err)
		}
		// bbolt trusts the pages that it reads, and panics on some. So the structure is verified before it opens the file.
		err := inspect(path, o.LockTimeout)
		if errors.Is(err, ErrLocked) {
			return nil, fmt.Errorf("%w: %s", ErrLocked, path)
		}
		if err != nil {
			return nil, openError(path, err)
		}
	}
	db, err = openFile(path, o)
	if err != nil {
		return nil, err
	}
	switch {
	case o.Log != nil:
		if err := db.openReplica(o); err != nil {
			o.Log.Close()
			return nil, errors.Join(openError(path, err), db.closeFiles())
		}
	case !o.ReadOnly && !o.Ephemeral:
		// A file that follows a replicated log must not be written without it: the view would differ from its log.
		if db.found.logID != "" {
			return nil, errors.Join(fmt.Errorf("%w: %s", ErrReplicated, path), db.closeFiles())
		}
		if err := db.recover(db.found, o); err != nil {
			return nil, errors.Join(openError(path, err), db.closeFiles())
		}
	}
	if o.Ephemeral {
		db.leftover = os.Remove(path) != nil
	}
	if db.archive != nil {
		db.archive.Opened(db.layers.Load().active.newest)
	}
	return db, nil
}

// openError adds the file's path to err, and converts errors of other packages to ErrFormat and ErrDamaged.
func openError(path string, err error) error {
	err = asDamage(path, err)
	switch {
	case errors.Is(err, ErrDamaged):
		return fmt.Errorf("store: open %s: %w; %s", path, err, nextStep)
	case errors.Is(err, bboltpage.ErrFormat), errors.Is(err, bolterrors.ErrInvalid),
		errors.Is(err, bolterrors.ErrVersionMismatch),
		errors.Is(err, bolterrors.ErrChecksum):
		return fmt.Errorf("%w: open %s: %v", ErrFormat, path, err)
	}
	return fmt.Errorf("store: open %s: %w", path, err)
}

// openFile opens a file that was inspected, and reads its log.
func openFile(path string, o Options) (db *DB, err error) {
	b, err := bolt.Open(path, 0o600, boltOptions(o))
	if errors.Is(err, bolterrors.ErrTimeout) {
		return nil, fmt.Errorf("%w: %s", ErrLocked, path)
	}
	if err != nil {
		return nil, openError(path, err)
	}
	b.AllocSize = allocSize
	db = &DB{bolt: b, buckets: o.Buckets, path: path, fs: o.FS, logger: o.Logger, reproducible: o.reproducible,
		readOnly: o.ReadOnly, memtableSize: memtableSize, attachedSize: attachedSize,
		chunkKeys: chunkKeys, attachments: o.Attachments, archive: o.Archive, guard: o.Guard, ephemeral: o.Ephemeral}
	// From here on every error closes the file and its log.
	defer func() {
		if err != nil {
			err = errors.Join(openError(path, err), db.closeFiles())
		}
	}()
	if o.Log != nil {
		db.replica = &replica{log: o.Log, local: o.ReadLocal, applied: o.Applied, private: o.Private,
			relaxed: o.Relaxed}
		if o.Private && o.SnapshotLog >= 0 {
			db.replica.trim = cmp.Or(o.SnapshotLog, DefaultPrivateLog)
		}
	}
	// Conditions share the lock of what they wait for, which is set once the fields are there.
	db.idle.L = &db.mu
	db.checkpoints.ended.L = &db.checkpoints.mu
	db.layers.Store(&layers{active: newMemtable(len(db.buckets))})
	db.trim = newTrimmer(o.MaxMapped)
	db.depths = make([]atomic.Int32, len(db.buckets))
	// A seed for each bucket, so that a record that was moved to another bucket fails its checksum.
	for i, name := range db.buckets {
		db.seeds = append(db.seeds, bucketSeed(name))
		db.verifiers = append(db.verifiers, db.verify(i))
	}
	if err := db.openPages(); err != nil {
		return nil, err
	}
	// The format before replay: it says to which log file the data file belongs.
	if db.found, err = db.readFormat(); err != nil {
		return nil, err
	}
	if err := db.prepare(&db.found); err != nil {
		return nil, err
	}
	if o.Ephemeral {
		return db, nil
	}
	// The own log first, then the replicated one: the file must have all that it acknowledged before newer records are
	// applied.
	if err := db.replay(db.found); err != nil || o.Replay == nil || db.found.logID == "" {
		return db, err
	}
	return db, db.replayReplicated(o.Replay)
}

// openPages opens the file a second time to read it directly, if that is faster.
func (db *DB) openPages() error {
	if canTrim && db.trim.limit >= 0 {
		f, err := os.Open(db.path)
		if err != nil {
			return err
		}
		db.pagesFile, db.directAbove = f, db.trim.limit
		db.pages = bboltpage.NewReader(f, db.bolt.Info().PageSize)
		return nil
	}
	db.directAbove = math.MaxInt64
	db.pages = bboltpage.NewReader(nil, db.bolt.Info().PageSize)
	return nil
}

// closeFiles closes the files that Open opened.
func (db *DB) closeFiles() error {
	db.readers.suspend() // for good
	err := db.bolt.Close()
	if db.pagesFile != nil {
		err = errors.Join(err, db.pagesFile.Close())
	}
	if db.log != nil {
		err = errors.Join(err, db.log.close())
	}
	if db.replica != nil && db.replica.mark != nil {
		err = errors.Join(err, db.replica.mark.close())
	}
	return err
}

// View runs fn on a snapshot of the committed state, and returns the error of fn. With Options.Log, that is at least
// the state that any node had committed before the call. Slices that fn reads are valid until it returns. If fn reads
// damaged data, it ends early (see Tx) and View returns ErrDamaged.
//
// A View must not call View or Update of the same DB. A long View keeps the pages of its snapshot from being reused,
// so the file grows while others write.
func (db *DB) View(fn func(*Tx) error) error {
	if err := db.waitCurrent(); err != nil {
		return err
	}
	return db.ViewLocal(fn)
}

// ViewLocal is View without the wait for what other nodes have committed: with Options.Log it may see an old state. It
// is for work that checks in an Update what it has found.
func (db *DB) ViewLocal(fn func(*Tx) error) (err error) {
	tx := transactions.Get().(*Tx)
	if err := db.beginRead(tx); err != nil {
		return err
	}
	defer func() {
		tx.endRead()
		transactions.Put(tx)
	}()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if v := recover(); v != nil {
			var failed bool
			if err, failed = db.failureOf(v); !failed {
				panic(v)
			}
		}
	}()
	return fn(tx)
}

// transactions pools the transactions of Views.
var transactions = sync.Pool{New: func() any { return new(Tx) }}

// beginRead makes tx a transaction on the currently committed state.
func (db *DB) beginRead(tx *Tx) error {
	r, err := db.acquire()
	if err != nil {
		return err
	}
	l := r.layers
	*tx = Tx{db: db, reader: r}
	tx.mem = [2]*memtable{l.active, l.frozen}
	tx.snapshot = [2]uint64{l.active.visible.Load(), math.MaxUint64}
	return nil
}

// endRead ends the transaction.
func (tx *Tx) endRead() {
	tx.flushTouched()
	tx.closeFile()
	tx.db.readers.release(tx.reader)
	*tx = Tx{}
}

// Close waits for the running transactions, then closes the file. Calls of Update that are waiting for a commit are
// served; later calls of Update and View return ErrClosed. Closing twice is allowed.
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

	if r := db.replica; r != nil {
		if r.stop != nil {
			r.stop()
		}
		r.log.Close()
		r.snapshots.Wait()
	}
	err := db.checkpointAll()
	err = errors.Join(err, db.closeFiles())
	if err == nil {
		err = db.removeLog()
	}
	if db.leftover {
		err = errors.Join(err, os.Remove(db.path))
	}
	return err
}

// checkpointAll writes everything from the log to the file, which then needs no log.
func (db *DB) checkpointAll() error {
	if db.readOnly || db.leftover || db.ephemeral {
		return nil
	}
	db.startCheckpoint() // again, if the last one failed
	if err := db.awaitCheckpoint(); err != nil {
		return err
	}
	if db.log == nil && db.replica == nil {
		return nil // nothing survives Close
	}
	if err := db.Failed(); err != nil {
		return err
	}
	m := db.layers.Load().active
	if db.replica != nil {
		m.position = db.replica.log.Position() // the messages since the last record need not be read again
	}
	return db.commit(m, db.gen, true)
}

// removeLog removes the log of a complete file.
func (db *DB) removeLog() error {
	names := []string{logPath(db.path, 0), logPath(db.path, 1), markPath(db.path), Witness(db.path)}
	if db.log == nil {
		if db.replica == nil || db.replica.mark == nil {
			return nil
		}
		names = names[2:]
	}
	for _, name := range names {
		if err := db.fs.Remove(name); err != nil {
			return err
		}
	}
	return db.fs.SyncDir(filepath.Dir(db.path))
}

// Size returns the size of the file in bytes.
func (db *DB) Size() (n int64, err error) {
	err = closedOr(db.bolt.View(func(tx *bolt.Tx) error { n = tx.Size(); return nil }))
	return n, err
}

// Check verifies the file: its structure, by bbolt's check and by package bboltpage, and every value. It calls report
// for every violation and returns an error only if it could not run. It reads the whole file.
func (db *DB) Check(report func(error)) error {
	damaged := false
	err := db.checkValues(func(err error) { damaged = true; report(err) })
	if err != nil || damaged {
		return err // bbolt's check would read past the ends of damaged pages
	}
	tx, err := db.bolt.Begin(!db.readOnly) // no writer may run meanwhile
	if err != nil {
		return closedOr(err)
	}
	defer func() { _ = tx.Rollback() }()
	for err := range tx.Check() {
		report(err)
	}
	return nil
}

// checkValues reads every leaf and value.
func (db *DB) checkValues(report func(error)) (err error) {
	tx, err := db.bolt.Begin(false)
	if err != nil {
		return closedOr(err)
	}
	defer func() { _ = tx.Rollback() }()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if v := recover(); v != nil {
			failure, failed := db.failureOf(v)
			if !failed {
				panic(v)
			}
			report(failure)
		}
	}()
	s := db.pages.Snapshot(tx, bboltpage.SnapshotOptions{Direct: tx.Size() > db.directAbove})
	defer s.Release()
	for i, name := range db.buckets {
		t, ok, err := s.Bucket([]byte(name), nil)
		if ok && err == nil {
			err = db.checkBucket(&s, t, i, report)
		}
		if err != nil {
			report(asDamage(db.path, err))
		}
	}
	return nil
}

// checkBucket reads a bucket to its end, or up to damaged pages.
func (db *DB) checkBucket(s *bboltpage.Snapshot, t bboltpage.Tree, bucket int, report func(error)) error {
	c := s.Scan(t, nil)
	err := c.Seek(nil)
	for k, v := c.Pair(); err == nil && k != nil; k, v = c.Pair() {
		if _, wrong := db.unseal(bucket, k, v); wrong != nil {
			report(wrong)
		}
		err = c.Next()
	}
	return err
}

func closedOr(err error) error {
	if errors.Is(err, bolterrors.ErrDatabaseNotOpen) {
		return ErrClosed
	}
	return err
}

// Commits returns how many groups this process has committed since Open, and how many calls of Update they had. Groups
// of other nodes, and of a DB with Options.Log, are not counted.
func (db *DB) Commits() (groups, updates int64) { return db.commits.Load(), db.committed.Load() }
