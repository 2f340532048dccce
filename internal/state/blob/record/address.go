package record

import (
	"errors"

	"github.com/lazuli-storage/lazuli/internal/state/blob/lease"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// Address says which record of a blob is meant: the base blob, which is the zero value, or the snapshot or version of a
// time. At most one of the two is set.
type Address struct{ Snapshot, Version ticks.Ticks }

// IsBase reports whether a is the base blob.
func (a Address) IsBase() bool { return a == Address{} }

// Get reads the record that a names. The current version is the base blob. It returns ErrBlobNotFound, also for a
// record that was soft-deleted or has expired.
func (a Address) Get(tx *store.Tx, it Item, now ticks.Ticks, b *Blob) error {
	if a.IsBase() {
		return GetBlob(tx, it, BaseSlot, now, b)
	}
	err := a.Load(tx, it, b)
	switch {
	case err != nil:
		return err
	case b.Deleted != 0:
		*b = Blob{}
		return ErrSoftDeleted
	case b.Expired(now): // it becomes a previous version when the background deletes it
		b.Slot = Slot(b.Version)
		b.Expires = 0
		b.Lease = lease.Lease{}
	case b.IsSnapshot() && b.CheckDeletable(now) == nil: // it expires with its blob
		var base Blob
		if err := GetBlob(tx, it, BaseSlot, 0, &base); err == nil && base.Expired(now) {
			return notFound(b)
		} else if err != nil && !errors.Is(err, ErrBlobNotFound) {
			return err
		}
	}
	return nil
}

// Load reads the record that a names, also if it was soft-deleted. It fails with ErrBlobNotFound.
func (a Address) Load(tx *store.Tx, it Item, b *Blob) error {
	if a.IsBase() {
		return LoadBlob(tx, it, BaseSlot, b)
	}
	err := LoadBlob(tx, it, Slot(max(a.Snapshot, a.Version)), b)
	if err == nil && (b.Version != 0) == (a.Version != 0) {
		return nil
	}
	if err != nil && !errors.Is(err, ErrBlobNotFound) {
		return err
	}
	if a.Version != 0 {
		if err := LoadBlob(tx, it, BaseSlot, b); err != nil || b.Version == a.Version {
			return err
		}
	}
	return notFound(b)
}
