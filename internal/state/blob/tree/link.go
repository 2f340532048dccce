package tree

import (
	"github.com/lazuli-storage/lazuli/internal/state/blob/posix"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

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

// newNode is the node of a new item in a directory.
func (l *Link) newNode(parent *record.Blob, name string, directory bool, want *NewNode) (*record.Node, error) {
	if want == nil {
		want = &NewNode{}
	}
	n := &record.Node{Directory: directory, Owner: want.Owner, Group: want.Group, Context: want.Context,
		Transaction: want.Transaction, Name: name}
	if n.Owner == "" {
		n.Owner = l.Caller.Owner()
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

// Grant permits something within the limits of a caller, who is limited by lists or by ownership.
type Grant struct {
	Held bool
	By   *posix.Caller
}

// MayChown reports whether the grant is enough to give n, whose owner and group would be others, its owner and group.
func (g Grant) MayChown(owner, group string, n *record.Node) bool {
	return g.Held && g.By.MayChmod(owner) && g.By.MayChown(owner, n.Owner) && g.By.MayChgrp(owner, group, n.Group)
}

// Link gives a path an item in one transaction.
type Link struct {
	*Place
	Tx *store.Tx
	// At is the time of the change.
	At     ticks.Ticks
	Caller *posix.Caller
	// New holds the owner, permissions and other settings of the request; nil if it has none.
	New *NewNode
	// Alter permits to change the permissions and the list of what exists, Chown its owner and its group.
	Alter, Chown Grant
	// Afresh is set if a file is written as a new one, whose access control list is that of a new file.
	Afresh bool
}

// Make gives the place an item, if it has none. It creates the directories that are missing above it, and the node of
// b, the record that the caller stores; nil for uncommitted blocks without a record.
func (l *Link) Make(b *record.Blob) error {
	if l.Item.Exists() {
		// A path that exists needs nothing for one more block.
		if b == nil {
			return nil
		}
		// b.Node is nil for a file that has uncommitted blocks and no record so far: its node is made now, when the blocks
		// are committed, as that of a new file.
		if b.Node != nil && !l.New.replaces() {
			return l.relink(b)
		}
		parent, err := Permit(l.Tx, l.Parent, l.Caller, posix.Write|posix.Execute)
		if err != nil {
			return err
		}
		return l.adopt(&parent, b)
	}
	parent, err := Permit(l.Tx, l.Parent, l.Caller, posix.Write|posix.Execute)
	if err != nil {
		return err
	}
	// The permission on the deepest directory that exists is enough: the missing ones below it are made by the same
	// caller. Each inherits from the one before.
	dir := l.Parent
	for _, name := range l.Missing {
		made := record.Blob{Kind: record.BlockBlob, Created: l.At, Changed: l.At, Slot: record.BaseSlot}
		// The directories on the way get the umask of the request and not its permissions.
		var want *NewNode
		if l.New != nil {
			want = &NewNode{Umask: l.New.Umask}
		}
		if made.Node, err = l.newNode(&parent, name, true, want); err != nil {
			return err
		}
		made.Node.Parent = dir
		made.Node.Implicit = true
		n := record.Inode(record.NextID(l.Tx))
		l.Tx.Put(record.NamesBucket, record.EntryKey(dir, name), record.Entry{Inode: n, Kind: record.EntryDirectory}.Encode())
		record.PutBlob(l.Tx, n.Item(), record.BaseSlot, &made)
		dir, parent = n, made
	}
	// The place is as find would return it now, for later steps of the same change.
	l.Parent = dir
	l.Missing = nil
	n := record.Inode(record.NextID(l.Tx))
	l.Item = n.Item()
	l.Kind = record.EntryFile
	if b != nil && l.New != nil && l.New.Directory {
		l.Kind = record.EntryDirectory
	}
	l.Tx.Put(record.NamesBucket, record.EntryKey(dir, l.Name), record.Entry{Inode: n, Kind: l.Kind}.Encode())
	if b == nil {
		return nil
	}
	return l.adopt(&parent, b)
}

// relink gives b, a record that replaces another one of the item, the node that it has after the write. Put Blob and
// Copy Blob write a file whose access control list is that of a new file, with the owner and the group that it had; a
// client that wants to keep the list sets it again, as blobfuse2 does
// (https://github.com/Azure/azure-storage-fuse/blob/main/component/azstorage/datalake.go). Put Block List keeps it.
func (l *Link) relink(b *record.Blob) error {
	// A node is not changed in place: old, which may be stored as a deleted snapshot, has the same one.
	n := *b.Node
	// A request has named the item, so it no longer exists only because of what is in it.
	n.Implicit = false
	if l.New != nil {
		n.Transaction = l.New.Transaction
	}
	if l.Afresh && l.New == nil && !n.Directory {
		var parent record.Blob
		if err := record.LoadBlob(l.Tx, l.Parent.Item(), record.BaseSlot, &parent); err != nil {
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

// mayReplaceAccess checks the permission to give a file or directory that exists, in the directory parent, what a
// request that overwrites it wants. A caller who may write a file and remove it could as well create it with other
// permissions. All else is as when the access control is changed: with a directory, it opens what is in it.
func (l *Link) mayReplaceAccess(parent *record.Blob, old *record.Node, want *NewNode) error {
	n := *old
	if want.Owner != "" {
		n.Owner = want.Owner
	}
	if want.Group != "" {
		n.Group = want.Group
	}
	chowns := want.Owner != "" || want.Group != ""
	if chowns && !l.Chown.MayChown(old.Owner, old.Group, &n) {
		return record.ErrAccess
	}
	alters := want.Mode != nil || want.Umask != nil || want.Entries != nil
	if !alters || l.Alter.Held && l.Alter.By.MayChmod(old.Owner) {
		return nil
	}
	if old.Directory || want.Entries != nil ||
		parent.Node.Access.Sticky && !l.Caller.MayUnlink(old.Owner, parent.Node.Owner) {
		return record.ErrAccess
	}
	return nil
}

// adopt makes b the record of the item, in a directory.
func (l *Link) adopt(parent, b *record.Blob) (err error) {
	old := b.Node
	if old != nil {
		if err := l.mayReplaceAccess(parent, old, l.New); err != nil {
			return err
		}
	}
	if b.Node, err = l.newNode(parent, l.Name, l.Kind == record.EntryDirectory, l.New); err != nil {
		return err
	}
	// newNode has set the name alone.
	b.Node.Parent = l.Parent
	if want := l.New; old == nil && want != nil && (want.Owner != "" || want.Group != "") &&
		!l.Chown.MayChown(l.Caller.Owner(), parent.Node.Group, b.Node) {
		return record.ErrAccess // the creator is the owner, and the group that of the directory
	}
	if old != nil { // what was there keeps what the request does not name
		if l.New.Owner == "" {
			b.Node.Owner = old.Owner
		}
		if l.New.Group == "" {
			b.Node.Group = old.Group
		}
		if l.New.Context == "" {
			b.Node.Context = old.Context
		}
		if l.New.Mode == nil && l.New.Umask == nil && l.New.Entries == nil {
			b.Node.Access = old.Access
		}
	}
	return nil
}
