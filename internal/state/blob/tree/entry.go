package tree

import (
	"errors"

	"github.com/lazuli-storage/lazuli/internal/state/blob/posix"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// Unlink removes the entry of b, which is a base record.
func Unlink(tx *store.Tx, b *record.Blob) {
	if b.Node != nil {
		tx.Delete(record.NamesBucket, record.EntryKey(b.Node.Parent, b.Node.Name))
	}
}

// CheckUnlink checks the permission to remove the entry of b, or to move it elsewhere: that of writing to its
// directory, and in one with the sticky bit the ownership of b or of the directory.
func CheckUnlink(tx *store.Tx, b *record.Blob, caller *posix.Caller) error {
	if b.Node == nil || !caller.Limited() {
		return nil
	}
	parent, err := Permit(tx, b.Node.Parent, caller, posix.Write|posix.Execute)
	if err != nil {
		return err
	}
	if parent.Node.Access.Sticky && !caller.MayUnlink(b.Node.Owner, parent.Node.Owner) {
		return record.ErrAccess
	}
	return nil
}

// HasChildren reports whether a directory has an entry.
func HasChildren(tx *store.Tx, n record.Inode) bool {
	k, _ := tx.Cursor(record.NamesBucket).Seek(record.IDPrefix(uint64(n)))
	return len(k) > 8 && string(k[:8]) == string(record.IDPrefix(uint64(n)))
}

// Forget removes the entry of an item that has neither a record nor uncommitted blocks any more.
func Forget(tx *store.Tx, it record.Item, parent record.Inode, name string) error {
	// Only a tree has entries; parent is 0 in the pending record of a flat container.
	if !it.InTree() || parent == 0 {
		return nil
	}
	var b record.Blob
	if err := record.LoadBlob(tx, it, record.BaseSlot, &b); !errors.Is(err, record.ErrBlobNotFound) {
		return err
	}
	e, ok, err := record.Child(tx, parent, name)
	// parent and name are those of the first block. Another inode may have this entry by now, and keeps it.
	if ok && e.Inode == it.Inode() {
		tx.Delete(record.NamesBucket, record.EntryKey(parent, name))
	}
	return err
}

// Move moves the entry of b, the record of what is at another place, to this one, whose directory exists. Nothing else
// has to change, whatever is below it. It fails with [record.ErrAccess] if the caller may not write to the directory;
// that it may leave the other was checked by [CheckUnlink]. The caller stores b.
func (p *Place) Move(tx *store.Tx, caller *posix.Caller, from *Place, b *record.Blob) error {
	if _, err := Permit(tx, p.Parent, caller, posix.Write|posix.Execute); err != nil {
		return err
	}
	// In this order: Unlink goes by the node that b still has, whose parent and name are those of the old place.
	Unlink(tx, b)
	p.Take(tx, from.Item.Inode(), from.Kind, b)
	return nil
}

// Take gives an inode the entry of the place, which has its new parent, and b, its record, the node that says so. An
// inode that has an entry is moved instead.
func (p *Place) Take(tx *store.Tx, n record.Inode, kind byte, b *record.Blob) {
	p.Item = n.Item()
	p.Kind = kind
	tx.Put(record.NamesBucket, record.EntryKey(p.Parent, p.Name), record.Entry{Inode: n, Kind: kind}.Encode())
	// A node is not changed in place: other copies of the record may share it.
	node := *b.Node
	node.Parent = p.Parent
	node.Name = p.Name
	b.Node = &node
}
