package record

import (
	"bytes"

	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// GetBlob reads the record in a slot. It fails with ErrBlobNotFound, also for a blob that was soft-deleted, or has
// expired at now.
func GetBlob(tx *store.Tx, it Item, slot Slot, now ticks.Ticks, b *Blob) error {
	err := LoadBlob(tx, it, slot, b)
	switch {
	case err == nil && b.Deleted != 0:
		// The caller must not see what it did not get: some look at the record after an error of this kind.
		*b = Blob{}
		return ErrSoftDeleted
	case err == nil && b.Expired(now):
		return notFound(b)
	}
	return err
}

// LoadBlob is GetBlob for soft-deleted and expired blobs as well.
func LoadBlob(tx *store.Tx, it Item, slot Slot, b *Blob) error {
	v := tx.Get(BlobsBucket, BlobKey(it, slot))
	if v == nil {
		return ErrBlobNotFound
	}
	err := DecodeBlob(v, b)
	b.Slot = slot
	return err
}

// EachSlot calls fn for all records of a blob's name, deleted or not: snapshots and versions by time, the base blob
// last. The records have no pieces.
func EachSlot(tx *store.Tx, it Item, fn func(b *Blob) (more bool, err error)) error {
	var b Blob
	scope := NamePrefix(it)
	cur := tx.Cursor(BlobsBucket)
	for k, v := cur.Seek(scope); k != nil && bytes.HasPrefix(k, scope); k, v = cur.Next() {
		_, _, slot, err := SplitBlobKey(k)
		if err == nil {
			// One Blob for all records: fn copies what it keeps.
			err = DecodeBlobHead(v, &b)
		}
		if err != nil {
			return err
		}
		b.Slot = slot
		if more, err := fn(&b); err != nil || !more {
			return err
		}
	}
	return nil
}

func PutBlob(tx *store.Tx, it Item, slot Slot, b *Blob) {
	tx.Put(BlobsBucket, BlobKey(it, slot), b.Encode())
}

// notFound clears b and returns ErrBlobNotFound.
func notFound(b *Blob) error {
	*b = Blob{}
	return ErrBlobNotFound
}
