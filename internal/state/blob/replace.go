package blob

import (
	"cmp"
	"errors"

	"github.com/lazuli-storage/lazuli/internal/state/blob/lease"
	"github.com/lazuli-storage/lazuli/internal/state/blob/posix"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/state/blob/tree"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// replace writes b over the base blob, if the preconditions let it. The lease, and the creation time of a blob that
// exists, stay; snapshots and versions stay; uncommitted blocks go.
func (c *change) replace(b *record.Blob) error {
	if err := c.enter(); err != nil {
		return err
	}
	var old record.Blob
	// old is also filled for a soft-deleted blob, which does not count as existing but has the base slot.
	exists, err := c.overwritten(&old)
	if err != nil {
		return err
	}
	if exists {
		if !c.Rights.Overwrite {
			return ErrOverwriteForbidden
		}
		if err := c.mayOverwrite(&old); err != nil {
			return err
		}
		err = c.checkOverwrite(&old)
	} else {
		err = c.checkCreate(c.tx, c.Item, b, c.now)
	}
	if err != nil {
		return err
	}
	if err := c.checkReplace(&old, b, exists); err != nil {
		return err
	}
	if c.Write.Node != nil && c.Write.Node.Directory && (b.Length > 0 || b.Kind != record.BlockBlob) {
		return tree.ErrPathConflict
	}
	b.Slot = record.BaseSlot
	b.Created = c.at
	b.Changed = c.at
	if b.Tier != "" {
		b.TierChanged = c.at
	}
	if exists {
		// The check has brought old.Lease up to date. The index of tags has base blobs alone, and old leaves the base
		// slot.
		b.Lease = old.Lease
		b.Created = old.Created
		b.Node = old.Node
		if b.Kind == record.PageBlob {
			b.Replaced = c.at
		}
		c.unindexTags(&old)
		c.previous.record(&old)
	}
	// Before anything that has the item in its key: a new path of a tree has no item until it is linked. After b.Node
	// was set, by which link knows a file that exists.
	if c.InTree() {
		if err := c.link(b); err != nil {
			return err
		}
	}
	// After b has the lease of old or of the uncommitted blocks: an acquisition is judged against that.
	if c.Lease != nil {
		if b.Lease, _, err = c.Lease.Apply(b.Lease, c.now); err != nil {
			return err
		}
	}
	c.numberVersion(b)
	// The base slot is freed for b. The reference of old to its content goes with its record to a version or to a
	// deleted snapshot; only drop gives it up.
	switch {
	case exists && c.staysVersion(&old):
		c.previous.version = c.retire(old)
	// A directory has no content to keep, and only a directory replaces it.
	case old.IsDirectory():
	case old.Deleted != 0 || exists && c.Policy.RetentionDays > 0:
		c.previous.softDeleted = true
		c.previous.snapshot = c.softDeleteOverwritten(&old)
	case exists:
		c.drop(&old)
	}
	// The pieces that a block list commits are in b by now, so all uncommitted blocks of the name can go.
	c.discardBlocks()
	c.indexTags(b)
	if c.Policy.AccessTimes {
		b.Accessed = b.Changed
	}
	c.put(b)
	c.expireLater(b)
	what := record.EventCreated
	if b.Copy.Status == record.CopyPending {
		what = record.EventStarted
	}
	// A copy that is pending is only announced; its event of creation follows when the content is there.
	c.note(what, b)
	c.result = Result{Changed: b.Changed, Version: b.Version, Encryption: b.Encryption}
	return nil
}

// mayOverwrite refuses to write a file over a directory or a directory over a file, and a caller who may not write to
// old.
func (c *change) mayOverwrite(old *record.Blob) error {
	if old.Node == nil {
		return nil
	}
	if directory := c.Write.Node != nil && c.Write.Node.Directory; directory != old.Node.Directory {
		return tree.ErrPathConflict
	}
	return old.Permit(c.Caller, posix.Write)
}

// overwritten reads the base slot: an existing blob, a soft-deleted blob, or the zero value. A blob whose expiry
// time has come is deleted first.
func (c *change) overwritten(old *record.Blob) (exists bool, err error) {
	err = record.LoadBlob(c.tx, c.Item, record.BaseSlot, old)
	if err == nil && old.Expired(c.now) {
		// expire may move the record within the transaction, to a version or a marked record, or take away the item of a
		// path in a tree. So the slot is read again under the item that the change has afterwards.
		if err := c.expire(); err != nil {
			return false, err
		}
		*old = record.Blob{}
		err = record.LoadBlob(c.tx, c.Item, record.BaseSlot, old)
	}
	if errors.Is(err, record.ErrBlobNotFound) {
		return false, nil
	}
	return err == nil && old.Deleted == 0, err
}

// checkOverwrite checks the preconditions of a request that replaces old. On the dfs endpoint, which has a node for
// what it creates, the condition that nothing exists comes before the lease: Hadoop creates files so.
func (c *change) checkOverwrite(old *record.Blob) error {
	if c.Node != nil && c.If.IfNoneMatch == "*" && c.If.LeaseID == "" {
		return ErrBlobExists
	}
	return c.If.checkOverwrite(old, c.now)
}

// checkReplace refuses to replace a protected blob, to change the type of a blob, and to protect a blob in a container
// that is not enabled for it.
func (c *change) checkReplace(old, b *record.Blob, exists bool) error {
	switch {
	// The type of a blob never changes: one of another type has to be deleted before, also one that consists of
	// uncommitted blocks. https://github.com/Azure/azure-storage-blob-go/issues/273 has the request and its answer,
	// https://github.com/arafato/azurite/issues/78 is of uncommitted blocks. Trees replace files of any type.
	case exists && !c.InTree() && b.Kind != old.Kind,
		!exists && b.Kind != record.BlockBlob && c.tx.Get(record.PendingBucket, record.PendingKey(c.Item)) != nil:
		return ErrBlobType
	// An archived blob is not replaced, by blocks (https://github.com/Azure/azure-storage-azcopy/issues/993) or by Put
	// Blob: https://github.com/rclone/rclone/issues/3982 has such a request with its answer.
	case exists && old.Tier == record.ArchiveTier:
		return ErrArchived
	// What stays as a version stays protected there; anything else would be lost.
	case exists && !c.staysVersion(old):
		if err := old.CheckDeletable(c.now); err != nil {
			return err
		}
	case !exists:
		if err := c.sameTypeAsVersions(b.Kind); err != nil {
			return err
		}
	}
	if b.Protection != (record.Protection{}) {
		return c.checkProtectable()
	}
	return nil
}

// uncommittedLease returns the lease of a blob that does not exist but for uncommitted blocks.
func uncommittedLease(tx *store.Tx, it record.Item) (lease.Lease, error) {
	v := tx.Get(record.PendingBucket, record.PendingKey(it))
	if v == nil {
		return lease.Lease{}, nil
	}
	p, err := record.DecodePending(v)
	return p.Lease, err
}

// checkCreate checks the preconditions of a write of a blob that does not exist, and gives b the lease that its
// uncommitted blocks have.
func (w *Write) checkCreate(tx *store.Tx, it record.Item, b *record.Blob, now ticks.Ticks) error {
	held, err := uncommittedLease(tx, it)
	if err != nil || held == (lease.Lease{}) {
		return cmp.Or(err, w.If.checkCreate())
	}
	if err := held.CheckWrite(w.If.LeaseID, now, &lease.OfBlob); err != nil {
		return err
	}
	// The lease was checked against that of the blocks; the check for a blob that does not exist would refuse any lease
	// ID.
	unleased := w.If
	unleased.LeaseID = ""
	b.Lease = held.AfterWrite(now)
	return unleased.checkCreate()
}

// checkProtectable checks that the blobs of the container can have policies and holds.
func (c *change) checkProtectable() error {
	rec, err := record.GetContainer(c.tx, c.Account, c.Container)
	if err == nil && !rec.Immutable {
		err = ErrNotImmutable
	}
	return err
}
