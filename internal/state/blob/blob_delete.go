package blob

import (
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/state/blob/tree"
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
	deleting.needs = needsRemoval
	w = &deleting
	check := (*Preconditions).checkDelete
	if !w.At.IsBase() { // it has no lease
		check = (*Preconditions).checkLeasing
	}
	_, err = s.updateBlob(w, check, func(c *change, b *record.Blob) error {
		if err := c.If.checkTierChange(b); err != nil {
			return err
		}
		// kept depends on the record, and the last run of the closure counts.
		kept = c.Policy.RetentionDays > 0 || c.At.IsBase() && snapshots != OnlySnapshots && c.staysVersion(b)
		if !c.At.IsBase() {
			// The version ID of the current version leads to the base slot.
			if b.Slot == record.BaseSlot {
				return ErrCurrentVersion
			}
			return c.remove(b)
		}
		if b.IsDirectory() && tree.HasChildren(c.tx, c.Item.Inode()) {
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
			return record.ErrBlobNotFound
		}
		// The trash takes the inode as it is, with its snapshots and uncommitted blocks: nothing of it is removed one by
		// one, so that a restore brings back all of it.
		if c.InTree() && c.Policy.RetentionDays > 0 && snapshots != OnlySnapshots {
			_, err := c.trash(b, record.EventDeleted)
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
		var slots []record.Slot
		err := record.EachSlot(c.tx, c.Item, func(b *record.Blob) (more bool, err error) {
			// A blob of which nothing is deleted exists as well: the request succeeds and changes nothing.
			if exists = true; b.Deleted != 0 {
				slots = append(slots, b.Slot)
			}
			return true, nil
		})
		if err != nil {
			return err
		}
		if !exists {
			return record.ErrBlobNotFound
		}
		for _, slot := range slots {
			var b record.Blob
			if err := record.LoadBlob(c.tx, c.Item, slot, &b); err != nil {
				return err
			}
			// Before the fields are cleared that the key is computed from. With the entry left in place, purgeBlobs would
			// remove the restored record at the end of the retention: it does not look at the mark.
			c.tx.Delete(record.DeletedBlobsBucket, record.PurgeKey(b.PurgeAt(), c.key(slot)))
			b.Deleted = 0
			b.KeptDays = 0
			c.put(&b)
			// In each round, since note clears it.
			c.previous.softDeleted = true
			c.note(record.EventCreated, &b)
			if slot == record.BaseSlot {
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
		var b record.Blob
		err := c.At.Load(c.tx, c.Item, &b)
		switch {
		case err != nil:
			return err
		case b.Slot == record.BaseSlot:
			return ErrCurrentVersion
		case b.Deleted == 0:
			return ErrNotSoftDeleted
		}
		c.tx.Delete(record.DeletedBlobsBucket, record.PurgeKey(b.PurgeAt(), c.key(b.Slot)))
		c.tx.Delete(record.BlobsBucket, c.key(b.Slot))
		c.drop(&b)
		return nil
	})
	return err
}
