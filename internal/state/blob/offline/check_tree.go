package offline

import (
	"errors"
	"fmt"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
)

// name checks an entry of a directory: directory and child exist.
func (c *checker) name(k, v []byte) error {
	parent, name, err := record.ParseEntryKey(k)
	if err != nil {
		return err
	}
	e, err := record.DecodeEntry(v)
	if err != nil {
		return err
	}
	if strings.Contains(name, "/") {
		return record.ErrKey
	}
	c.number(uint64(e.Inode))
	// The entries of a directory that is to be removed stay until the background comes to them, whatever they lead to.
	switch removed := c.isGarbage(record.GarbageNode, uint64(parent)); {
	case !removed && c.isGarbage(record.GarbageNode, uint64(e.Inode)):
		return fmt.Errorf("inode %d is to be removed", e.Inode)
	case !removed && c.trash[e.Inode]:
		return fmt.Errorf("inode %d is deleted", e.Inode)
	}
	var dir, b record.Blob
	if err := record.LoadBlob(c.tx, parent.Item(), record.BaseSlot, &dir); (err != nil || !dir.IsDirectory()) &&
		!c.isGarbage(record.GarbageNode, uint64(parent)) {
		return fmt.Errorf("the directory %d does not exist", parent)
	}
	switch err := record.LoadBlob(c.tx, e.Inode.Item(), record.BaseSlot, &b); {
	case errors.Is(err, record.ErrBlobNotFound):
		// Only a file can have no record: one that has uncommitted blocks alone.
		if e.Kind == record.EntryDirectory || c.tx.Get(record.PendingBucket, record.PendingKey(e.Inode.Item())) == nil {
			return fmt.Errorf("inode %d does not exist", e.Inode)
		}
	case err != nil:
		return err
	case b.Node == nil: // as the record of a blob that is in no tree
		return record.ErrMalformed
	case b.IsDirectory() != (e.Kind == record.EntryDirectory):
		return fmt.Errorf("inode %d is of another kind", e.Inode)
	case b.Node.Parent != parent || b.Node.Name != name:
		return fmt.Errorf("inode %d is elsewhere", e.Inode)
	}
	return nil
}

// linked checks that the record of an inode is reachable, or is to be removed or can be restored.
func (c *checker) linked(it record.Item, b *record.Blob) error {
	n := it.Inode()
	switch {
	case b.Slot != record.BaseSlot:
		return nil
	case b.Node == nil || n == 0:
		return record.ErrMalformed
	case b.Node.Parent == 0:
		if gen := record.Generation(n) | record.TreeBit; c.live[gen] == "" && !c.isGarbage(record.GarbageNode, uint64(n)) {
			return fmt.Errorf("no container has the root directory %d", n)
		}
		return nil
	}
	return c.linkedAt(n, b.Node.Parent, b.Node.Name)
}

// cycles finds directories that are their own ancestors.
func (c *checker) cycles() {
	good := map[record.Inode]bool{}
	for n := range c.above {
		var passed []record.Inode
		seen := map[record.Inode]bool{}
		// Each way up ends at a root, at a directory that is known to be good, or at one that this way has passed. All of
		// it is good afterwards, so that each directory is passed once and each cycle reported once.
		for at, ok := n, true; ok && !good[at]; at, ok = c.above[at] {
			if seen[at] {
				c.errorf("the directory %d is its own ancestor", at)
				break
			}
			seen[at] = true
			passed = append(passed, at)
		}
		for _, at := range passed {
			good[at] = true
		}
	}
}

func (c *checker) linkedAt(n, parent record.Inode, name string) error {
	if e, ok, err := record.Child(c.tx, parent, name); err != nil || ok && e.Inode == n {
		return err
	}
	if c.trash[n] || c.isGarbage(record.GarbageNode, uint64(n)) {
		return nil
	}
	return fmt.Errorf("inode %d has no entry %q in directory %d", n, name, parent)
}

func (c *checker) trashed(k, v []byte) error {
	if _, _, _, err := record.ParseTrashKey(k); err != nil {
		return err
	}
	rec, err := record.DecodeTrash(v)
	if err != nil {
		return err
	}
	if c.trash[rec.Inode] {
		return errors.New("a deleted item has two deletions")
	}
	c.trash[rec.Inode] = true
	if c.tx.Get(record.BlobsBucket, record.BlobKey(rec.Inode.Item(), record.BaseSlot)) == nil {
		return errors.New("a deleted item does not exist")
	}
	return nil
}
