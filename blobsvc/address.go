package blobsvc

import (
	"net/http"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// Address says which record of a blob a request is about: the base blob, or the snapshot or version of a time. At most one
// of the two is set.
type Address struct{ Snapshot, Version ticks.Ticks }

// errMutuallyExclusive: a request names a snapshot and a version.
var errMutuallyExclusive = fail(http.StatusBadRequest, "MutuallyExclusiveQueryParameters", "The specified query parameters are mutually exclusive.")

// address reads the snapshot and versionid parameters.
func (c *call) address() (a Address, err error) {
	if c.Query.Has("snapshot") {
		s := c.Query.Get("snapshot")
		var ok bool
		if a.Snapshot, ok = ticks.ParseISO(s); !ok {
			return a, invalidQuery("snapshot", s)
		}
	}
	if c.Query.Has("versionid") {
		if a.Snapshot != 0 {
			return a, errMutuallyExclusive
		}
		s := c.Query.Get("versionid")
		var ok bool
		// All seven digits of the second are needed here, unlike in a snapshot's time.
		if a.Version, ok = ticks.ParseISO(s); !ok || len(s) != len(wire.ISO7) {
			return a, invalidQuery("versionid", s)
		}
	}
	return a, nil
}

// IsBase reports whether a names the blob without snapshot or version.
func (a Address) IsBase() bool { return a == Address{} }

// refuseRecord refuses a snapshot or version in the URL of an operation that acts on the base blob.
func (c *call) refuseRecord() error {
	if c.Query.Has("snapshot") {
		return wire.InvalidQuery("snapshot", c.Query.Get("snapshot"), "This operation is only allowed on the root blob. Snapshot should not be provided.")
	}
	return c.refuseVersion()
}

func (c *call) refuseVersion() error {
	if c.Query.Has("versionid") {
		return wire.InvalidQuery("versionid", c.Query.Get("versionid"), "This operation is only allowed on the root blob. Version id should not be provided.")
	}
	return nil
}

// get reads what a names, and says in which slot it is: the version that is current is the base blob. It fails with
// errBlobNotFound.
func (a Address) get(tx *store.Tx, gen uint64, name string, b *Blob) (slot uint64, err error) {
	return a.find(tx, gen, name, b, getBlob)
}

// getAny is get for what was soft-deleted, too.
func (a Address) getAny(tx *store.Tx, gen uint64, name string, b *Blob) (slot uint64, err error) {
	return a.find(tx, gen, name, b, loadBlob)
}

func (a Address) find(tx *store.Tx, gen uint64, name string, b *Blob, read func(*store.Tx, uint64, string, uint64, *Blob) error) (uint64, error) {
	if a.IsBase() {
		return baseSlot, read(tx, gen, name, baseSlot, b)
	}
	slot := uint64(max(a.Snapshot, a.Version))
	err := read(tx, gen, name, slot, b)
	if err == nil && (b.Version != 0) == (a.Version != 0) {
		return slot, nil
	}
	if err != nil && err != errBlobNotFound {
		return 0, err
	}
	if a.Version != 0 {
		if err := read(tx, gen, name, baseSlot, b); err != nil || b.Version == a.Version {
			return baseSlot, err
		}
	}
	*b = Blob{}
	return 0, errBlobNotFound
}
