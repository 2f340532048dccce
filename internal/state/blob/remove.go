package blob

import (
	"github.com/lazuli-storage/lazuli/internal/state/blob/lease"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/state/blob/tree"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// remove deletes b: it stays as a previous version, or as soft-deleted, or is gone.
func (c *change) remove(b *record.Blob) error {
	if err := b.CheckDeletable(c.now); err != nil {
		return err
	}
	staysVersion := b.Slot == record.BaseSlot && c.staysVersion(b)
	// The event tells what became of the blob, so previous is complete before note, which clears it. b is noted as it
	// was before it was marked.
	c.previous.record(b)
	if c.previous.softDeleted = c.Policy.RetentionDays > 0 && !staysVersion; staysVersion {
		c.previous.version = c.retire(*b)
	}
	c.note(record.EventDeleted, b)
	if b.Slot == record.BaseSlot {
		c.unindexTags(b)
		tree.Unlink(c.tx, b)
	}
	switch {
	// retire has stored the record in the slot of its version, with the reference to the content.
	case staysVersion:
		c.tx.Delete(record.BlobsBucket, c.key(b.Slot))
	case c.Policy.RetentionDays > 0:
		b.Deleted = c.now
		b.KeptDays = c.Policy.RetentionDays
		c.storeDeleted(b)
	default:
		c.tx.Delete(record.BlobsBucket, c.key(b.Slot))
		c.drop(b)
	}
	return nil
}

// removeSlots removes the records in slots.
func (c *change) removeSlots(slots []record.Slot) error {
	for _, slot := range slots {
		var b record.Blob
		// With a time of 0 no record counts as expired: expireAll passes the slot of the expired blob itself.
		if err := record.GetBlob(c.tx, c.Item, slot, 0, &b); err != nil {
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
func (c *change) snapshots(one bool) (slots []record.Slot, err error) {
	err = record.EachSlot(c.tx, c.Item, func(b *record.Blob) (more bool, err error) {
		if b.IsSnapshot() && b.Deleted == 0 {
			slots = append(slots, b.Slot)
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

// storeDeleted stores b, which is marked as deleted, in its slot.
func (c *change) storeDeleted(b *record.Blob) {
	// A deleted blob has no lease. It does not expire, nor when it is restored.
	b.Lease = lease.Lease{}
	b.Expires = 0
	c.put(b)
	// The key has the end of the retention as it is now: a change that removes the mark or moves the
	// record computes the key from the same fields, and deletes the entry.
	c.tx.Put(record.DeletedBlobsBucket, record.PurgeKey(b.PurgeAt(), c.key(b.Slot)), []byte{record.Version})
}

// softDeleteOverwritten makes room in the base slot for a new blob: the blob that was deleted there before, or is
// overwritten now, becomes a deleted snapshot. Its time is returned.
func (c *change) softDeleteOverwritten(old *record.Blob) ticks.Ticks {
	// A blob that was deleted before keeps its retention. Its entry in the bucket of deleted blobs names the base slot,
	// where another blob will be, and goes; storeDeleted makes one for the new slot.
	if old.Deleted != 0 {
		c.tx.Delete(record.DeletedBlobsBucket, record.PurgeKey(old.PurgeAt(), c.key(record.BaseSlot)))
	} else {
		old.Deleted = c.now
		old.KeptDays = c.Policy.RetentionDays
	}
	// c.at may become the version ID of the new blob, and with it the slot that this has as a previous version.
	old.Slot = record.Slot(c.later)
	c.storeDeleted(old)
	return c.later
}

// drop gives up the content of a record that is removed.
func (c *change) drop(b *record.Blob) {
	c.freed += b.Length
	b.Content.Drop(c.tx)
}

// discardBlocks drops the uncommitted blocks of the blob.
func (c *change) discardBlocks() {
	key := record.PendingKey(c.Item)
	v := c.tx.Get(record.PendingBucket, key)
	if v == nil {
		return
	}
	c.tx.Delete(record.PendingBucket, key)
	if p, err := record.DecodePending(v); err == nil {
		p.Drop(c.tx)
	}
}

// Soft delete in a tree: a file or directory loses its entry, and a record in the trash has its inode, under the path
// and the number of the deletion. Everything below it stays as it is. A restore gives it an entry again; at the end of
// the retention the inode becomes garbage. https://learn.microsoft.com/azure/storage/blobs/soft-delete-blob-overview

// trash deletes b, the base record, so that it can be restored, and returns the number of the deletion.
func (c *change) trash(b *record.Blob, e record.EventKind) (deletion uint64, err error) {
	gen, err := record.GenerationOf(c.tx, c.Account, c.Container)
	if err != nil {
		return 0, err
	}
	// The record of b keeps its parent and name, and is not marked: the trash alone says that it is deleted. Without
	// its entry no path leads to it.
	tree.Unlink(c.tx, b)
	kind := record.EntryFile
	if b.IsDirectory() {
		kind = record.EntryDirectory
	}
	// Deletions are numbered as the service numbers them: by their times, in units of 100 ns since 1601.
	deletion = uint64(c.at - record.Epoch1601)
	rec := record.Trash{Inode: c.Item.Inode(), Kind: kind, Deleted: c.at, Days: c.Policy.RetentionDays}
	c.tx.Put(record.TrashBucket, record.TrashKey(gen.Root(), c.Path, deletion), rec.Encode())
	c.previous.record(b)
	c.previous.softDeleted = true
	c.note(e, b)
	return deletion, nil
}

// detach takes b, a file or directory with everything below it, out of the tree: it can be restored, or is left to the
// background. e is the event that tells of it, 0 for none.
func (c *change) detach(b *record.Blob, e record.EventKind) (deletion uint64, err error) {
	if c.Policy.RetentionDays > 0 {
		return c.trash(b, e)
	}
	c.previous.record(b)
	c.note(e, b)
	tree.Unlink(c.tx, b)
	// A directory can have anything below it, so the background removes it. Its size is not known; any number above 0
	// lets the next compaction look for what was freed.
	if b.IsDirectory() {
		c.freed++
		return 0, tree.Discard(c.tx, c.Item.Inode())
	}
	c.freed += b.Length
	return 0, tree.RemoveItem(c.tx, c.Item)
}
