package extent

import (
	"log/slog"
	"time"

	"github.com/lazuli-storage/lazuli/internal/storage/disk"
)

// Options configure Open. The zero value is a durable store.
type Options struct {
	// Relaxed lets Commit return before the content is synced. A killed process loses nothing, but a power failure may
	// lose the latest content.
	Relaxed bool
	// Ephemeral starts with an empty store, does not sync, and leaves no names on disk if the operating system can remove
	// open files; otherwise Close removes them.
	Ephemeral bool
	// ReadOnly neither creates nor repairs anything.
	ReadOnly bool
	// SealSize is the size at which an extent is finished, in bytes; 0 means 256 MiB, the maximum is 1 GiB. It limits what
	// Open has to walk after a crash, and what Compact rewrites at a time.
	SealSize int64
	// Grace is the time for which an extent must have been dead before Compact deletes it: the maximum time between a
	// request's read of metadata and its NewReader. 0 means one minute; negative means no time.
	Grace time.Duration
	// Recheck is the time for which a record whose checksum was right is read without checking it again, if it is larger
	// than 64 KiB. 0 means one hour, negative means no time. Smaller records are checked on each read.
	Recheck time.Duration
	// Refs MUST call yield for every slice that the metadata refers to. Open calls it if a crash has left an extent that
	// is not completely intact, since referenced content must be intact. Without Refs, Open fails if intact records follow
	// damaged ones.
	Refs func(yield func(Ref) bool) error
	// Mirrored is for the folder of a node of a cluster, whose extents other nodes have as well: Open does not fail
	// because content that the metadata refers to is damaged or missing, since it can be fetched. See Store.Mirror.
	Mirrored bool
	// Logged is the maximum size of content that CommitLogged leaves to the owner's log, in bytes; 0 means that it leaves
	// none. It has no effect with Relaxed or Ephemeral.
	Logged int64
	// Restored, for ReadOnly, has what the owner's log has and the extents may lack: Walk finds it. Readers do not.
	Restored *Restorer
	// Tier has extents whose files this folder does not have any more; nil means none. See tier.go. It is not for a store
	// that is Ephemeral.
	Tier Tier
	// Logger receives the number of bytes that Open has cut off after a crash; nil means none.
	Logger *slog.Logger
	// FS is the file system to write extents through; nil means disk.OS.
	FS disk.FS
}
