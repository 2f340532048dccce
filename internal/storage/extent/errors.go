package extent

import "errors"

// Returned by the methods of Store, Writer and Reader.
var (
	// ErrClosed means that the Store, Writer or Reader was closed before.
	ErrClosed = errors.New("extent: closed")

	// ErrNotFound means that a slice refers to an extent that does not exist. If the metadata still has the slice,
	// content is lost. Otherwise Compact has moved or deleted the content: read the metadata again.
	ErrNotFound = errors.New("extent: no such extent")

	// ErrRange means that a slice, or the range to read, lies outside of the content.
	ErrRange = errors.New("extent: range outside of the content")

	// ErrCorrupt means that bytes on disk differ from what was written.
	ErrCorrupt = errors.New("extent: checksum mismatch")

	// ErrUnavailable means that not enough other nodes of a cluster could be reached: content was not stored, or cannot
	// be read at the moment.
	ErrUnavailable = errors.New("extent: not enough nodes have the content or can be reached")

	// ErrAway means that content is only in the tier, which does not answer or was not given.
	ErrAway = errors.New("extent: the object store with the content does not answer")

	// ErrReadOnly means that the Store was opened with Options.ReadOnly.
	ErrReadOnly = errors.New("extent: read-only")

	// ErrNoTier is the error of Open for a folder of which extents are only in a tier, without Options.Tier.
	ErrNoTier = errors.New("extent: content of this folder is in an object store: set --content-tier; to leave the " +
		"object store, restore a backup")
	// ErrAloneTier is the error of Open for the folder of a node of a cluster whose extents are in the tier that the
	// folder had as that of a single server.
	ErrAloneTier = errors.New("extent: content of this folder is in the object store that it had as the folder of a " +
		"single server: restore a backup to a new folder, and begin the cluster with that")
)
