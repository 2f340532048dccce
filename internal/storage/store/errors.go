package store

import "errors"

// Errors of Open.
var (
	// ErrLocked means that another process, or another DB of this process, has the file open.
	ErrLocked = errors.New("store: file is in use by another process")

	// ErrFormat means that the file was written by a newer release, or is not a store file.
	ErrFormat = errors.New("store: unknown file format")
)

// Errors of View and Update.
var (
	// ErrClosed means that Close was called. Nothing has been written.
	ErrClosed = errors.New("store: closed")

	// ErrFailed means that an earlier commit could not be synced, so that the content of the disk is unknown. Nothing has been written, and
	// later writes are refused until the file is opened again; View still works.
	ErrFailed = errors.New("store: an earlier sync failed; restart to recover")

	// ErrReadOnly means that the file was opened with Options.ReadOnly. Nothing has been written.
	ErrReadOnly = errors.New("store: read-only")

	// ErrKey means that the closure used an empty key or one longer than MaxKeySize, or a value longer than
	// MaxValueSize. Nothing has been written.
	ErrKey = errors.New("store: key or value size out of range")
)
