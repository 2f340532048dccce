package blob

import (
	"github.com/lazuli-storage/lazuli/internal/state/blob/lease"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// Versions: with versioning, a write of a whole blob or of its metadata creates a new version of the blob, and its
// state before becomes a previous version. Deleting the blob makes the current version a previous one. Writing pages,
// appending, and setting properties, tags or the tier change the current version.
//
// The current version is the base blob: its record has the version's ID, which is a time. A previous version is a
// record in the slot of that time. It has content, properties, metadata and tags, and no lease.
//
// Versions stay when versioning is turned off. The next write turns the current version into a previous one; the new
// content has no version ID. https://learn.microsoft.com/azure/storage/blobs/versioning-overview

// versioning reports whether writes in the container create versions. Writes in the system's containers do not.
func (c *change) versioning() bool {
	return c.Policy.Versioning && c.Container != record.LogsContainer && c.Container != record.ChangeFeedContainer
}

// staysVersion reports whether the base blob b becomes a previous version when it is overwritten or deleted.
func (c *change) staysVersion(b *record.Blob) bool { return b.Version != 0 || c.versioning() }

// retire stores a base blob as a previous version, whose ID it returns. The caller writes or deletes the record in the
// base slot.
func (c *change) retire(b record.Blob) ticks.Ticks {
	b.Lease = lease.Lease{}
	b.Expires = 0
	if b.Version == 0 {
		// A blob that was created without versioning gets the time of its creation as ID.
		b.Version = b.Created
		// The time of creation may be the slot of a version or snapshot already: overwriting keeps the time of creation.
		for c.tx.Get(record.BlobsBucket, c.key(record.Slot(b.Version))) != nil {
			b.Version++
		}
	}
	b.Slot = record.Slot(b.Version)
	c.put(&b)
	return b.Version
}

// newVersion makes the base blob b a new version with the ID at, and stores its state before as a previous version.
// Without versioning it does nothing. The caller stores b.
func (c *change) newVersion(b *record.Blob, at ticks.Ticks) error {
	if !c.staysVersion(b) {
		return nil
	}
	old := *b
	var err error
	// A frozen reference: b goes on with its content, and pages that it changes in place must not change in the
	// version.
	if old.Content, err = b.Content.Freeze(c.tx, b); err != nil {
		return err
	}
	c.previous.record(&old)
	c.previous.version = c.retire(old)
	b.Protection = record.Protection{}
	b.Version = 0
	if c.versioning() {
		b.Version = at
	}
	c.result.Version = b.Version
	return nil
}

// numberVersion gives b, which is about to be written to the base slot, its version ID.
func (c *change) numberVersion(b *record.Blob) {
	if b.Version = 0; c.versioning() {
		b.Version = c.at
	}
}

// sameTypeAsVersions refuses to give a blob another type than its previous versions have.
func (c *change) sameTypeAsVersions(kind record.Kind) error {
	if !c.versioning() {
		return nil
	}
	return record.EachSlot(c.tx, c.Item, func(b *record.Blob) (more bool, err error) {
		switch {
		case !b.IsVersion() || b.Deleted != 0:
			return true, nil
		case b.Kind != kind:
			return false, ErrBlobType
		}
		return false, nil
	})
}
