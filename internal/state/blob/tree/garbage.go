package tree

import (
	"bytes"
	"errors"

	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// DiscardContents leaves the contents of a container to the background.
func DiscardContents(tx *store.Tx, account string, gen record.Generation) error {
	if gen.IsTree() {
		return Discard(tx, gen.Root())
	}
	tx.Put(record.GarbageBucket, record.GarbageKey(record.GarbageContainer, uint64(gen)),
		append([]byte{record.Version}, account...))
	return nil
}

// Discard leaves an inode without an entry, and everything below it, to the background. That it is to be removed is
// stored twice.
func Discard(tx *store.Tx, n record.Inode) error {
	tx.Put(record.GarbageBucket, record.GarbageKey(record.GarbageNode, uint64(n)), []byte{record.Version})
	var b record.Blob
	switch err := record.LoadBlob(tx, n.Item(), record.BaseSlot, &b); {
	case errors.Is(err, record.ErrBlobNotFound): // uncommitted blocks alone
		return nil
	case err != nil:
		return err
	}
	// The record stays until the background comes to it. Without the mark, a repair that has lost the garbage would take
	// what is below it for files that lost their directory.
	if b.Node == nil {
		return record.ErrMalformed
	}
	b.Node.Removed = true
	record.PutBlob(tx, n.Item(), record.BaseSlot, &b)
	return nil
}

// RemoveItem removes all records of an item of a tree.
func RemoveItem(tx *store.Tx, it record.Item) error {
	scope := record.NamePrefix(it)
	var keys [][]byte
	var b record.Blob
	cur := tx.Cursor(record.BlobsBucket)
	for k, v := cur.Seek(scope); k != nil && bytes.HasPrefix(k, scope); k, v = cur.Next() {
		if err := record.DecodeBlob(v, &b); err != nil {
			return err
		}
		// The entry by which the record would be purged. Left behind, it would lead to nothing.
		if b.Deleted != 0 {
			tx.Delete(record.DeletedBlobsBucket, record.PurgeKey(b.PurgeAt(), k))
		}
		// Only this reference: a version or a copy may have the same content.
		b.Content.Drop(tx)
		keys = append(keys, bytes.Clone(k))
	}
	// After the walk, since a cursor sees the writes of its own transaction.
	for _, k := range keys {
		tx.Delete(record.BlobsBucket, k)
	}
	if v := tx.Get(record.PendingBucket, scope); v != nil {
		p, err := record.DecodePending(v)
		if err != nil {
			return err
		}
		tx.Delete(record.PendingBucket, scope)
		p.Drop(tx)
	}
	// A copy that is pending finds its record gone, and ends.
	if v := tx.Get(record.CopiesBucket, scope); v != nil {
		job, err := record.DecodeCopyJob(scope, v)
		if err != nil {
			return err
		}
		tx.Delete(record.CopiesBucket, scope)
		job.Chunks().Drop(tx)
	}
	return nil
}
