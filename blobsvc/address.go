package blobsvc

import (
	"net/http"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// address says which record of a blob a request is about: the base blob, or the snapshot or version of a time. At most one
// of the two is set.
type address struct{ snapshot, version ticks.Ticks }

// errMutuallyExclusive: a request names a snapshot and a version.
var errMutuallyExclusive = fail(http.StatusBadRequest, "MutuallyExclusiveQueryParameters", "The specified query parameters are mutually exclusive.")

// address reads the snapshot and versionid parameters.
func (c *call) address() (a address, err error) {
	if c.Query.Has("snapshot") {
		s := c.Query.Get("snapshot")
		var ok bool
		if a.snapshot, ok = ticks.ParseISO(s); !ok {
			return a, invalidQuery("snapshot", s)
		}
	}
	if c.Query.Has("versionid") {
		if a.snapshot != 0 {
			return a, errMutuallyExclusive
		}
		s := c.Query.Get("versionid")
		var ok bool
		// All seven digits of the second are needed here, unlike in a snapshot's time.
		if a.version, ok = ticks.ParseISO(s); !ok || len(s) != len(wire.ISO7) {
			return a, invalidQuery("versionid", s)
		}
	}
	return a, nil
}

// isBase reports whether a names the blob without snapshot or version.
func (a address) isBase() bool { return a == address{} }

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
func (a address) get(tx *store.Tx, gen uint64, name string, b *blobRecord) (slot uint64, err error) {
	return a.find(tx, gen, name, b, getBlob)
}

// getAny is get for what was soft-deleted, too.
func (a address) getAny(tx *store.Tx, gen uint64, name string, b *blobRecord) (slot uint64, err error) {
	return a.find(tx, gen, name, b, getAnyBlob)
}

func (a address) find(tx *store.Tx, gen uint64, name string, b *blobRecord, read func(*store.Tx, uint64, string, uint64, *blobRecord) error) (uint64, error) {
	if a.isBase() {
		return baseSlot, read(tx, gen, name, baseSlot, b)
	}
	slot := uint64(max(a.snapshot, a.version))
	err := read(tx, gen, name, slot, b)
	if err == nil && (b.version != 0) == (a.version != 0) {
		return slot, nil
	}
	if err != nil && err != errBlobNotFound {
		return 0, err
	}
	if a.version != 0 {
		if err := read(tx, gen, name, baseSlot, b); err != nil || b.version == a.version {
			return baseSlot, err
		}
	}
	*b = blobRecord{}
	return 0, errBlobNotFound
}
