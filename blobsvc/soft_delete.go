package blobsvc

import (
	"context"
	"encoding/binary"
	"net/http"
	"time"

	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// Soft delete: while the account has a delete retention policy, a deleted blob or snapshot stays where it is, marked, and
// a blob that is overwritten stays as a marked snapshot. Nothing but listings and Undelete Blob sees them, until the
// background removes them at the end of their time. The deleted bucket has them in that order.
// https://learn.microsoft.com/azure/storage/blobs/soft-delete-blob-overview

// retentionDays is for how many days the account keeps what is deleted now; 0 means not at all.
func (s *Service) retentionDays(account string) int64 {
	if r := s.properties.Of(account).DeleteRetention; r.Enabled {
		return int64(r.Days)
	}
	return 0
}

const day = ticks.Ticks(24 * time.Hour / 100)

// purgeAt is when a deleted blob goes for good.
func (b *Blob) purgeAt() ticks.Ticks { return b.Deleted + ticks.Ticks(b.KeptDays)*day }

// RemainingDays is the whole days until then.
func (b *Blob) RemainingDays(now ticks.Ticks) int64 {
	return int64(max(0, b.purgeAt()-now) / day)
}

func purgeKey(at ticks.Ticks, blob []byte) []byte {
	return append(binary.BigEndian.AppendUint64(make([]byte, 0, 8+len(blob)), uint64(at)), blob...)
}

// bury marks b as deleted and stores it in slot, which may not be the one that it had.
func (s *Service) bury(tx *store.Tx, gen uint64, name string, slot uint64, b *Blob) {
	b.Lease, b.Expires = Lease{}, 0 // what is deleted does not expire, nor when it is restored
	key := blobKey(gen, name, slot)
	tx.Put(blobsBucket, key, b.encode())
	tx.Put(deletedBlobsBucket, purgeKey(b.purgeAt(), key), []byte{recordVersion})
}

// setAside makes room in the base slot for a new blob: what was deleted there before, or is overwritten now, stays as a
// deleted snapshot, whose time it returns.
func (s *Service) setAside(tx *store.Tx, c *call, gen uint64, old *Blob) ticks.Ticks {
	if old.Deleted != 0 {
		tx.Delete(deletedBlobsBucket, purgeKey(old.purgeAt(), blobKey(gen, c.blob, baseSlot)))
	} else {
		old.Deleted, old.KeptDays = c.now(), s.retentionDays(c.Account)
	}
	at := s.ticks.Next(c.Now)
	s.bury(tx, gen, c.blob, uint64(at), old)
	return at
}

// undeleteBlob: https://learn.microsoft.com/rest/api/storageservices/undelete-blob
func (s *Service) undeleteBlob(c *call) error {
	err := s.update(c, func(tx *store.Tx) error {
		gen, err := containerGen(tx, c.Account, c.container)
		if err != nil {
			return err
		}
		there := false
		var slots []uint64
		err = eachRecord(tx, gen, c.blob, func(slot uint64, b *Blob) (more bool, err error) {
			if there = true; b.Deleted != 0 {
				slots = append(slots, slot)
			}
			return true, nil
		})
		if err != nil {
			return err
		}
		if !there {
			return errBlobNotFound
		}
		for _, slot := range slots {
			var b Blob
			if err := loadBlob(tx, gen, c.blob, slot, &b); err != nil {
				return err
			}
			tx.Delete(deletedBlobsBucket, purgeKey(b.purgeAt(), blobKey(gen, c.blob, slot)))
			b.Deleted, b.KeptDays = 0, 0
			putBlob(tx, gen, c.blob, slot, &b)
			c.before.softDeleted = true
			s.note(tx, c, eventCreated, slot, &b)
			if slot == baseSlot {
				s.indexTags(tx, c.Account, gen, c.blob, &b)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return c.Status(http.StatusOK)
}

var (
	// errPermanentDelete: permanent deletion is for soft-deleted snapshots and versions, where the account allows it.
	errPermanentDelete = fail(http.StatusConflict, "OperationNotAllowedOnSoftDeletedBlob", "Permanent deletion is not allowed on this blob.")
	// errNotSoftDeleted: it comes second.
	errNotSoftDeleted = fail(http.StatusConflict, "BlobSnapshotNotSoftDeleted", "The specified blob snapshot or version is not soft deleted.")
)

// deletePermanently is Delete Blob with deletetype=permanent: it removes a soft-deleted snapshot or version before its time.
func (s *Service) deletePermanently(c *call, at Address) error {
	if at.IsBase() || !s.properties.Of(c.Account).DeleteRetention.AllowPermanentDelete {
		return errPermanentDelete
	}
	err := s.update(c, func(tx *store.Tx) error {
		gen, err := containerGen(tx, c.Account, c.container)
		if err != nil {
			return err
		}
		var b Blob
		slot, err := at.getAny(tx, gen, c.blob, &b)
		switch {
		case err != nil:
			return err
		case slot == baseSlot:
			return errRootBlob
		case b.Deleted == 0:
			return errNotSoftDeleted
		}
		key := blobKey(gen, c.blob, slot)
		tx.Delete(deletedBlobsBucket, purgeKey(b.purgeAt(), key))
		tx.Delete(blobsBucket, key)
		b.content.drop(tx)
		c.freed = b.Length
		return nil
	})
	if err != nil {
		return err
	}
	c.Set("x-ms-delete-type-permanent", "true")
	return c.Status(http.StatusAccepted)
}

// purge removes deleted blobs whose time is over.
func (s *Service) purge(ctx context.Context, now time.Time) error {
	_, err := s.sweepDue(ctx, deletedBlobsBucket, now, func(tx *store.Tx, k, _ []byte) (int64, error) {
		v := tx.Get(blobsBucket, k[8:])
		if v == nil {
			return 0, nil
		}
		var b Blob
		if err := decodeBlob(v, &b); err != nil {
			return 0, err
		}
		tx.Delete(blobsBucket, k[8:])
		b.content.drop(tx)
		return b.Length, nil
	})
	return err
}

// sendDeleteType says whether what was deleted is gone for good.
func (c *call) sendDeleteType(kept bool) {
	if kept {
		c.Set("x-ms-delete-type-permanent", "false")
		return
	}
	c.Set("x-ms-delete-type-permanent", "true")
}
