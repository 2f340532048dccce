package store

import (
	"log/slog"
	"time"

	"github.com/lazuli-storage/lazuli/internal/storage/disk"
	"github.com/lazuli-storage/lazuli/internal/storage/replog"
)

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
	// MemtableSize is the size from which what is in memory and the log is written to the file, in bytes; 0 means
	// DefaultMemtable. A larger one suits entries that are removed soon after they were put: they never get to the file.
	MemtableSize int
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

// Defaults of Options.SnapshotLog: of a log that several nodes share, and with Options.Private.
const (
	DefaultSnapshotLog = 256 << 20
	DefaultPrivateLog  = 64 << 20
)

// DefaultMemtable is the default of Options.MemtableSize.
const DefaultMemtable = 4 << 20

// Attachments keeps the bytes that transactions attach to the log (see Tx.Attach).
//
// A DB calls Restore within Open, and with Options.Log for each record that it applies, of this node or another one. It
// calls Sync within Open and Close, and in the background.
type Attachments interface {
	// Restore receives an attachment of the log, in the order of the transactions. It may have been restored before, and
	// it may have been kept by a Sync. The slices belong to the callee. With Options.Log, it is called again after an
	// error, and must not call the store.
	Restore(key, value []byte) error

	// Sync makes all attachments durable that were attached or restored before the call. The log drops them afterwards.
	// After an error the log keeps them, and the DB refuses writes with ErrFailed until it is opened again.
	Sync() error
}
