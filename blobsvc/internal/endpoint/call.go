package endpoint

import (
	"errors"
	"net/http"
	"net/url"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/state/blob/encryption"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
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

// AdmitCaller records the caller, and allows anonymous callers to read public containers.
// https://learn.microsoft.com/azure/storage/blobs/anonymous-read-access-configure
func (c *Call) AdmitCaller(id auth.Identity, need auth.Need) error {
	c.Identity = id
	if c.Blob != "" && !need.Record {
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
	rec, err := c.State.Containers.Get(c.Account, c.Container, "", c.Now)
	if err == nil && (rec.Access == "container" || rec.Access == "blob" && need.Public == auth.PublicBlob) {
		return nil
	}
	// An anonymous caller cannot tell a private container from one that does not exist.
	if err != nil && !errors.Is(err, record.ErrContainerNotFound) {
		return err
	}
	return frontend.RefuseAnonymous(c.Request)
}

// refuseRecord refuses a snapshot or version in the URL of an operation that acts on the base blob.
func (c *Call) refuseRecord() error {
	if c.Query.Has("snapshot") {
		if s := c.Query.Get("snapshot"); !validSnapshot(s) {
			return invalidSnapshot(s)
		}
		return wire.InvalidQuery("snapshot", c.Query.Get("snapshot"),
			"This operation is only allowed on the root blob. Snapshot should not be provided.")
	}
	return c.RefuseVersion()
}

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
func (c *Call) Address() (a record.Address, err error) {
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
			return a, InvalidQuery("versionid", s)
		}
	}
	return a, nil
}

// SetContainer reads the container's name as the path of the request has it.
func (c *Call) SetContainer(escaped string) (err error) {
	if c.Container, err = url.PathUnescape(escaped); err != nil {
		return wire.ErrInvalidURI
	}
	return record.CheckContainerName(c.Container)
}

// SetBlob reads what follows the container in the path, and the headers that all requests for a blob may have. clean
// checks the name and returns its canonical form.
func (c *Call) SetBlob(escaped string, clean func(name string) (string, error)) error {
	name, err := url.PathUnescape(escaped)
	if err != nil {
		return wire.ErrInvalidURI
	}
	if c.Blob, err = clean(name); err != nil {
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
func (c *Call) mayLogs(need auth.Need) error {
	switch {
	case c.Container != record.LogsContainer && c.Container != record.ChangeFeedContainer || c.System():
		return nil
	case c.HTTP.Method == http.MethodGet, c.HTTP.Method == http.MethodHead, need.Any == ReadBlob.Any:
		return nil
	case c.Container == record.LogsContainer && need.Any == DeleteLetters:
		return nil
	}
	return wire.ErrInsufficientAccountPermissions
}

// DeleteLetters are those of which Delete Blob needs one; which depends on the kind of record.
const DeleteLetters = "dx"

// Before sets CORS headers, and the version of a request that has none: the version of its batch, or the default.
func (s *Storage) Before(r *wire.Request) {
	batched(r)
	p := s.Properties.Of(r.Account)
	s.Properties.SetCORS(r)
	if r.Version == 0 && p.DefaultVersion != "" {
		r.Version, _ = wire.ParseVersion(p.DefaultVersion)
	}
}

// batched gives a request of a batch the version of the batch.
func batched(r *wire.Request) {
	if outer, ok := r.HTTP.Context().Value(BatchVersion{}).(*wire.Request); ok && r.VersionHeader == "" {
		r.Version, r.VersionHeader = outer.Version, outer.VersionHeader
		r.Set("x-ms-version", r.VersionHeader)
	}
}

// BatchVersion is the key under which the context of a batch's request has the version of the batch: the requests
// themselves name none.
type BatchVersion struct{}
