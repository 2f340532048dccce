package blobsvc

import (
	"github.com/lazuli-storage/lazuli/internal/storage/store"

	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// Versions: while they are kept, a write of a whole blob or of its metadata gives the blob a new version, and the state
// before it stays as a previous version. Deleting the blob makes the current version a previous one. Writing pages,
// appending, and setting properties, tags or the tier change the current version.
//
// The current version is the base blob: its record has the version's id, which is a time. A previous version is a record of
// its own in the slot of that time. It has content, properties, metadata and tags, and no lease.
//
// Versions stay when keeping them is turned off. The current one then becomes a previous version with the next write, and
// what was written is none.
// https://learn.microsoft.com/azure/storage/blobs/versioning-overview

// versioning reports whether writes in a call's container make versions. Those of the system's own containers do not.
func (s *Service) versioning(c *call) bool {
	return s.managed(c).Versioning && c.container != LogsContainer && c.container != ChangeFeedContainer
}

// staysVersion reports whether the base blob b stays as a previous version when it is overwritten or deleted.
func (s *Service) staysVersion(c *call, b *Blob) bool { return b.Version != 0 || s.versioning(c) }

// IsVersion reports whether the record in a slot is a previous version, not a snapshot and not the base blob.
func (b *Blob) IsVersion(slot uint64) bool { return slot != baseSlot && b.Version != 0 }

// IsSnapshot is isVersion for snapshots.
func (b *Blob) IsSnapshot(slot uint64) bool { return slot != baseSlot && b.Version == 0 }

// retire stores a base blob as a previous version, whose id it returns. The caller writes or deletes what is in the base slot.
func retire(tx *store.Tx, gen uint64, name string, b Blob) ticks.Ticks {
	b.Lease, b.Expires = Lease{}, 0
	if b.Version == 0 {
		// A blob that was there before versions were kept gets the time of its creation as id.
		b.Version = b.Created
		for tx.Get(blobsBucket, blobKey(gen, name, uint64(b.Version))) != nil {
			b.Version++
		}
	}
	putBlob(tx, gen, name, uint64(b.Version), &b)
	return b.Version
}

// newVersion makes the base blob b a new version, with the id at, and stores what it was as a previous version. Without
// versions it does nothing. The caller writes b.
func (s *Service) newVersion(tx *store.Tx, c *call, gen uint64, b *Blob, at ticks.Ticks) error {
	if !s.staysVersion(c, b) {
		return nil
	}
	old := *b
	var err error
	if old.content, err = b.content.freeze(tx, b); err != nil {
		return err
	}
	c.before.was(&old, baseSlot)
	c.before.version = retire(tx, gen, c.blob, old)
	b.Protection = Protection{}
	s.numberVersion(c, b, at)
	return nil
}

// numberVersion gives b, about to be written to the base slot, its version id, and the answer the header with it.
func (s *Service) numberVersion(c *call, b *Blob, at ticks.Ticks) {
	b.Version, c.wrote = 0, 0
	if s.versioning(c) {
		b.Version, c.wrote = at, at
	}
}

// sameKindAsVersions refuses to give a blob another type than its previous versions have.
func (s *Service) sameKindAsVersions(tx *store.Tx, c *call, gen uint64, kind Kind) error {
	if !s.versioning(c) {
		return nil
	}
	return eachRecord(tx, gen, c.blob, func(slot uint64, b *Blob) (more bool, err error) {
		switch {
		case !b.IsVersion(slot) || b.Deleted != 0:
			return true, nil
		case b.Kind != kind:
			return false, errInvalidBlobType
		}
		return false, nil
	})
}
