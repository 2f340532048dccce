package blob

import (
	"errors"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/state/blob/lease"
	"github.com/lazuli-storage/lazuli/internal/state/blob/listing"
	"github.com/lazuli-storage/lazuli/internal/state/blob/posix"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/state/blob/tree"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// The points at which a test can stop the process.
var (
	pointRename = fault.Declare("lake/before-rename")
	pointUnlink = fault.Declare("lake/before-unlink")
	pointDelete = fault.Declare("lake/after-unlink")
)

// RenameSource holds what a rename moves.
type RenameSource struct {
	Ref
	// If must hold for it; it has the lease of the source.
	If Preconditions
	// Into moves it below a destination that is a directory, as mv does, and does not replace the directory.
	Into bool
	// Only is the kind that it must be of.
	Only listing.Kind
	// Below permits to move what is below it as well, where each name moves by itself. Alter permits to change its
	// permissions.
	Below bool
	Alter tree.Grant
}

// RenameChanges hold what a rename changes beside the path. Nil fields stay.
type RenameChanges struct{ Metadata *[]record.Meta }

// Rename moves a file or directory to the path of w, in one transaction and at the same cost whatever is below it: its
// entry moves, and nothing else. Entity tags, leases, expiry times and uncommitted blocks stay. What is at the
// destination is replaced: a file by a file, an empty directory by a directory.
//
// https://learn.microsoft.com/rest/api/storageservices/datalakestoragegen2/path/create#rename
func (s Paths) Rename(w *Write, src *RenameSource, changes *RenameChanges) (Result, error) {
	if err := fault.Point(pointRename); err != nil {
		return Result{}, err
	}
	return s.update(w, func(c *change) error {
		from, b, err := src.load(c)
		if err != nil {
			return err
		}
		if err := c.enter(); err != nil {
			return err
		}
		if src.Into {
			if err := c.descend(from); err != nil {
				return err
			}
		}
		// A directory that moved below itself would be a cycle that no root leads to. above has the directories on the way
		// to the destination, the one that descend has added included.
		n := from.Item.Inode()
		for _, dir := range c.Above {
			if dir == n {
				return ErrRenameSource
			}
		}
		switch {
		case !c.InTree():
			return ErrNotHierarchical
		// Onto itself, which changes nothing. Two items that do not exist are not equal here, since load has found the
		// source.
		case c.Item == from.Item:
			if c.Path == "" || c.If.IfNoneMatch == "*" {
				return ErrBlobExists
			}
			c.result.Changed = b.Changed
			return nil
		case c.Path == "":
			return ErrRenameSource
		case len(c.Missing) > 0:
			return ErrRenameParent
		}
		if err := c.mayTake(src, b); err != nil {
			return err
		}
		// Before the entry of b is written: the removal of what is at the destination deletes the entry of the same key.
		held, err := c.replaceBy(b)
		if err != nil {
			return err
		}
		// The records of b have the inode in their keys and stay where they are; from here on the change is about b and no
		// longer about what it replaces.
		if err := c.Move(c.tx, c.Caller, &from, b); err != nil {
			return err
		}
		if want := c.Write.Node; want != nil {
			b.Node.Transaction = want.Transaction
			if want.Mode != nil {
				if !src.Alter.Held || !src.Alter.By.MayChmod(b.Node.Owner) {
					return record.ErrAccess
				}
				mode := *want.Mode
				if want.Umask != nil {
					mode &^= *want.Umask
				}
				b.Node.Access = b.Node.Access.Chmod(mode)
			}
		}
		if held != (lease.Lease{}) { // what is replaced stays leased (recorded: RenameAsync_DestinationConditions)
			b.Lease = held
		}
		if changes.Metadata != nil {
			if err := b.Permit(src.Caller, posix.Write); err != nil {
				return err
			}
			b.Metadata = *changes.Metadata
		}
		c.put(b)
		// After replaceBy, whose note would have cleared it. b.Changed stays, and with it the entity tag.
		c.previous.renamed = src.Container + "/" + from.Path
		c.note(record.EventRenamed, b)
		c.moved = b.IsDirectory()
		c.result.Changed = b.Changed
		return nil
	})
}

// mayTake checks the encryption of b, the source of a rename: a key that the request has must be that of the file, if
// the file has one (a test of the SDK for Go renames a file without one), and a container that enforces its scope takes
// what is in one that enforces the same.
func (c *change) mayTake(src *RenameSource, b *record.Blob) error {
	if c.Encryption.Key != nil && b.Encryption.KeySHA256 != "" {
		if err := c.unlock(b); err != nil {
			return err
		}
	}
	if src.Container == c.Container {
		return nil
	}
	to, err := record.GetContainer(c.tx, c.Account, c.Container)
	if err != nil || !to.OnlyScope {
		return err
	}
	from, err := record.GetContainer(c.tx, c.Account, src.Container)
	if err == nil && (!from.OnlyScope || from.Scope != to.Scope) {
		err = ErrContainerScope
	}
	return err
}

// descend adds the name of from to the path of the change, if that is a directory other than from.
func (c *change) descend(from tree.Place) error {
	if c.Kind != record.EntryDirectory || c.Item == from.Item {
		return nil
	}
	w := *c.Write // which the transaction that runs again sees unchanged
	w.Blob = strings.TrimPrefix(c.Path+"/"+from.Name, "/")
	if err := record.CheckBlobName(w.Blob); err != nil {
		return err
	}
	c.Write = &w
	return c.enter()
}

// load finds the source and checks its preconditions.
func (src *RenameSource) load(c *change) (from tree.Place, b *record.Blob, err error) {
	from, err = src.find(c.tx)
	switch {
	case errors.Is(err, tree.ErrPathConflict), errors.Is(err, tree.ErrPathDepth), err == nil && !from.Item.Exists():
		return from, nil, ErrRenameNotFound
	case err != nil:
		return from, nil, err
	case !from.Item.InTree():
		return from, nil, ErrNotHierarchical
	case from.Path == "":
		return from, nil, ErrRenameSource
	}
	b = new(record.Blob)
	switch err := record.GetBlob(c.tx, from.Item, record.BaseSlot, c.now, b); {
	case errors.Is(err, record.ErrBlobNotFound):
		return from, nil, ErrRenameNotFound
	case err != nil:
		return from, nil, err
	}
	if src.Only == listing.Files && b.IsDirectory() || src.Only == listing.Directories && !b.IsDirectory() {
		return from, nil, ErrRenameKinds
	}
	if err := tree.CheckUnlink(c.tx, b, src.Caller); err != nil {
		return from, nil, err
	}
	if err := src.If.checkDelete(b, c.now); err != nil {
		return from, nil, &SourceError{err}
	}
	return from, b, nil
}

// replaceBy makes room for b at the path of the change. It returns the lease of what was there.
func (c *change) replaceBy(b *record.Blob) (lease.Lease, error) {
	if !c.Item.Exists() {
		return lease.Lease{}, c.If.checkCreate()
	}
	var old record.Blob
	exists, err := c.overwritten(&old)
	if err != nil {
		return lease.Lease{}, err
	}
	if !exists {
		// Uncommitted blocks alone, or a file that overwritten found expired and deleted. The entry, if there is still one,
		// stays until Rename overwrites it with that of b.
		if c.Item.Exists() {
			c.discardBlocks()
		}
		return lease.Lease{}, c.If.checkCreate()
	}
	if !c.Rights.Overwrite {
		return lease.Lease{}, ErrOverwriteForbidden
	}
	if err := c.checkOverwrite(&old); err != nil {
		return lease.Lease{}, err
	}
	switch {
	case old.IsDirectory() != b.IsDirectory():
		return lease.Lease{}, ErrRenameKinds
	case old.IsDirectory() && tree.HasChildren(c.tx, c.Item.Inode()):
		return lease.Lease{}, ErrDirectoryNotEmpty
	}
	if err := tree.CheckUnlink(c.tx, &old, c.Caller); err != nil {
		return lease.Lease{}, err
	}
	held := old.Lease
	_, err = c.detach(&old, 0) // the event is that of the rename
	return held, err
}

// Delete deletes a file with its snapshots, or a directory: with recursive also one with entries, at the same cost
// whatever is below it. deletion is the number under which it can be restored, 0 if it cannot be.
func (s Paths) Delete(w *Write, recursive bool) (deletion uint64, err error) {
	if err := fault.Point(pointUnlink); err != nil {
		return 0, err
	}
	deleting := *w
	deleting.needs = needsRemoval
	if recursive && w.Caller.Limited() {
		if err := s.checkEmpty(&deleting); err != nil {
			return 0, err
		}
	}
	_, err = s.updateBlob(&deleting, (*Preconditions).checkDelete, func(c *change, b *record.Blob) (err error) {
		switch {
		case !c.InTree():
			return ErrNotHierarchical
		case c.Path == "":
			return tree.ErrPathConflict
		// A file or an empty directory needs no more than the permission to remove it.
		case !b.IsDirectory() || !tree.HasChildren(c.tx, c.Item.Inode()):
		case !recursive:
			return ErrDirectoryNotEmpty
		case !c.Rights.Below:
			return record.ErrAccess
		}
		// Once more, now in the transaction that deletes: what is below may have changed since checkEmpty.
		if b.IsDirectory() && c.Caller.Limited() {
			if err := c.mayEmpty(b); err != nil {
				return err
			}
		}
		if !b.IsDirectory() {
			if err := b.CheckDeletable(c.now); err != nil {
				return err
			}
		}
		c.previous.recursive = recursive && b.IsDirectory()
		deletion, err = c.detach(b, record.EventDeleted)
		return err
	})
	if err != nil {
		return 0, err
	}
	return deletion, fault.Point(pointDelete)
}

// checkEmpty fails with [record.ErrAccess] if the caller may not delete what is below a directory. It visits every
// name below, so it runs before the transaction that deletes, which other writes wait for: a caller who is refused
// holds up none.
func (s Paths) checkEmpty(w *Write) error {
	err := s.db.View(func(tx *store.Tx) error {
		c := change{Write: w, s: s.core, tx: tx, now: ticks.Of(w.Now)}
		var b record.Blob
		if err := c.enter(); err != nil {
			return err
		}
		if err := c.base(&b); err != nil || !b.IsDirectory() {
			return err
		}
		if err := c.mayChange(&b); err != nil {
			return err
		}
		return c.mayEmpty(&b)
	})
	if errors.Is(err, record.ErrAccess) {
		return err
	}
	return nil // the transaction finds out about everything else
}

// emptied is a directory that a caller empties, as far as it limits that.
type emptied struct {
	sticky bool
	owner  string
}

// mayEmpty checks that the caller may delete everything below a directory: that takes all permissions on each
// directory, and where one has the sticky bit the ownership of it or of what is in it. Only for callers that lists or
// ownership limit does the cost depend on what is below.
func (c *change) mayEmpty(b *record.Blob) error {
	if !tree.HasChildren(c.tx, c.Item.Inode()) {
		return nil
	}
	if err := b.Permit(c.Caller, posix.All); err != nil {
		return err
	}
	w := tree.Walk{Tx: c.tx, Caller: c.Caller}
	if err := w.Begin(c.Item.Inode(), "", "", ""); err != nil {
		return err
	}
	// within has the directories of the levels of the walk, the innermost last.
	within := []emptied{{b.Node.Access.Sticky, b.Node.Owner}}
	for {
		more, err := w.Next()
		if err != nil || !more {
			return err
		}
		// next has left the levels that ended, so within is cut to the same depth; its last is the directory of w.Last.
		if within = within[:w.Depth()]; within[len(within)-1].sticky {
			if err := c.mayRemove(w.Last.Inode, within[len(within)-1]); err != nil {
				return err
			}
		}
		// An empty directory is removed by the permissions on the directory that it is in, and needs none of its own.
		if w.Last.Kind != record.EntryDirectory || !tree.HasChildren(c.tx, w.Last.Inode) {
			continue
		}
		dir, err := tree.Permit(c.tx, w.Last.Inode, c.Caller, posix.All)
		if err != nil {
			return err
		}
		within = append(within, emptied{dir.Node.Access.Sticky, dir.Node.Owner})
		w.Descend = true
	}
}

// mayRemove checks that the caller may remove an entry of a directory with the sticky bit.
func (c *change) mayRemove(n record.Inode, from emptied) error {
	var b record.Blob
	switch err := record.LoadBlob(c.tx, n.Item(), record.BaseSlot, &b); {
	case errors.Is(err, record.ErrBlobNotFound): // uncommitted blocks alone, which have no owner
		return nil
	case err != nil:
		return err
	case !c.Caller.MayUnlink(b.Node.Owner, from.owner):
		return record.ErrAccess
	}
	return nil
}
