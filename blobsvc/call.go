package blobsvc

import (
	"errors"
	"net/http"
	"net/url"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/encryption"
	"github.com/lazuli-storage/lazuli/blobsvc/internal/state"
	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// call is one request to the service: the parsed request and the resource in its path.
type call struct {
	*wire.Request
	// container and blob are decoded names; "" where the path is of a higher level.
	container, blob string
	// identity is the authenticated caller.
	identity auth.Identity
	// byLists is set if access control lists decide about the caller.
	byLists bool
	// key and sourceKey are a customer's keys, of the blob and of a copy's source; nil for none.
	key, sourceKey *encryption.CustomerKey
}

// The levels of a path.
const (
	onService   frontend.Level = "service"
	onContainer frontend.Level = "container"
	onBlob      frontend.Level = "blob"
)

// admit records the caller, and allows anonymous callers to read public containers.
// https://learn.microsoft.com/azure/storage/blobs/anonymous-read-access-configure
func (s *Service) admit(c *call, id auth.Identity, need auth.Need) error {
	c.identity = id
	if c.blob != "" && !need.Record {
		if err := c.refuseRecord(); err != nil {
			return err
		}
	}
	if id.Mechanism != auth.Anonymous {
		return c.mayLogs(need)
	}
	if c.Query.Has("versionid") { // what a blob once was is not what its owner shows to the public
		return frontend.RefuseAnonymous(c.Request)
	}
	rec, err := s.state.Containers.Get(c.Account, c.container, "", c.Now)
	if err == nil && (rec.Access == "container" || rec.Access == "blob" && need.Public == auth.PublicBlob) {
		return nil
	}
	if err != nil && !errors.Is(err, state.ErrContainerNotFound) {
		return err
	}
	return frontend.RefuseAnonymous(c.Request)
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

// setContainer reads the container's name as the path of the request has it.
func (c *call) setContainer(escaped string) (err error) {
	if c.container, err = url.PathUnescape(escaped); err != nil {
		return wire.ErrInvalidURI
	}
	return state.CheckContainerName(c.container)
}

// setBlob reads what follows the container in the path, and the headers that all requests for a blob may have. clean
// checks the name and returns its canonical form.
func (c *call) setBlob(escaped string, clean func(name string) (string, error)) error {
	name, err := url.PathUnescape(escaped)
	if err != nil {
		return wire.ErrInvalidURI
	}
	if c.blob, err = clean(name); err != nil {
		return err
	}
	if err := c.readKeys(); err != nil {
		return err
	}
	return c.refuseStructured()
}

// mayLogs refuses what callers may not do to the containers of the logs and of the change feed, which only the system
// itself makes and fills: they may read and list them, and delete logs.
// https://learn.microsoft.com/azure/storage/common/storage-analytics-logging#how-logs-are-stored
func (c *call) mayLogs(need auth.Need) error {
	switch {
	case c.container != state.LogsContainer && c.container != state.ChangeFeedContainer || c.System():
		return nil
	case c.HTTP.Method == http.MethodGet, c.HTTP.Method == http.MethodHead, need.Any == readBlob.Any:
		return nil
	case c.container == state.LogsContainer && need.Any == deleteLetters:
		return nil
	}
	return wire.ErrInsufficientAccountPermissions
}

// deleteLetters are those of which Delete Blob needs one; which depends on the kind of record.
const deleteLetters = "dx"

// before sets CORS headers, and the version of a request that has none: the version of its batch, or the default.
func (s *Service) before(r *wire.Request) {
	batched(r)
	p := s.properties.Of(r.Account)
	s.properties.SetCORS(r)
	if r.Version == 0 && p.DefaultVersion != "" {
		r.Version, _ = wire.ParseVersion(p.DefaultVersion)
	}
}

// batched gives a request of a batch the version of the batch.
func batched(r *wire.Request) {
	if outer, ok := r.HTTP.Context().Value(batchVersion{}).(*wire.Request); ok && r.VersionHeader == "" {
		r.Version, r.VersionHeader = outer.Version, outer.VersionHeader
		r.Set("x-ms-version", r.VersionHeader)
	}
}

// batchVersion is the key under which the context of a batch's request has the version of the batch: the requests
// themselves name none.
type batchVersion struct{}
