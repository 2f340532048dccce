package state

import (
	"errors"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/posix"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// Node holds what a directory or file of a tree has beside what every blob has. It is not changed: a write stores
// another one.
type Node struct {
	// Directory is set for a directory, which is a blob without content.
	Directory bool
	// Owner and Group are object IDs, or [posix.SuperUser].
	Owner, Group string
	Access       posix.Access
	// Context is the encryption context, opaque text of the client.
	Context string
	// Implicit is set for a directory that was created because something in it was.
	Implicit bool
	// Transaction is the ID that the client gave to the creation or the last rename, "" for none: a client that repeats
	// one of them learns by it whether it was done.
	Transaction string

	// parent and name are the entry of the inode. The root directory of a container has no parent, and the container's key
	// as its name.
	parent inode
	name   string
}

// NewNode says what a request gives to the directory or file that it creates; nil gives nothing.
type NewNode struct {
	// Directory creates a directory.
	Directory bool
	// Mode and Umask are the permissions; nil are the defaults.
	Mode, Umask *posix.Mode
	// Entries is the access control list, nil for none: it excludes Mode, and only a Umask that is set limits it.
	Entries *posix.Entries
	// Owner and Group replace the caller and the group of the parent, unless they are "".
	Owner, Group         string
	Context, Transaction string
}

// IsDirectory reports whether b is a directory of a tree.
func (b *Blob) IsDirectory() bool { return b.Node != nil && b.Node.Directory }

// newNode is the node of a new item in a directory.
func (c *change) newNode(parent *Blob, name string, directory bool, want *NewNode) (*Node, error) {
	if want == nil {
		want = &NewNode{}
	}
	n := &Node{Directory: directory, Owner: want.Owner, Group: want.Group, Context: want.Context,
		Transaction: want.Transaction, name: name}
	if n.Owner == "" {
		n.Owner = c.Caller.Owner()
	}
	if n.Group == "" {
		n.Group = parent.Node.Group
	}
	mode, umask := posix.NewFile, posix.DefaultUmask
	if directory {
		mode = posix.NewDirectory
	}
	if want.Mode != nil {
		mode = *want.Mode
	}
	if want.Umask != nil {
		umask = *want.Umask
	}
	// The default list of the directory comes first, and what the request asks for is applied to the result.
	n.Access = parent.Node.Access.Child(directory, mode, umask)
	if want.Entries != nil {
		var err error
		if n.Access, err = want.Entries.Set(n.Access, directory); err != nil {
			return nil, ErrACL
		}
		if want.Umask != nil { // the default one is not for lists
			n.Access = n.Access.Chmod(n.Access.Mode() &^ umask)
		}
	}
	return n, nil
}

// newRoot is the record of the root directory of a container.
func newRoot(owner, key string) Blob {
	return Blob{Kind: BlockBlob, Node: &Node{Directory: true, Owner: owner, Group: posix.SuperUser,
		Access: posix.Of(0o750), name: key}}
}

// link gives the path of the change an item, if it has none. It creates the directories that are missing above it, and
// the node of b, the record that the caller stores; nil for uncommitted blocks without a record.
func (c *change) link(b *Blob) error {
	if c.item.exists() {
		// A path that exists needs nothing for one more block.
		if b == nil {
			return nil
		}
		// b.Node is nil for a file that has uncommitted blocks and no record so far: its node is made now, when the blocks
		// are committed, as that of a new file.
		if b.Node != nil && !c.Node.replaces() {
			return c.relink(b)
		}
		parent, err := permit(c.tx, c.parent, c.Caller, posix.Write|posix.Execute)
		if err != nil {
			return err
		}
		return c.adopt(&parent, b)
	}
	parent, err := permit(c.tx, c.parent, c.Caller, posix.Write|posix.Execute)
	if err != nil {
		return err
	}
	// The permission on the deepest directory that exists is enough: the missing ones below it are made by the same
	// caller. Each inherits from the one before.
	dir := c.parent
	for _, name := range c.missing {
		made := Blob{Kind: BlockBlob, Created: c.at, Changed: c.at, slot: baseSlot}
		// The directories on the way get the umask of the request and not its permissions.
		var want *NewNode
		if c.Node != nil {
			want = &NewNode{Umask: c.Node.Umask}
		}
		if made.Node, err = c.newNode(&parent, name, true, want); err != nil {
			return err
		}
		made.Node.parent, made.Node.Implicit = dir, true
		n := inode(nextID(c.tx))
		c.tx.Put(namesBucket, entryKey(dir, name), entry{n, entryDirectory}.encode())
		putBlob(c.tx, n.item(), baseSlot, &made)
		dir, parent = n, made
	}
	// The place is as find would return it now, for later steps of the same change.
	c.parent, c.missing = dir, nil
	n := inode(nextID(c.tx))
	c.item, c.kind = n.item(), entryFile
	if b != nil && c.Node != nil && c.Node.Directory {
		c.kind = entryDirectory
	}
	c.tx.Put(namesBucket, entryKey(dir, c.name), entry{n, c.kind}.encode())
	if b == nil {
		return nil
	}
	return c.adopt(&parent, b)
}

// relink gives b, a record that replaces another one of the item, the node that it has after the write. Put Blob and
// Copy Blob write a file whose access control list is that of a new file, with the owner and the group that it had; a
// client that wants to keep the list sets it again, as blobfuse2 does
// (https://github.com/Azure/azure-storage-fuse/blob/main/component/azstorage/datalake.go). Put Block List keeps it.
func (c *change) relink(b *Blob) error {
	// A node is not changed in place: old, which may be stored as a deleted snapshot, has the same one.
	n := *b.Node
	// A request has named the item, so it no longer exists only because of what is in it.
	n.Implicit = false
	if c.Node != nil {
		n.Transaction = c.Node.Transaction
	}
	if c.afresh && c.Node == nil && !n.Directory {
		var parent Blob
		if err := loadBlob(c.tx, c.parent.item(), baseSlot, &parent); err != nil {
			return err
		}
		n.Access = parent.Node.Access.Child(false, posix.NewFile, posix.DefaultUmask)
	}
	b.Node = &n
	return nil
}

// replaces reports whether a request gives something to a file or directory that exists.
func (n *NewNode) replaces() bool {
	return n != nil && (n.Mode != nil || n.Umask != nil || n.Entries != nil || n.Owner != "" || n.Group != "" ||
		n.Context != "")
}

// mayChown reports whether the grant is enough to give n, whose owner and group would be others, its owner and group.
func (g Grant) mayChown(owner, group string, n *Node) bool {
	return g.Held && g.By.MayChmod(owner) && g.By.MayChown(owner, n.Owner) && g.By.MayChgrp(owner, group, n.Group)
}

// mayReplaceAccess checks the permission to give a file or directory that exists, in the directory parent, what a
// request that overwrites it wants. A caller who may write a file and remove it could as well create it with other
// permissions. All else is as when the access control is changed: with a directory, it opens what is in it.
func (c *change) mayReplaceAccess(parent *Blob, old *Node, want *NewNode) error {
	n := *old
	if want.Owner != "" {
		n.Owner = want.Owner
	}
	if want.Group != "" {
		n.Group = want.Group
	}
	chowns := want.Owner != "" || want.Group != ""
	if chowns && !c.Rights.Chown.mayChown(old.Owner, old.Group, &n) {
		return ErrAccess
	}
	alters := want.Mode != nil || want.Umask != nil || want.Entries != nil
	if !alters || c.Rights.Alter.Held && c.Rights.Alter.By.MayChmod(old.Owner) {
		return nil
	}
	if old.Directory || want.Entries != nil ||
		parent.Node.Access.Sticky && !c.Caller.MayUnlink(old.Owner, parent.Node.Owner) {
		return ErrAccess
	}
	return nil
}

// adopt makes b the record of the item, in a directory.
func (c *change) adopt(parent, b *Blob) (err error) {
	old := b.Node
	if old != nil {
		if err := c.mayReplaceAccess(parent, old, c.Node); err != nil {
			return err
		}
	}
	if b.Node, err = c.newNode(parent, c.name, c.kind == entryDirectory, c.Node); err != nil {
		return err
	}
	// newNode has set the name alone.
	b.Node.parent = c.parent
	if want := c.Node; old == nil && want != nil && (want.Owner != "" || want.Group != "") &&
		!c.Rights.Chown.mayChown(c.Caller.Owner(), parent.Node.Group, b.Node) {
		return ErrAccess // the creator is the owner, and the group that of the directory
	}
	if old != nil { // what was there keeps what the request does not name
		if c.Node.Owner == "" {
			b.Node.Owner = old.Owner
		}
		if c.Node.Group == "" {
			b.Node.Group = old.Group
		}
		if c.Node.Context == "" {
			b.Node.Context = old.Context
		}
		if c.Node.Mode == nil && c.Node.Umask == nil && c.Node.Entries == nil {
			b.Node.Access = old.Access
		}
	}
	return nil
}

// unlink removes the entry of b, which is the base record.
func (c *change) unlink(b *Blob) {
	if b.Node != nil {
		c.tx.Delete(namesBucket, entryKey(b.Node.parent, b.Node.name))
	}
}

// checkUnlink checks the permission to remove the entry of b, or to move it elsewhere: that of writing to its
// directory, and in one with the sticky bit the ownership of b or of the directory.
func checkUnlink(tx *store.Tx, b *Blob, caller *posix.Caller) error {
	if b.Node == nil || !caller.Limited() {
		return nil
	}
	parent, err := permit(tx, b.Node.parent, caller, posix.Write|posix.Execute)
	if err != nil {
		return err
	}
	if parent.Node.Access.Sticky && !caller.MayUnlink(b.Node.Owner, parent.Node.Owner) {
		return ErrAccess
	}
	return nil
}

// hasChildren reports whether a directory has an entry.
func hasChildren(tx *store.Tx, n inode) bool {
	k, _ := tx.Cursor(namesBucket).Seek(setPrefix(uint64(n)))
	return len(k) > 8 && string(k[:8]) == string(setPrefix(uint64(n)))
}

// forget removes the entry of an item that has neither a record nor uncommitted blocks any more.
func forget(tx *store.Tx, it item, parent inode, name string) error {
	// Only a tree has entries; parent is 0 in the pending record of a flat container.
	if !it.inTree() || parent == 0 {
		return nil
	}
	var b Blob
	if err := loadBlob(tx, it, baseSlot, &b); !errors.Is(err, ErrBlobNotFound) {
		return err
	}
	e, ok, err := child(tx, parent, name)
	// parent and name are those of the first block. Another inode may have this entry by now, and keeps it.
	if ok && e.inode == it.inode() {
		tx.Delete(namesBucket, entryKey(parent, name))
	}
	return err
}
