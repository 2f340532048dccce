package blob

import (
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// previousState is the blob's state before a write. Writers record it; the change feed copies it into the event. The
// zero value means no previous state.
type previousState struct {
	// exists is set if there was a blob, and tier is its access tier.
	exists bool
	tier   string
	// version is the ID of the previous version that the state is now, 0 if it is not one.
	version ticks.Ticks
	// softDeleted is set if the state is kept as soft-deleted; snapshot is the time of the deleted snapshot that it is, if
	// it is one.
	softDeleted bool
	snapshot    ticks.Ticks
	// headers and tags are the values that Set Blob Properties and Set Blob Tags replace.
	headers *record.Headers
	tags    *[]record.Tag
	// rehydrating is the tier to which an archived blob is moved.
	rehydrating string
	// renamed is the container and path before a rename; recursive is set if a directory is deleted with what is below it.
	renamed   string
	recursive bool
}

// record records that b, the base blob or a version, is about to be overwritten, deleted, or moved to another tier.
func (p *previousState) record(b *record.Blob) {
	p.exists = true
	p.tier, _ = b.AccessTier()
}
