package blobsvc

import (
	"net/http"

	"github.com/google/uuid"

	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// isIncremental reports whether the record in a slot is the destination of incremental copies itself, of which only the
// snapshots are read.
func (b *Blob) isIncremental(slot uint64) bool {
	return slot == baseSlot && b.Incremental.Source != ""
}

// incrementalCopy: https://learn.microsoft.com/rest/api/storageservices/incremental-copy-blob
// A snapshot of a page blob becomes a snapshot of the destination. One of this process refers to the same bytes, so that there is no
// difference to transfer, and is complete when it is answered; others are pending, see copy_incremental_remote.go.
func (s *Service) incrementalCopy(c *call) error {
	src, err := s.copySource(c)
	if err != nil {
		return err
	}
	p, err := c.preconditions()
	if err != nil {
		return err
	}
	if src.remote != nil {
		return s.beginIncremental(c, &src, &p)
	}
	if src.at.Snapshot == 0 {
		return errIncrementalNoSnapshot
	}
	id := uuid.NewString()
	changed, at := s.ticks.Next(c.Now), s.ticks.Next(c.Now)
	err = s.update(c, func(tx *store.Tx) error {
		var from, b Blob
		if err := src.read(tx, c.now(), &from); err != nil {
			return err
		}
		if from.Kind != PageBlob {
			return errInvalidSourceBlobType
		}
		gen, err := containerGen(tx, c.Account, c.container)
		if err != nil {
			return err
		}
		source := src.account + "/" + src.container + "/" + src.blob
		there, err := c.incrementalTarget(tx, gen, &p, source, src.at.Snapshot, &b)
		if err != nil {
			return err
		}
		if !there {
			// What is under the name, deleted, stays as it does when a blob is written.
			b = Blob{Kind: PageBlob, Created: changed, Changed: changed, Incremental: Incremental{Source: source}}
			if err := s.replace(tx, c, &p, &b); err != nil {
				return err
			}
		}
		if err := s.sameEncryption(tx, c, &src, &b, &from); err != nil {
			return err
		}
		b.content.drop(tx)
		b.Metadata = nil
		b.adopt(&from)
		if b.content, err = from.content.freeze(tx, &from); err != nil {
			return err
		}
		b.Copy = CopyState{ID: id, Source: src.url, Status: CopySuccess, Total: from.Length}
		c.changed = true
		return s.endIncremental(tx, c, gen, &b, src.at.Snapshot, changed, at)
	})
	if err != nil {
		return copyError(err)
	}
	c.sendVersion(changed)
	c.sendEncryption(c.under)
	c.Set("x-ms-copy-id", id)
	c.Set("x-ms-copy-status", CopySuccess)
	return c.Status(http.StatusAccepted)
}

// incrementalTarget decides whether a snapshot of source may be copied into the blob that a call names, and loads that if it is there.
func (c *call) incrementalTarget(tx *store.Tx, gen uint64, p *Preconditions, source string, snapshot ticks.Ticks, b *Blob) (there bool, err error) {
	switch err := getBlob(tx, gen, c.blob, baseSlot, b); {
	case err == errBlobNotFound:
		return false, p.checkCreate()
	case err != nil:
		return false, err
	case b.Incremental.Source != source:
		return false, errIncrementalMismatch
	case b.Incremental.Last >= snapshot:
		return false, errIncrementalEarlier
	}
	if err := p.checkDelete(b, c.now()); err != nil {
		return false, err
	}
	return true, b.checkChangeable()
}

// endIncremental makes b, which has the content of a snapshot of its source and says what was copied, a snapshot of its own at the
// time at.
func (s *Service) endIncremental(tx *store.Tx, c *call, gen uint64, b *Blob, snapshot, changed, at ticks.Ticks) (err error) {
	b.Changed = changed
	b.Copy.Status, b.Copy.Copied, b.Copy.Completed = CopySuccess, b.Length, changed
	b.Incremental.Last, b.Incremental.To = snapshot, at
	putBlob(tx, gen, c.blob, baseSlot, b)
	snap := *b
	if snap.content, err = b.content.freeze(tx, b); err != nil {
		return err
	}
	snap.Lease, snap.Version, snap.Protection, snap.Expires = Lease{}, 0, Protection{}, 0
	putBlob(tx, gen, c.blob, uint64(at), &snap)
	s.note(tx, c, eventSnapshot, uint64(at), &snap)
	return nil
}
