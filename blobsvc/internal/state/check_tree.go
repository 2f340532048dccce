package state

import (
	"errors"
	"fmt"
	"strings"
)

// name checks an entry of a directory: directory and child exist.
func (c *checker) name(k, v []byte) error {
	parent, name, err := parseEntryKey(k)
	if err != nil {
		return err
	}
	e, err := decodeEntry(v)
	if err != nil {
		return err
	}
	if strings.Contains(name, "/") {
		return errKey
	}
	c.number(uint64(e.inode))
	// The entries of a directory that is to be removed stay until the background comes to them, whatever they lead to.
	switch removed := c.isGarbage(garbageNode, uint64(parent)); {
	case !removed && c.isGarbage(garbageNode, uint64(e.inode)):
		return fmt.Errorf("inode %d is to be removed", e.inode)
	case !removed && c.trash[e.inode]:
		return fmt.Errorf("inode %d is deleted", e.inode)
	}
	var dir, b Blob
	if err := loadBlob(c.tx, parent.item(), baseSlot, &dir); (err != nil || !dir.IsDirectory()) &&
		!c.isGarbage(garbageNode, uint64(parent)) {
		return fmt.Errorf("the directory %d does not exist", parent)
	}
	switch err := loadBlob(c.tx, e.inode.item(), baseSlot, &b); {
	case errors.Is(err, ErrBlobNotFound):
		// Only a file can have no record: one that has uncommitted blocks alone.
		if e.kind == entryDirectory || c.tx.Get(pendingBucket, pendingKey(e.inode.item())) == nil {
			return fmt.Errorf("inode %d does not exist", e.inode)
		}
	case err != nil:
		return err
	case b.IsDirectory() != (e.kind == entryDirectory):
		return fmt.Errorf("inode %d is of another kind", e.inode)
	case b.Node.parent != parent || b.Node.name != name:
		return fmt.Errorf("inode %d is elsewhere", e.inode)
	}
	return nil
}

// linked checks that the record of an inode is reachable, or is to be removed or can be restored.
func (c *checker) linked(it item, b *Blob) error {
	n := it.inode()
	switch {
	case b.slot != baseSlot:
		return nil
	case b.Node == nil || n == 0:
		return errRecord
	case b.Node.parent == 0:
		if gen := generation(n) | treeBit; c.live[gen] == "" && !c.isGarbage(garbageNode, uint64(n)) {
			return fmt.Errorf("no container has the root directory %d", n)
		}
		return nil
	}
	return c.linkedAt(n, b.Node.parent, b.Node.name)
}

// cycles finds directories that are their own ancestors.
func (c *checker) cycles() {
	good := map[inode]bool{}
	for n := range c.above {
		var passed []inode
		seen := map[inode]bool{}
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

func (c *checker) linkedAt(n, parent inode, name string) error {
	if e, ok, err := child(c.tx, parent, name); err != nil || ok && e.inode == n {
		return err
	}
	if c.trash[n] || c.isGarbage(garbageNode, uint64(n)) {
		return nil
	}
	return fmt.Errorf("inode %d has no entry %q in directory %d", n, name, parent)
}

func (c *checker) trashed(k, v []byte) error {
	if _, _, _, err := parseTrashKey(k); err != nil {
		return err
	}
	rec, err := decodeTrash(v)
	if err != nil {
		return err
	}
	c.trash[rec.inode] = true
	if c.tx.Get(blobsBucket, blobKey(rec.inode.item(), baseSlot)) == nil {
		return errors.New("what was deleted does not exist")
	}
	return nil
}
