package blobsvc

import (
	"net/http"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/state"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// errMutuallyExclusive: a request names a snapshot and a version.
var errMutuallyExclusive = fail(http.StatusBadRequest, "MutuallyExclusiveQueryParameters",
	"The specified query parameters are mutually exclusive.")

// address reads the snapshot and versionid parameters.
func (c *call) address() (a state.Address, err error) {
	if c.Query.Has("snapshot") {
		s := c.Query.Get("snapshot")
		var ok bool
		if a.Snapshot, ok = ticks.ParseISO(s); !ok {
			return a, invalidSnapshot(s)
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

func validSnapshot(s string) bool {
	_, ok := ticks.ParseISO(s)
	return ok
}

// invalidSnapshot returns the error for a snapshot parameter that is not a time.
func invalidSnapshot(s string) error {
	e := wire.ErrInvalidQueryParameterValue.With("QueryParameterName", "snapshot").With("QueryParameterValue", s)
	e.Bare = true
	return e
}

// refuseRecord refuses a snapshot or version in the URL of an operation that acts on the base blob.
func (c *call) refuseRecord() error {
	if c.Query.Has("snapshot") {
		if s := c.Query.Get("snapshot"); !validSnapshot(s) {
			return invalidSnapshot(s)
		}
		return wire.InvalidQuery("snapshot", c.Query.Get("snapshot"),
			"This operation is only allowed on the root blob. Snapshot should not be provided.")
	}
	return c.refuseVersion()
}

func (c *call) refuseVersion() error {
	if c.Query.Has("versionid") {
		return wire.InvalidQuery("versionid", c.Query.Get("versionid"),
			"This operation is only allowed on the root blob. Version id should not be provided.")
	}
	return nil
}
