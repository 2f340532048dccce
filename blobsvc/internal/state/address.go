package state

import (
	"errors"

	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// Address says which record of a blob is meant: the base blob, which is the zero value, or the snapshot or version of a
// time. At most one of the two is set.
type Address struct{ Snapshot, Version ticks.Ticks }

// IsBase reports whether a is the base blob.
func (a Address) IsBase() bool { return a == Address{} }

// get reads the record that a names. The current version is the base blob. It returns errBlobNotFound, also for a
// record that was soft-deleted or has expired.
func (a Address) get(tx *store.Tx, it item, now ticks.Ticks, b *Blob) error {
	if a.IsBase() {
		return getBlob(tx, it, baseSlot, now, b)
	}
	err := a.load(tx, it, b)
	switch {
	case err != nil:
		return err
	case b.Deleted != 0:
		*b = Blob{}
		return ErrSoftDeleted
	case b.expired(now): // it becomes a previous version when the background deletes it
		b.slot, b.Expires, b.Lease = Slot(b.Version), 0, Lease{}
	case b.IsSnapshot(): // it expires with its blob
		var base Blob
		if err := getBlob(tx, it, baseSlot, 0, &base); err == nil && base.expired(now) {
			return notFound(b)
		} else if err != nil && !errors.Is(err, ErrBlobNotFound) {
			return err
		}
	}
	return nil
}

// load reads the record that a names, also if it was soft-deleted. It fails with errBlobNotFound.
func (a Address) load(tx *store.Tx, it item, b *Blob) error {
	if a.IsBase() {
		return loadBlob(tx, it, baseSlot, b)
	}
	err := loadBlob(tx, it, Slot(max(a.Snapshot, a.Version)), b)
	if err == nil && (b.Version != 0) == (a.Version != 0) {
		return nil
	}
	if err != nil && !errors.Is(err, ErrBlobNotFound) {
		return err
	}
	if a.Version != 0 {
		if err := loadBlob(tx, it, baseSlot, b); err != nil || b.Version == a.Version {
			return err
		}
	}
	return notFound(b)
}

// notFound clears b and returns errBlobNotFound.
func notFound(b *Blob) error {
	*b = Blob{}
	return ErrBlobNotFound
}
