package state

import (
	"github.com/lazuli-storage/lazuli/blobsvc/internal/content"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// Snapshot creates a snapshot of a blob and returns its time. The snapshot has the blob's metadata unless metadata
// is given. It copies the record and refers to the same content; the list of a page blob's pieces is copied. With
// versioning the blob becomes a new version.
func (s Blobs) Snapshot(w *Write, metadata []Meta) (at ticks.Ticks, result Result, err error) {
	result, err = s.updateBlob(w, (*Preconditions).checkSnapshot, func(c *change, b *Blob) error {
		if err := c.unlock(b); err != nil {
			return err
		}
		if err := c.checkScope(b, true); err != nil {
			return err
		}
		if b.Tier == ArchiveTier {
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
		if err := c.newVersion(b, c.second); err != nil {
			return err
		}
		c.put(b)
		return nil
	})
	return at, result, err
}

// snapshot stores a snapshot of b, the base blob, under the time at.
func (c *change) snapshot(b *Blob, at ticks.Ticks, metadata []Meta) (snap Blob, err error) {
	snap = *b
	if snap.content, err = b.content.freeze(c.tx, b); err != nil {
		return snap, err
	}
	snap.slot = Slot(at)
	snap.Lease, snap.Version, snap.Protection, snap.Expires = Lease{}, 0, Protection{}, 0
	if metadata != nil {
		snap.Metadata, snap.Changed = metadata, at
	}
	c.put(&snap)
	c.note(eventSnapshot, &snap)
	return snap, nil
}

// freeze returns b's content for one more record, which does not change when b does.
func (l pieceList) freeze(tx *store.Tx, b *Blob) (pieceList, error) {
	if b.Kind != PageBlob || l.id == 0 {
		return l.share(tx), nil
	}
	return l.copyPages(tx, b)
}

// duplicate returns b's content for a blob that changes independently.
func (l pieceList) duplicate(tx *store.Tx, b *Blob) (pieceList, error) {
	if b.Kind == BlockBlob || l.id == 0 {
		return l.share(tx), nil
	}
	return l.copyPages(tx, b)
}

// copyPages stores the pieces of b's content again, under a new ID.
func (l pieceList) copyPages(tx *store.Tx, b *Blob) (pieceList, error) {
	var list []content.Piece
	err := l.walkMarked(tx, 0, b.Length, b.Length, func(p *content.Piece) error {
		list = append(list, *p)
		return nil
	})
	if err != nil {
		return l, err
	}
	return storePages(tx, list), nil
}
