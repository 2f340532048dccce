package blob

import (
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
)

// Restore restores what was deleted at a path of the container, under the path of w, which is the same in most
// requests. Missing directories above it are created. It returns the restored record.
func (s Paths) Restore(w *Write, from string, deletion uint64) (b record.Blob, err error) {
	_, err = s.update(w, func(c *change) error {
		if !c.Caller.Super() { // the lists of the place that it had are gone
			return record.ErrAccess
		}
		if err := c.enter(); err != nil {
			return err
		}
		gen, err := record.GenerationOf(c.tx, c.Account, c.Container)
		if err != nil {
			return err
		}
		if !c.InTree() {
			return ErrNotHierarchical
		}
		if c.Item.Exists() {
			return ErrPathExists
		}
		key := record.TrashKey(gen.Root(), from, deletion)
		v := c.tx.Get(record.TrashBucket, key)
		if v == nil {
			return record.ErrBlobNotFound
		}
		rec, err := record.DecodeTrash(v)
		if err != nil {
			return err
		}
		if err := record.LoadBlob(c.tx, rec.Inode.Item(), record.BaseSlot, &b); err != nil {
			return err
		}
		// In the same transaction as the new entry: an inode with both would be purged while it is in use.
		c.tx.Delete(record.TrashBucket, key)
		// link makes the missing directories, and an entry with a new inode of which nothing is stored. Take replaces that
		// one.
		if err := c.link(nil); err != nil {
			return err
		}
		c.Take(c.tx, rec.Inode, rec.Kind, &b)
		c.put(&b)
		c.previous.softDeleted = true
		c.note(record.EventCreated, &b)
		c.moved = b.IsDirectory()
		return nil
	})
	return b, err
}
