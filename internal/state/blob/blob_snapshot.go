package blob

import (
	"github.com/lazuli-storage/lazuli/internal/state/blob/lease"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// Snapshot creates a snapshot of a blob and returns its time. The snapshot has the blob's metadata unless metadata
// is given. It copies the record and refers to the same content; the list of a page blob's pieces is copied. With
// versioning the blob becomes a new version.
func (s Blobs) Snapshot(w *Write, metadata []record.Meta) (at ticks.Ticks, result Result, err error) {
	result, err = s.updateBlob(w, (*Preconditions).checkSnapshot, func(c *change, b *record.Blob) error {
		if err := c.unlock(b); err != nil {
			return err
		}
		if err := c.checkScope(b, true); err != nil {
			return err
		}
		if b.Tier == record.ArchiveTier {
			return ErrArchived
		}
		at = c.at
		snap, err := c.snapshot(b, at, metadata)
		if err != nil {
			return err
		}
		c.result.Changed = snap.Changed
		if !c.versioning() {
			return nil
		}
		// The blob becomes a new version that differs from the last one in its ID alone.
		if err := c.newVersion(b, c.later); err != nil {
			return err
		}
		c.put(b)
		return nil
	})
	return at, result, err
}

// snapshot stores a snapshot of b, the base blob, under the time at.
func (c *change) snapshot(b *record.Blob, at ticks.Ticks, metadata []record.Meta) (snap record.Blob, err error) {
	snap = *b
	if snap.Content, err = b.Content.Freeze(c.tx, b); err != nil {
		return snap, err
	}
	snap.Slot = record.Slot(at)
	snap.Lease = lease.Lease{}
	snap.Version = 0
	snap.Protection = record.Protection{}
	snap.Expires = 0
	if metadata != nil {
		snap.Metadata = metadata
		snap.Changed = at
	}
	c.put(&snap)
	c.note(record.EventSnapshot, &snap)
	return snap, nil
}
