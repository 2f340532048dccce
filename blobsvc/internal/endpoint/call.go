package endpoint

import (
	"net/http"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/state/blob/encryption"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/state/blob/tree"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// Call is one request to the service: the parsed request and the resource in its path.
type Call struct {
	*wire.Request
	*Storage
	// Container and Blob are decoded names; "" where the path is of a higher level.
	Container, Blob string
	// Identity is the authenticated caller.
	Identity auth.Identity
	// ByLists is set if access control lists decide about the caller.
	ByLists bool
	touched touched
	// Key and SourceKey are a customer's keys, of the blob and of a copy's source; nil for none.
	Key, SourceKey *encryption.CustomerKey
}

// The levels of a path.
const (
	OnService   frontend.Level = "service"
	OnContainer frontend.Level = "container"
	OnBlob      frontend.Level = "blob"
)

// RefuseVersion refuses a version in the URL of an operation that acts on the base blob.
func (c *Call) RefuseVersion() error {
	if c.Query.Has("versionid") {
		return wire.InvalidQuery("versionid", c.Query.Get("versionid"),
			"This operation is only allowed on the root blob. Version id should not be provided.")
	}
	return nil
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

// errMutuallyExclusive: a request names a snapshot and a version.
var errMutuallyExclusive = Fail(http.StatusBadRequest, "MutuallyExclusiveQueryParameters",
	"The specified query parameters are mutually exclusive.")

// Address reads the snapshot and versionid parameters.
func Address(q wire.Query) (a record.Address, err error) {
	if q.Has("snapshot") {
		s := q.Get("snapshot")
		var ok bool
		if a.Snapshot, ok = ticks.ParseISO(s); !ok {
			return a, invalidSnapshot(s)
		}
	}
	if q.Has("versionid") {
		if a.Snapshot != 0 {
			return a, errMutuallyExclusive
		}
		s := q.Get("versionid")
		var ok bool
		// All seven digits of the second are needed here, unlike in a snapshot's time.
		if a.Version, ok = ticks.ParseISO(s); !ok || len(s) != len(wire.ISO7) {
			return a, InvalidQuery("versionid", s)
		}
	}
	return a, nil
}

// Source is the second path of a request, as it was checked.
type Source struct {
	// Call is a request for the path by the caller who may use it: the caller of the request, or that of a token of the
	// path's own. Nil is a path of another service.
	*Call
	// Elsewhere is set for a blob of this server that another shard has.
	Elsewhere bool
	// Query is what followed the path in the header.
	Query string
	// Refused, if set, makes the answer to a caller who may not use the path of an error.
	Refused func(error) error
}

// touched are what the operation of a call does beyond its need, and what of it the caller may do.
type touched struct {
	declared []frontend.Touch
	sources  map[string]Source // by header
	grants   map[deedOn]tree.Grant
}

// deedOn is a deed on the path of the URL, or on the one that a header names.
type deedOn struct {
	deed   frontend.Deed
	header string
}
