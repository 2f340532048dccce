package state

import "github.com/lazuli-storage/lazuli/internal/storage/ticks"

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
	return c.Policy.Versioning && c.Container != LogsContainer && c.Container != ChangeFeedContainer
}

// staysVersion reports whether the base blob b becomes a previous version when it is overwritten or deleted.
func (c *change) staysVersion(b *Blob) bool { return b.Version != 0 || c.versioning() }

// IsVersion reports whether b is a previous version, not a snapshot and not the base blob.
func (b *Blob) IsVersion() bool { return b.slot != baseSlot && b.Version != 0 }

// IsSnapshot reports whether b is a snapshot.
func (b *Blob) IsSnapshot() bool { return b.slot != baseSlot && b.Version == 0 }

// IsBase reports whether b is the base blob: the current version, or a blob without versions.
func (b *Blob) IsBase() bool { return b.slot == baseSlot }

// ShowAsBase makes b appear as the base blob, for listings in which the newest version represents a deleted blob.
func (b *Blob) ShowAsBase() { b.slot, b.Deleted = baseSlot, 0 }

// Snapshot is the time of a snapshot.
func (b *Blob) Snapshot() ticks.Ticks { return ticks.Ticks(b.slot) }

// retire stores a base blob as a previous version, whose ID it returns. The caller writes or deletes the record in the
// base slot.
func (c *change) retire(b Blob) ticks.Ticks {
	b.Lease, b.Expires = Lease{}, 0
	if b.Version == 0 {
		// A blob that was created without versioning gets the time of its creation as ID.
		b.Version = b.Created
		// The time of creation may be the slot of a version or snapshot already: overwriting keeps the time of creation.
		for c.tx.Get(blobsBucket, c.key(Slot(b.Version))) != nil {
			b.Version++
		}
	}
	b.slot = Slot(b.Version)
	c.put(&b)
	return b.Version
}

// newVersion makes the base blob b a new version with the ID at, and stores its state before as a previous version.
// Without versioning it does nothing. The caller stores b.
func (c *change) newVersion(b *Blob, at ticks.Ticks) error {
	if !c.staysVersion(b) {
		return nil
	}
	old := *b
	var err error
	// A frozen reference: b goes on with its content, and pages that it changes in place must not change in the
	// version.
	if old.content, err = b.content.freeze(c.tx, b); err != nil {
		return err
	}
	c.previous.record(&old)
	c.previous.version = c.retire(old)
	b.Protection = Protection{}
	b.Version = 0
	if c.versioning() {
		b.Version = at
	}
	c.result.Version = b.Version
	return nil
}

// numberVersion gives b, which is about to be written to the base slot, its version ID.
func (c *change) numberVersion(b *Blob) {
	if b.Version = 0; c.versioning() {
		b.Version = c.at
	}
}

// sameTypeAsVersions refuses to give a blob another type than its previous versions have.
func (c *change) sameTypeAsVersions(kind Kind) error {
	if !c.versioning() {
		return nil
	}
	return eachRecord(c.tx, c.item, func(b *Blob) (more bool, err error) {
		switch {
		case !b.IsVersion() || b.Deleted != 0:
			return true, nil
		case b.Kind != kind:
			return false, ErrBlobType
		}
		return false, nil
	})
}
