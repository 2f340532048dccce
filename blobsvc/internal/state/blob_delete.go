package state

import (
	"context"
	"encoding/binary"
	"time"

	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// DeleteSnapshots selects what Delete Blob does with the snapshots of a blob.
type DeleteSnapshots byte

// RefuseSnapshots fails if there are any, IncludeSnapshots deletes them with the blob, OnlySnapshots keeps the blob.
const (
	RefuseSnapshots DeleteSnapshots = iota
	IncludeSnapshots
	OnlySnapshots
)

// Delete deletes the record that w names. kept is set if it can be restored, or stays as a previous version.
func (s Blobs) Delete(w *Write, snapshots DeleteSnapshots) (kept bool, err error) {
	deleting := *w
	w, deleting.right = &deleting, toDelete
	check := (*Preconditions).checkDelete
	if !w.At.IsBase() { // it has no lease
		check = (*Preconditions).checkLeasing
	}
	_, err = s.updateBlob(w, check, func(c *change, b *Blob) error {
		if err := c.If.checkTierChange(b); err != nil {
			return err
		}
		// kept depends on the record, and the last run of the closure counts.
		kept = c.Policy.RetentionDays > 0 || c.At.IsBase() && snapshots != OnlySnapshots && c.staysVersion(b)
		if !c.At.IsBase() {
			// The version ID of the current version leads to the base slot.
			if b.slot == baseSlot {
				return ErrCurrentVersion
			}
			return c.remove(b)
		}
		if b.IsDirectory() && hasChildren(c.tx, c.item.inode()) {
			return ErrDirectoryNotEmpty
		}
		slots, err := c.snapshots(snapshots == RefuseSnapshots)
		if err != nil {
			return err
		}
		switch {
		case len(slots) > 0 && snapshots == RefuseSnapshots:
			return ErrSnapshotsPresent
		case len(slots) == 0 && snapshots == OnlySnapshots:
			return ErrBlobNotFound
		}
		// The trash takes the inode as it is, with its snapshots and uncommitted blocks: nothing of it is removed one by
		// one, so that a restore brings back all of it.
		if c.inTree() && c.Policy.RetentionDays > 0 && snapshots != OnlySnapshots {
			_, err := c.trash(b, eventDeleted)
			return err
		}
		if err := c.removeSlots(slots); err != nil {
			return err
		}
		if snapshots == OnlySnapshots {
			return nil
		}
		c.discardBlocks()
		return c.remove(b)
	})
	return kept, err
}

// remove deletes b: it stays as a previous version, or as soft-deleted, or is gone.
func (c *change) remove(b *Blob) error {
	if err := b.checkDeletable(c.now); err != nil {
		return err
	}
	staysVersion := b.slot == baseSlot && c.staysVersion(b)
	// The event tells what became of the blob, so previous is complete before note, which clears it. b is noted as it
	// was before it was marked.
	c.previous.record(b)
	if c.previous.softDeleted = c.Policy.RetentionDays > 0 && !staysVersion; staysVersion {
		c.previous.version = c.retire(*b)
	}
	c.note(eventDeleted, b)
	if b.slot == baseSlot {
		c.unindexTags(b)
		c.unlink(b)
	}
	switch {
	// retire has stored the record in the slot of its version, with the reference to the content.
	case staysVersion:
		c.tx.Delete(blobsBucket, c.key(b.slot))
	case c.Policy.RetentionDays > 0:
		b.Deleted, b.KeptDays = c.now, c.Policy.RetentionDays
		c.storeDeleted(b)
	default:
		c.tx.Delete(blobsBucket, c.key(b.slot))
		c.drop(b)
	}
	return nil
}

// removeSlots removes the records in slots.
func (c *change) removeSlots(slots []Slot) error {
	for _, slot := range slots {
		var b Blob
		// With a time of 0 no record counts as expired: expireAll passes the slot of the expired blob itself.
		if err := getBlob(c.tx, c.item, slot, 0, &b); err != nil {
			return err
		}
		if err := c.remove(&b); err != nil {
			return err
		}
	}
	return nil
}

// snapshots returns the slots of the blob's snapshots, oldest first, without deleted ones; only the first if one is
// enough to know.
func (c *change) snapshots(one bool) (slots []Slot, err error) {
	err = eachRecord(c.tx, c.item, func(b *Blob) (more bool, err error) {
		if b.IsSnapshot() && b.Deleted == 0 {
			slots = append(slots, b.slot)
		}
		// Records come in the order of their slots, so the walk can end at the first snapshot.
		return len(slots) == 0 || !one, nil
	})
	return slots, err
}

// Soft delete: while the account has a delete retention policy, a deleted blob or snapshot stays in its slot, marked,
// and a blob that is overwritten stays as a marked snapshot. Only listings and Undelete Blob see them, until the
// background removes them at the end of their retention. The bucket of deleted blobs has them in that order.
// https://learn.microsoft.com/azure/storage/blobs/soft-delete-blob-overview

const day = ticks.Ticks(24 * time.Hour / 100)

// purgeAt returns the time at which a deleted blob is removed.
func (b *Blob) purgeAt() ticks.Ticks { return b.Deleted + ticks.Ticks(b.KeptDays)*day }

// KeptUntil returns the time until which a deleted blob can be restored.
func (b *Blob) KeptUntil() ticks.Ticks { return b.purgeAt() }

// RemainingDays is the number of whole days until a deleted blob is removed.
func (b *Blob) RemainingDays(now ticks.Ticks) int64 { return int64(max(0, b.purgeAt()-now) / day) }

func purgeKey(at ticks.Ticks, blob []byte) []byte {
	return append(binary.BigEndian.AppendUint64(make([]byte, 0, 8+len(blob)), uint64(at)), blob...)
}

// storeDeleted stores b, which is marked as deleted, in its slot.
func (c *change) storeDeleted(b *Blob) {
	b.Lease, b.Expires = Lease{}, 0 // a deleted blob does not expire, nor when it is restored
	c.put(b)
	// The key has the end of the retention as it is now: a change that removes the mark or moves the
	// record computes the key from the same fields, and deletes the entry.
	c.tx.Put(deletedBlobsBucket, purgeKey(b.purgeAt(), c.key(b.slot)), []byte{recordVersion})
}

// softDeleteOverwritten makes room in the base slot for a new blob: the blob that was deleted there before, or is
// overwritten now, becomes a deleted snapshot. Its time is returned.
func (c *change) softDeleteOverwritten(old *Blob) ticks.Ticks {
	// A blob that was deleted before keeps its retention. Its entry in the bucket of deleted blobs names the base slot,
	// where another blob will be, and goes; storeDeleted makes one for the new slot.
	if old.Deleted != 0 {
		c.tx.Delete(deletedBlobsBucket, purgeKey(old.purgeAt(), c.key(baseSlot)))
	} else {
		old.Deleted, old.KeptDays = c.now, c.Policy.RetentionDays
	}
	// c.at may become the version ID of the new blob, which is its slot when it is a previous version. second is the
	// time of no other change.
	old.slot = Slot(c.second)
	c.storeDeleted(old)
	return c.second
}

// Undelete restores everything of a blob that was soft-deleted: the blob itself, its snapshots and versions.
func (s Blobs) Undelete(w *Write) error {
	_, err := s.update(w, func(c *change) error {
		if err := c.enterExisting(); err != nil {
			return err
		}
		// A blob that has expired counts as deleted, whether the background has come to it or not. It is deleted here
		// first, so that there is something to restore in both cases.
		if err := c.expireDue(); err != nil {
			return err
		}
		// The walk reads records without their pieces, which a put would lose. So it collects the slots, and each record
		// is loaded again as a whole before it is stored.
		exists := false
		var slots []Slot
		err := eachRecord(c.tx, c.item, func(b *Blob) (more bool, err error) {
			// A blob of which nothing is deleted exists as well: the request succeeds and changes nothing.
			if exists = true; b.Deleted != 0 {
				slots = append(slots, b.slot)
			}
			return true, nil
		})
		if err != nil {
			return err
		}
		if !exists {
			return ErrBlobNotFound
		}
		for _, slot := range slots {
			var b Blob
			if err := loadBlob(c.tx, c.item, slot, &b); err != nil {
				return err
			}
			// Before the fields are cleared that the key is computed from. With the entry left in place, purgeBlobs would
			// remove the restored record at the end of the retention: it does not look at the mark.
			c.tx.Delete(deletedBlobsBucket, purgeKey(b.purgeAt(), c.key(slot)))
			b.Deleted, b.KeptDays = 0, 0
			c.put(&b)
			// In each round, since note clears it.
			c.previous.softDeleted = true
			c.note(eventCreated, &b)
			if slot == baseSlot {
				c.indexTags(&b)
			}
		}
		return nil
	})
	return err
}

// DeletePermanently removes a soft-deleted snapshot or version before the end of its retention. w has no preconditions.
func (s Blobs) DeletePermanently(w *Write) error {
	switch {
	case w.At.IsBase():
		return ErrPermanentDelete
	case !w.Policy.PermanentDelete:
		return ErrPermanentDeleteOff
	}
	_, err := s.update(w, func(c *change) error {
		if err := c.enterExisting(); err != nil {
			return err
		}
		var b Blob
		err := c.At.load(c.tx, c.item, &b)
		switch {
		case err != nil:
			return err
		case b.slot == baseSlot:
			return ErrCurrentVersion
		case b.Deleted == 0:
			return ErrNotSoftDeleted
		}
		c.tx.Delete(deletedBlobsBucket, purgeKey(b.purgeAt(), c.key(b.slot)))
		c.tx.Delete(blobsBucket, c.key(b.slot))
		c.drop(&b)
		return nil
	})
	return err
}

// purgeBlobs removes deleted blobs whose retention is over.
func (s Maintenance) purgeBlobs(ctx context.Context, now time.Time) error {
	return s.sweepDue(ctx, deletedBlobsBucket, now, func(tx *store.Tx, k, _ []byte) (int64, error) {
		v := tx.Get(blobsBucket, k[8:])
		if v == nil {
			return 0, nil
		}
		var b Blob
		if err := decodeBlob(v, &b); err != nil {
			return 0, err
		}
		// The entry alone decides: each change that restores or moves a deleted record removes its entry in the same
		// transaction.
		tx.Delete(blobsBucket, k[8:])
		b.content.drop(tx)
		return b.Length, nil
	})
}
