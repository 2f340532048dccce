package state

import (
	"errors"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/content"
	"github.com/lazuli-storage/lazuli/blobsvc/internal/posix"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// Put writes a whole blob with the content that was uploaded. Without up the blob has no content: it is a page blob
// of zeros, or an empty append blob. blob has the properties from the request; this function sets times and versions.
func (s Blobs) Put(w *Write, blob *Blob, up *content.Upload) (Result, error) {
	return s.update(w, func(c *change) (err error) {
		b := *blob
		c.afresh = true
		if up != nil {
			b.Encryption = up.Encryption()
			b.content, b.Length = layOut(c.tx, up.Pieces(c.tx))
		} else if b.Encryption, err = c.encryption(false); err != nil {
			return err
		}
		return c.replace(&b)
	})
}

// CheckPut reports early whether a body is worth receiving: it fails as Put would if the preconditions of w do not
// hold. The transaction of Put decides.
func (s Blobs) CheckPut(w *Write) error {
	return s.db.View(func(tx *store.Tx) error {
		p, err := w.find(tx)
		if err != nil {
			return err
		}
		var b Blob
		now := ticks.Of(w.Now)
		switch err := getBlob(tx, p.item, baseSlot, now, &b); {
		case err == nil:
			return w.If.checkOverwrite(&b, now)
		case errors.Is(err, ErrBlobNotFound):
			// A lease on uncommitted blocks counts as well; the blob that receives it is that of Put, not this one.
			return w.checkCreate(tx, p.item, new(Blob), now)
		default:
			return err
		}
	})
}

// replace writes b over the base blob, if the preconditions let it. The lease, and the creation time of a blob that
// exists, stay; snapshots and versions stay; uncommitted blocks go.
func (c *change) replace(b *Blob) error {
	if err := c.enter(); err != nil {
		return err
	}
	var old Blob
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
		err = c.checkCreate(c.tx, c.item, b, c.now)
	}
	if err != nil {
		return err
	}
	if err := c.checkReplace(&old, b, exists); err != nil {
		return err
	}
	if c.Write.Node != nil && c.Write.Node.Directory && (b.Length > 0 || b.Kind != BlockBlob) {
		return ErrPathConflict
	}
	b.slot, b.Created, b.Changed = baseSlot, c.at, c.at
	if b.Tier != "" {
		b.TierChanged = c.at
	}
	if exists {
		// The check has brought old.Lease up to date. The index of tags has base blobs alone, and old leaves the base
		// slot.
		b.Lease, b.Created, b.Node = old.Lease, old.Created, old.Node
		c.unindexTags(&old)
		c.previous.record(&old)
	}
	// Before anything that has the item in its key: a new path of a tree has no item until it is linked. After b.Node
	// was set, by which link knows a file that exists.
	if c.inTree() {
		if err := c.link(b); err != nil {
			return err
		}
	}
	// After b has the lease of old or of the uncommitted blocks: an acquisition is judged against that.
	if c.Lease != nil {
		if b.Lease, _, err = c.Lease.apply(b.Lease, c.now); err != nil {
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
		c.previous.softDeleted, c.previous.snapshot = true, c.softDeleteOverwritten(&old)
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
	what := eventCreated
	if b.Copy.Status == CopyPending {
		what = eventStarted
	}
	// A copy that is pending is only announced; its event of creation follows when the content is there.
	c.note(what, b)
	c.result = Result{Changed: b.Changed, Version: b.Version, Encryption: b.Encryption}
	return nil
}

// mayOverwrite refuses to write a file over a directory or a directory over a file, and a caller who may not write to
// old.
func (c *change) mayOverwrite(old *Blob) error {
	if old.Node == nil {
		return nil
	}
	if directory := c.Write.Node != nil && c.Write.Node.Directory; directory != old.Node.Directory {
		return ErrPathConflict
	}
	return old.permit(c.Caller, posix.Write)
}

// overwritten reads the base slot: an existing blob, a soft-deleted blob, or the zero value. A blob whose expiry
// time has come is deleted first.
func (c *change) overwritten(old *Blob) (exists bool, err error) {
	err = loadBlob(c.tx, c.item, baseSlot, old)
	if err == nil && old.expired(c.now) {
		// expire may move the record within the transaction, to a version or a marked record, or take away the item of a
		// path in a tree. So the slot is read again under the item that the change has afterwards.
		if err := c.expire(); err != nil {
			return false, err
		}
		*old = Blob{}
		err = loadBlob(c.tx, c.item, baseSlot, old)
	}
	if errors.Is(err, ErrBlobNotFound) {
		return false, nil
	}
	return err == nil && old.Deleted == 0, err
}

// checkOverwrite checks the preconditions of a request that replaces old. On the dfs endpoint, which has a node for
// what it creates, the condition that nothing exists comes before the lease: Hadoop creates files so.
func (c *change) checkOverwrite(old *Blob) error {
	if c.Node != nil && c.If.IfNoneMatch == "*" && c.If.LeaseID == "" {
		return ErrBlobExists
	}
	return c.If.checkOverwrite(old, c.now)
}

// checkReplace refuses to replace a protected blob, to change the type of a blob with versions, and to protect a blob
// in a container that is not enabled for it.
func (c *change) checkReplace(old, b *Blob, exists bool) error {
	switch {
	// A blob and its previous versions are of one type. The versions of a blob that does not exist are asked below.
	case exists && c.versioning() && b.Kind != old.Kind:
		return ErrBlobType
	// What stays as a version stays protected there; anything else would be lost.
	case exists && !c.staysVersion(old):
		if err := old.checkDeletable(c.now); err != nil {
			return err
		}
	case !exists:
		if err := c.sameTypeAsVersions(b.Kind); err != nil {
			return err
		}
	}
	if b.Protection != (Protection{}) {
		return c.checkProtectable()
	}
	return nil
}

// drop gives up the content of a record that is removed.
func (c *change) drop(b *Blob) {
	c.freed += b.Length
	b.content.drop(c.tx)
}
