package blobsvc

import (
	"net/http"

	"github.com/google/uuid"

	"github.com/lazuli-storage/lazuli/internal/store"
	"github.com/lazuli-storage/lazuli/internal/wire"
)

// isDestination reports whether the record in a slot is the destination of incremental copies itself, of which only the
// snapshots are read.
func (b *blobRecord) isDestination(slot uint64) bool {
	return slot == baseSlot && b.incremental.source != ""
}

// incrementalCopy: https://learn.microsoft.com/rest/api/storageservices/incremental-copy-blob
// A snapshot of a page blob becomes a snapshot of the destination. It refers to the same bytes, so that there is no difference
// to transfer, and is complete when it is answered.
func (s *Service) incrementalCopy(c *call) error {
	src, err := s.copySource(c)
	if err != nil {
		return err
	}
	if src.remote != nil {
		return wire.ErrNotImplemented.WithMessage("Incremental copies from outside this service are not implemented.")
	}
	if src.at.snapshot == 0 {
		return errIncrementalNoSnapshot
	}
	p, err := c.preconditions()
	if err != nil {
		return err
	}
	id := uuid.NewString()
	changed, at := s.ticks.next(c.Now), s.ticks.next(c.Now)
	err = s.update(c, func(tx *store.Tx) error {
		var from, b blobRecord
		if err := src.read(tx, c.now(), &from); err != nil {
			return err
		}
		if from.kind != pageBlob {
			return errInvalidSourceBlobType
		}
		gen, err := containerGen(tx, c.Account, c.container)
		if err != nil {
			return err
		}
		source := src.account + "/" + src.container + "/" + src.blob
		switch err := getBlob(tx, gen, c.blob, baseSlot, &b); {
		case err == errBlobNotFound:
			if err := p.checkCreate(); err != nil {
				return err
			}
			// What is under the name, deleted, stays as it does when a blob is written.
			b = blobRecord{kind: pageBlob, created: changed, changed: changed, incremental: incremental{source: source}}
			if err := s.replace(tx, c, &p, &b); err != nil {
				return err
			}
		case err != nil:
			return err
		case b.incremental.source != source:
			return errIncrementalMismatch
		case b.incremental.last >= src.at.snapshot:
			return errIncrementalEarlier
		default:
			if err := p.checkDelete(&b, c.now()); err != nil {
				return err
			}
			if err := b.mayChange(); err != nil {
				return err
			}
		}
		if err := s.sameEncryption(tx, c, &src, &b, &from); err != nil {
			return err
		}
		b.content.drop(tx)
		b.metadata = nil
		b.adopt(&from)
		if b.content, err = from.content.freeze(tx, &from); err != nil {
			return err
		}
		b.changed = changed
		b.copy = copyRecord{id: id, source: src.url, status: copySuccess, copied: from.length, of: from.length, completed: changed}
		b.incremental.last, b.incremental.to = src.at.snapshot, at
		putBlob(tx, gen, c.blob, baseSlot, &b)
		snap := b
		if snap.content, err = b.content.freeze(tx, &b); err != nil {
			return err
		}
		snap.lease, snap.version, snap.protection, snap.expires = lease{}, 0, protection{}, 0
		putBlob(tx, gen, c.blob, uint64(at), &snap)
		s.note(tx, c, eventSnapshot, uint64(at), &snap)
		c.changed = true
		return nil
	})
	if err != nil {
		return copyError(err)
	}
	c.sendVersion(changed)
	c.sendEncryption(c.under)
	c.Set("x-ms-copy-id", id)
	c.Set("x-ms-copy-status", copySuccess)
	return c.Status(http.StatusAccepted)
}
