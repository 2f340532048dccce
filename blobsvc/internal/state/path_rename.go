package state

import (
	"errors"
	"strings"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/posix"
	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// The points at which a test can stop the process.
var (
	pointRename = fault.Declare("lake/before-rename")
	pointUnlink = fault.Declare("lake/before-unlink")
	pointDelete = fault.Declare("lake/after-unlink")
	// pointCollect is between two parts of the removal of what was below a deleted directory.
	pointCollect = fault.Declare("lake/collecting")
)

// RenameSource holds what a rename moves.
type RenameSource struct {
	Ref
	// If must hold for it; it has the lease of the source.
	If Preconditions
	// Into moves it below a destination that is a directory, as mv does, and does not replace the directory.
	Into bool
	// Only is the kind that it must be of.
	Only ItemKind
	// Below permits to move what is below it as well, where each name moves by itself. Alter permits to change its
	// permissions.
	Below bool
	Alter Grant
}

// RenameChanges hold what a rename changes beside the path. Nil fields stay.
type RenameChanges struct{ Metadata *[]Meta }

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
		n := from.item.inode()
		for _, dir := range c.above {
			if dir == n {
				return ErrRenameSource
			}
		}
		switch {
		case !c.inTree():
			return ErrNotHierarchical
		// Onto itself, which changes nothing. Two items that do not exist are not equal here, since load has found the
		// source.
		case c.item == from.item:
			if c.path == "" || c.If.IfNoneMatch == "*" {
				return ErrBlobExists
			}
			c.result.Changed = b.Changed
			return nil
		case c.path == "":
			return ErrRenameSource
		case len(c.missing) > 0:
			return ErrRenameParent
		}
		if err := c.mayTake(src, b); err != nil {
			return err
		}
		// Before the entry of b is written: the removal of what is at the destination deletes the entry of the same key.
		lease, err := c.replaceBy(b)
		if err != nil {
			return err
		}
		if _, err := permit(c.tx, c.parent, c.Caller, posix.Write|posix.Execute); err != nil {
			return err
		}
		// By the node that b still has: its parent and name are those of the source.
		c.unlink(b)
		// The records of b have the inode in their keys and stay where they are; from here on the change is about b and no
		// longer about what it replaces.
		c.item, c.kind = from.item, from.kind
		c.tx.Put(namesBucket, entryKey(c.parent, c.name), entry{n, c.kind}.encode())
		// A node is not changed in place: other copies of the record may share it.
		node := *b.Node
		node.parent, node.name = c.parent, c.name
		if want := c.Write.Node; want != nil {
			node.Transaction = want.Transaction
			if want.Mode != nil {
				if !src.Alter.Held || !src.Alter.By.MayChmod(node.Owner) {
					return ErrAccess
				}
				mode := *want.Mode
				if want.Umask != nil {
					mode &^= *want.Umask
				}
				node.Access = node.Access.Chmod(mode)
			}
		}
		b.Node = &node
		if lease != (Lease{}) { // what is replaced stays leased (recorded: RenameAsync_DestinationConditions)
			b.Lease = lease
		}
		if changes.Metadata != nil {
			if err := b.permit(src.Caller, posix.Write); err != nil {
				return err
			}
			b.Metadata = *changes.Metadata
		}
		c.put(b)
		// After replaceBy, whose note would have cleared it. b.Changed stays, and with it the entity tag.
		c.previous.renamed = src.Container + "/" + from.path
		c.note(eventRenamed, b)
		c.moved = b.IsDirectory()
		c.result.Changed = b.Changed
		return nil
	})
}

