package extent

import "errors"

// Returned by the methods of Store, Writer and Reader.
var (
	// ErrClosed means that the Store, Writer or Reader was closed before.
	ErrClosed = errors.New("extent: closed")

	// ErrNotFound means that a slice refers to an extent that does not exist. If the metadata still has the slice, content is lost. Otherwise
	// Compact has moved or deleted the content: read the metadata again.
	ErrNotFound = errors.New("extent: no such extent")

	// ErrRange means that a slice, or the range to read, lies outside of the content.
	ErrRange = errors.New("extent: range outside of the content")

	// ErrCorrupt means that bytes on disk differ from what was written.
	ErrCorrupt = errors.New("extent: checksum mismatch")

	// ErrReadOnly means that the Store was opened with Options.ReadOnly.
	ErrReadOnly = errors.New("extent: read-only")
)
