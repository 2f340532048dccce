package extent

import "errors"

// Returned by the methods of Store, Writer and Reader.
var (
	// ErrClosed means that the Store, Writer or Reader was closed before.
	ErrClosed = errors.New("extent: closed")

	// ErrNotFound means that a slice refers to an extent that does not exist. If the metadata still has the slice, content
	// is lost. Otherwise Compact has moved or deleted the content: read the metadata again.
	ErrNotFound = errors.New("extent: no such extent")

	// ErrRange means that a slice, or the range to read, lies outside of the content.
	ErrRange = errors.New("extent: range outside of the content")

	// ErrCorrupt means that bytes on disk differ from what was written.
	ErrCorrupt = errors.New("extent: checksum mismatch")

	// ErrUnavailable means that not enough other nodes of a cluster could be reached: content was not stored, or cannot be
	// read at the moment.
	ErrUnavailable = errors.New("extent: not enough nodes have the content or can be reached")

	// ErrReadOnly means that the Store was opened with Options.ReadOnly.
	ErrReadOnly = errors.New("extent: read-only")
)