// mayTake checks the encryption of b, the source of a rename: a key that the request has must be that of the file, if
// the file has one (a test of the SDK for Go renames a file without one), and a container that enforces its scope takes
// what is in one that enforces the same.
func (c *change) mayTake(src *RenameSource, b *Blob) error {
	if c.Encryption.Key != nil && b.Encryption.KeySHA256 != "" {
		if err := c.unlock(b); err != nil {
			return err
		}
	}
	if src.Container == c.Container {
		return nil
	}
	to, err := getContainer(c.tx, c.Account, c.Container)
	if err != nil || !to.OnlyScope {
		return err
	}
	from, err := getContainer(c.tx, c.Account, src.Container)
	if err == nil && (!from.OnlyScope || from.Scope != to.Scope) {
		err = ErrContainerScope
	}
	return err
}

// descend adds the name of from to the path of the change, if that is a directory other than from.
func (c *change) descend(from place) error {
	if c.kind != entryDirectory || c.item == from.item {
		return nil
	}
	w := *c.Write // which the transaction that runs again sees unchanged
	w.Blob = strings.TrimPrefix(c.path+"/"+from.name, "/")
	if err := CheckBlobName(w.Blob); err != nil {
		return err
	}
	c.Write = &w
	return c.enter()
}

// load finds the source and checks its preconditions.
func (src *RenameSource) load(c *change) (from place, b *Blob, err error) {
	from, err = src.find(c.tx)
	switch {
	case errors.Is(err, ErrPathConflict), errors.Is(err, ErrPathDepth), err == nil && !from.item.exists():
		return from, nil, ErrRenameNotFound
	case err != nil:
		return from, nil, err
	case !from.item.inTree():
		return from, nil, ErrNotHierarchical
	case from.path == "":
		return from, nil, ErrRenameSource
	}
	b = new(Blob)
	switch err := getBlob(c.tx, from.item, baseSlot, c.now, b); {
	case errors.Is(err, ErrBlobNotFound):
		return from, nil, ErrRenameNotFound
	case err != nil:
		return from, nil, err
	}
	if src.Only == Files && b.IsDirectory() || src.Only == Directories && !b.IsDirectory() {
		return from, nil, ErrRenameKinds
	}
	if err := checkUnlink(c.tx, b, src.Caller); err != nil {
		return from, nil, err
	}
	if err := src.If.checkDelete(b, c.now); err != nil {
		return from, nil, &SourceError{err}
	}
	return from, b, nil
}

// replaceBy makes room for b at the path of the change. It returns the lease of what was there.
func (c *change) replaceBy(b *Blob) (Lease, error) {
	var old Blob
	exists, err := c.overwritten(&old)
	if err != nil {
		return Lease{}, err
	}
	if !exists {
		// The entry stays until Rename overwrites it with that of b.
		if c.item.exists() { // uncommitted blocks alone
			c.discardBlocks()
		}
		return Lease{}, c.If.checkCreate()
	}
	if !c.Rights.Overwrite {
		return Lease{}, ErrOverwriteForbidden
	}
	if err := c.checkOverwrite(&old); err != nil {
		return Lease{}, err
	}
	switch {
	case old.IsDirectory() != b.IsDirectory():
		return Lease{}, ErrRenameKinds
	case old.IsDirectory() && hasChildren(c.tx, c.item.inode()):
		return Lease{}, ErrDirectoryNotEmpty
	}
	if err := checkUnlink(c.tx, &old, c.Caller); err != nil {
		return Lease{}, err
	}
	lease := old.Lease
	_, err = c.detach(&old, 0) // the event is that of the rename
	return lease, err
}

// detach takes b, a file or directory with everything below it, out of the tree: it can be restored, or is left to the
// background. e is the event that tells of it, 0 for none.
func (c *change) detach(b *Blob, e event) (deletion uint64, err error) {
	if c.Policy.RetentionDays > 0 {
		return c.trash(b, e)
	}
	c.previous.record(b)
	c.note(e, b)
	c.unlink(b)
	// A directory can have anything below it, so the background removes it. Its size is not known; any number above 0
	// lets the next compaction look for what was freed.
	if b.IsDirectory() {
		discardNode(c.tx, c.item.inode())
		c.freed++
		return 0, nil
	}
	c.freed += b.Length
	return 0, removeItem(c.tx, c.item)
}

