package store

import (
	"context"
	"errors"
	"log/slog"
	"os"
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

// DB is one open file. Its methods are safe for concurrent use.
type DB struct {
	bolt     *bolt.DB
	writer   *bboltpage.Writer // used by the checkpoint
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
	flights            flights
	minFlying          int

	layers       atomic.Pointer[layers]
	readers      readers
	log          *wal        // used by the leader; nil if ephemeral, read-only or replicated
	replica      *replica    // nil without Options.Log
	attachments  Attachments // nil if the store takes none
	archive      Archive     // nil if none receives the log
	guard        func(*Tx) error
	gen          uint64 // used by the leader: generation of the active memtable
	frozenGen    uint64 // generation of the frozen memtable; set before it is
	memtableSize int    // from which one is frozen; two may exist at a time
	attachedSize int
	scratch      []byte      // used by the leader: memory of a record with attachments, or for a replicated log
	spareSets    [2]WriteSet // used by the leader: memory for those of its group
	chunkKeys    int         // maximum number of keys in a transaction of bbolt; tests use smaller values
	checkpoints  checkpoints
	writeOut     atomic.Bool // the next group freezes the memtable, whatever its size

	trim *trimmer

	mixed atomic.Bool // calls of several accounts wait: see UpdateFor

	mu        sync.Mutex    // guards the next fields up to closed
	account   string        // of the leader of the last group
	several   time.Time     // when calls of several accounts waited last
	written   shares        // of the active memtable, without a replicated log
	stalled   chan struct{} // closed to end the wait of the leader in passLead; nil if it does not wait
	gathering gather.Gatherer
	idle      sync.Cond // signalled when leading becomes false, and when no group is in flight any more
	queue     []*call
	leading   bool
	flying    int // groups in flight
	closed    bool

	found    format                // the file's format when it was opened
	failed   atomic.Pointer[error] // the cause of ErrFailed
	unsynced []byte                // of the file's beginning; used by the checkpoint: see resync
	fault    func() error          // tests only: runs before a commit of bbolt and may fail it
}

// layers are the memtables above the file. The file has everything up to the frozen memtable, and may have the content
// of that as well: the merged view is the same.
type layers struct {
	active *memtable
	frozen *memtable // nil if none exists
}

// checkpoints writes frozen memtables to bbolt, one at a time, in the background.
type checkpoints struct {
	mu      sync.Mutex // guards what follows
	ended   sync.Cond
	running bool
	err     error // of the last one
}

// flights are the groups in flight.
type flights struct {
	mu     sync.Mutex // guards the rest
	landed sync.Cond  // signalled when list gets shorter
	list   []*flying  // in the order of the log
	bytes  int
	calls  int
	failed bool    // one has failed, so all others will
	again  []*call // of those that have failed because another record came first
}

// flying is a group in flight.
type flying struct {
	append *replog.Pending
	layer  *memtable // its writes
	bytes  int
	calls  int
}

// call is one waiting Update.
type call struct {
	fn      func(*Tx) error
	account string // see UpdateFor
	round   int    // see inTurns
	bytes   int    // of its writes and attachments
	err     error
	panic   *Panic
	promote bool          // set before wake: lead the next group
	again   bool          // set by the leader of a group that has failed: the call is in the queue once more
	wake    chan struct{} // a group has served the call, or it is promoted
}

// replica is the state of a store that is a view of a replicated log.
type replica struct {
	log     *replog.Log
	local   bool // View does not wait
	applied func(Bucket, Write)
	private bool
	trim    int64 // size from which a private log is cut, in bytes; 0 for never
	relaxed bool  // the log acknowledges before it syncs
	mark    *marker

	stop      context.CancelFunc // ends keepSnapshots
	snapshots sync.WaitGroup

	id          string
	from, ahead replog.Position // as found in the file
}

// ReadOnly reports whether the file was opened with Options.ReadOnly.
func (db *DB) ReadOnly() bool { return db.readOnly }

// Size returns the size of the file in bytes.
func (db *DB) Size() (n int64, err error) {
	err = closedOr(db.bolt.View(func(tx *bolt.Tx) error { n = tx.Size(); return nil }))
	return n, err
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

// Tx is one View or Update. It may be used only by the closure that it is passed to, in the closure's goroutine.
//
// It sees a stack of layers, of which the upper hide the lower.
//
// If a read fails or finds damage, the closure ends at once by a panic. View and Update recover from it and return the
// error: ErrDamaged, or that of the operating system. Deferred calls of the closure run.
type Tx struct {
	db *DB

	writes   *WriteSet           // the closure's own; nil in a View
	group    *WriteSet           // writes of earlier closures of the group; nil in a View
	flying   []*memtable         // groups whose commit is not known yet, the newest first; nil in a View
	mem      [2]*memtable        // active and frozen, either may be nil
	snapshot [2]uint64           // last visible group of each
	last     [2]found            // in each, see entry
	reader   *reader             // of the file
	file     *bboltpage.Snapshot // the file as reader sees it; set on first use
	own      bboltpage.Snapshot  // file points to it, or to that of parent
	parent   *Tx                 // of a closure's transaction: that of the group; nil in a View
	round    uint64              // see Group
	bucket   int                 // the index of the bucket that a method was called for last

	err     error // first error of a Put or Delete
	touched int   // see trim.go
}
