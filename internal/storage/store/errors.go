package store

import (
	"errors"
	"fmt"

	"github.com/lazuli-storage/lazuli/internal/storage/replog"
)

// Errors of Open.
var (
	// ErrLocked means that another process, or another DB of this process, has the file open.
	ErrLocked = errors.New("store: file is in use by another process")

	// ErrReplicated means that the file is a view of a replicated log and was opened without Options.Log.
	ErrReplicated = errors.New("store: the file belongs to a node of a cluster")

	// ErrOtherLog means that the file does not belong to the log in Options.Log.
	ErrOtherLog = errors.New("store: the file does not belong to this replicated log")

	// ErrFormat means that the file was written by a newer release, or is not a store file.
	ErrFormat = errors.New("store: unknown file format")
)

// Errors of View and Update.
var (
	// ErrClosed means that Close was called. Nothing has been written.
	ErrClosed = errors.New("store: closed")

	// ErrFailed means that this or an earlier commit could not be synced, so that the content of the disk is unknown.
	// Later writes are refused until the file is opened again; View still works. If this commit was the one that could not
	// be synced, the next Open may find its writes.
	ErrFailed = errors.New("store: a sync failed; restart to recover")

	// ErrDisk means that the disk refuses writes to the file, and that memory for more changes is used up. Nothing has
	// been written. Writes succeed again when the disk does.
	ErrDisk = errors.New("store: the file cannot be written at the moment")

	// ErrReadOnly means that the file was opened with Options.ReadOnly. Nothing has been written.
	ErrReadOnly = errors.New("store: read-only")

	// ErrUnavailable means that the replicated log (Options.Log) has no majority of its servers, or that this node no
	// longer follows it. Nothing has been written.
	ErrUnavailable = errors.New("store: the replicated log is not available")

	// ErrNodeDisk means that the replicated log cannot be written or followed here, for lack of room on the disk, or since
	// the disk refuses writes. Nothing has been written. Other nodes may serve.
	ErrNodeDisk = errors.New("store: the disk of this node is full or refuses writes")

	// ErrFenced means that the archive of the log (Options.Archive) allows no writes. Nothing has been written, unless the
	// error is also ErrUnknown.
	ErrFenced = errors.New("store: no writes are allowed")

	// ErrUnknown means that the replicated log did not answer: the writes may have been made, or may be made later.
	ErrUnknown = errors.New("store: the outcome of the write is unknown")

	// ErrKey means that the closure used an empty key or one longer than MaxKeySize, or a value longer than
	// MaxValueSize. Nothing has been written.
	ErrKey = errors.New("store: key or value size out of range")
)

// Panic is the value with which Update panics in its caller when the closure panicked. The stack is that of the
// closure, which may have run in another goroutine.
type Panic struct {
	Value any
	Stack []byte
}

// Error returns the value and the stack.
func (p *Panic) Error() string { return fmt.Sprintf("%v\n\n%s", p.Value, p.Stack) }

// Unwrap returns the value if it is an error.
func (p *Panic) Unwrap() error {
	err, _ := p.Value.(error)
	return err
}

// logError converts an error of package replog.
func logError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, replog.ErrClosed):
		return ErrClosed
	case errors.Is(err, replog.ErrUnknown):
		return fmt.Errorf("%w: %w", ErrUnknown, err)
	case errors.Is(err, replog.ErrDisk):
		return fmt.Errorf("%w: %w", ErrNodeDisk, err)
	default:
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
}