// Delete deletes a file with its snapshots, or a directory: with recursive also one with entries, at the same cost
// whatever is below it. deletion is the number under which it can be restored, 0 if it cannot be.
func (s Paths) Delete(w *Write, recursive bool) (deletion uint64, err error) {
	if err := fault.Point(pointUnlink); err != nil {
		return 0, err
	}
	deleting := *w
	deleting.right = toDelete
	if recursive && w.Caller.Limited() {
		if err := s.checkEmpty(&deleting); err != nil {
			return 0, err
		}
	}
	_, err = s.updateBlob(&deleting, (*Preconditions).checkDelete, func(c *change, b *Blob) (err error) {
		switch {
		case !c.inTree():
			return ErrNotHierarchical
		case c.path == "":
			return ErrPathConflict
		// A file or an empty directory needs no more than the permission to remove it.
		case !b.IsDirectory() || !hasChildren(c.tx, c.item.inode()):
		case !recursive:
			return ErrDirectoryNotEmpty
		case !c.Rights.Below:
			return ErrAccess
		}
		// Once more, now in the transaction that deletes: what is below may have changed since checkEmpty.
		if b.IsDirectory() && c.Caller.Limited() {
			if err := c.mayEmpty(b); err != nil {
				return err
			}
		}
		if !b.IsDirectory() {
			if err := b.checkDeletable(c.now); err != nil {
				return err
			}
		}
		c.previous.recursive = recursive && b.IsDirectory()
		deletion, err = c.detach(b, eventDeleted)
		return err
	})
	if err != nil {
		return 0, err
	}
	return deletion, fault.Point(pointDelete)
}

// checkEmpty fails with [ErrAccess] if the caller may not delete what is below a directory. It visits every name below,
// so it runs before the transaction that deletes, which other writes wait for: a caller who is refused holds up none.
func (s Paths) checkEmpty(w *Write) error {
	err := s.db.View(func(tx *store.Tx) error {
		c := change{Write: w, s: s.core, tx: tx, now: ticks.Of(w.Now)}
		var b Blob
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
	if errors.Is(err, ErrAccess) {
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
func (c *change) mayEmpty(b *Blob) error {
	if !hasChildren(c.tx, c.item.inode()) {
		return nil
	}
	if err := b.permit(c.Caller, posix.All); err != nil {
		return err
	}
	w := treeWalk{tx: c.tx, caller: c.Caller}
	if err := w.begin(c.item.inode(), "", "", ""); err != nil {
		return err
	}
	// within has the directories of the levels of the walk, the innermost last.
	within := []emptied{{b.Node.Access.Sticky, b.Node.Owner}}
	for {
		more, err := w.next()
		if err != nil || !more {
			return err
		}
		// next has left the levels that ended, so within is cut to the same depth; its last is the directory of w.last.
		if within = within[:len(w.levels)]; within[len(within)-1].sticky {
			if err := c.mayRemove(w.last.inode, within[len(within)-1]); err != nil {
				return err
			}
		}
		// An empty directory is removed by the permissions on the directory that it is in, and needs none of its own.
		if w.last.kind != entryDirectory || !hasChildren(c.tx, w.last.inode) {
			continue
		}
		dir, err := permit(c.tx, w.last.inode, c.Caller, posix.All)
		if err != nil {
			return err
		}
		within = append(within, emptied{dir.Node.Access.Sticky, dir.Node.Owner})
		w.descend = true
	}
}

// mayRemove checks that the caller may remove an entry of a directory with the sticky bit.
func (c *change) mayRemove(n inode, from emptied) error {
	var b Blob
	switch err := loadBlob(c.tx, n.item(), baseSlot, &b); {
	case errors.Is(err, ErrBlobNotFound): // uncommitted blocks alone, which have no owner
		return nil
	case err != nil:
		return err
	case !c.Caller.MayUnlink(b.Node.Owner, from.owner):
		return ErrAccess
	}
	return nil
}
