package blobsvc

import (
	"net/http"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/content"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// snapshotBlob: https://learn.microsoft.com/rest/api/storageservices/snapshot-blob
// It copies the record; content is shared, except for the list of a page blob's pieces, which is copied.
func (s *Service) snapshotBlob(c *call) error {
	metadata, err := c.Metadata()
	if err != nil {
		return err
	}
	at, version := s.ticks.Next(c.Now), s.ticks.Next(c.Now)
	var out ticks.Ticks
	err = s.updateBase(c, (*Preconditions).checkSnapshot, func(tx *store.Tx, gen uint64, b *Blob) (err error) {
		if err := s.unlock(c.Account, b, c.key); err != nil {
			return err
		}
		if b.Tier == ArchiveTier {
			return errBlobArchived
		}
		snap := *b
		if snap.content, err = b.content.freeze(tx, b); err != nil {
			return err
		}
		snap.Lease, snap.Version, snap.Protection, snap.Expires = Lease{}, 0, Protection{}, 0
		if metadata != nil {
			snap.Metadata, snap.Changed = metadata, at
		}
		putBlob(tx, gen, c.blob, uint64(at), &snap)
		s.note(tx, c, eventSnapshot, uint64(at), &snap)
		out = snap.Changed
		if !s.versioning(c) {
			return nil
		}
		// The blob itself becomes a new version that differs from the last one in nothing but its id.
		if err := s.newVersion(tx, c, gen, b, version); err != nil {
			return err
		}
		putBlob(tx, gen, c.blob, baseSlot, b)
		return nil
	})
	if err != nil {
		return err
	}
	c.sendVersion(out)
	c.Set("x-ms-snapshot", at.ISO())
	c.Set("x-ms-request-server-encrypted", "false") // nothing was written but a reference
	return c.Status(http.StatusCreated)
}

// freeze returns b's content for one more record, which will not change when b does.
func (c pieceList) freeze(tx *store.Tx, b *Blob) (pieceList, error) {
	if b.Kind != PageBlob || c.id == 0 {
		return c.share(tx), nil
	}
	var list []content.Piece
	err := c.walk(tx, 0, b.Length, b.Length, func(p *content.Piece) error {
		list = append(list, *p)
		return nil
	})
	if err != nil {
		return c, err
	}
	return storePages(tx, list), nil
}
