package extent

import (
	"errors"
	"io"
)

// An extent that is finished can be in a tier, an object store: then its file is a copy that may go.
//
//	<id>.extent ──> object, whole ──> compared ──> SetRemote: the manifest has its checksum ──> Drop: the file goes
//
// Until the manifest has the checksum, the file stays; from then on it need not be there. What is only in the tier is
// read by parts, into memory, and a record's checksum is compared there: the bytes that were compared are those that
// are served. Package tier does the rest: it copies, keeps what was fetched, and removes objects.

// Tier has extents whose files a folder does not have any more.
type Tier interface {
	// Open returns what reads an extent of a size, whose object has a checksum. Its errors are ErrAway, if the tier does
	// not answer, ErrCorrupt, if it does not have the bytes, or io.EOF.
	Open(id uint64, size int64, sum string) io.ReaderAt
	// Forget drops what is kept on this machine of n bytes at an offset, which were wrong.
	Forget(id uint64, offset, n int64)
	// Sealed is called when another extent is finished.
	Sealed()
	// Removed is called when an extent that was in the tier was deleted: no metadata refers to it.
	Removed(id uint64)
}

// errNoTier means that content is in a tier that was not given.
var errNoTier = errors.New("it is in the tier of content, and --content-tier is not set")
