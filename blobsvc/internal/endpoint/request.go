package endpoint

import (
	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/eventlog"
	state "github.com/lazuli-storage/lazuli/internal/state/blob"
	"github.com/lazuli-storage/lazuli/internal/state/blob/posix"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// Parsing of requests into the values of package state: the resource, the conditions, the rights and the settings.

// Ticks is the time of the request in ticks.
func (c *Call) Ticks() ticks.Ticks { return ticks.Of(c.Now) }

// Ref names the base blob of the request.
func (c *Call) Ref() state.Ref {
	return state.Ref{Account: c.Account, Container: c.Container, Blob: c.Blob, Caller: c.Caller()}
}

// NewUnconditionalWrite returns the parameters of a change of the blob in the request, without preconditions.
func (c *Call) NewUnconditionalWrite() state.Write {
	return state.Write{Ref: c.Ref(), Now: c.Now, Policy: c.Policy(c.Account),
		Rights:     c.touched.rights(c.Holds(OfWrites) == nil),
		Origin:     eventlog.Origin{Operation: c.Operation, RequestID: c.ID, ClientRequestID: c.ClientID, Base: c.Base},
		Encryption: state.EncryptionRequest{Key: c.Key}}
}

// NewWrite returns the parameters of a change of the blob in the request.
func (c *Call) NewWrite() (w state.Write, err error) {
	w = c.NewUnconditionalWrite()
	w.If, err = preconditions(c.Headers(), c.Identity)
	return w, err
}

// NewWriteAt is NewWrite for operations on snapshots and versions as well.
func (c *Call) NewWriteAt() (w state.Write, err error) {
	if w, err = c.NewWrite(); err != nil {
		return w, err
	}
	w.At, err = Address(c.Query)
	return w, err
}

// NewWriteExisting is NewWrite for operations that add content to a blob that exists, and may name its encryption
// scope.
func (c *Call) NewWriteExisting() (w state.Write, err error) {
	if w, err = c.NewWrite(); err != nil {
		return w, err
	}
	err = EncryptionScope(c.Headers(), c.Identity, &w.Encryption)
	return w, err
}

// NewRead returns the parameters of a read of the blob, snapshot or version in the request.
func (c *Call) NewRead() (r state.Read, err error) {
	r = state.Read{Ref: c.Ref(), Now: c.Now, Key: c.Key, Want: posix.Read}
	if r.If, err = preconditions(c.Headers(), c.Identity); err != nil {
		return r, err
	}
	r.At, err = Address(c.Query)
	return r, err
}

// preconditions reads the conditional headers, x-ms-if-tags and x-ms-lease-id.
func preconditions(h wire.Headers, by auth.Identity) (p state.Preconditions, err error) {
	p.Conditions = state.Conditions(h.Conditions())
	if p.LeaseID, err = LeaseID(h, "X-Ms-Lease-Id"); err != nil {
		return p, err
	}
	if s := h.Get("X-Ms-If-Tags"); s != "" {
		if err := by.Holds(OfTags); err != nil {
			return p, err
		}
		p.Tags, err = ParseTagCondition("x-ms-if-tags", s)
	}
	return p, err
}

// ParseTagCondition parses the value of x-ms-if-tags or x-ms-source-if-tags.
func ParseTagCondition(header, s string) (*state.TagQuery, error) {
	q, err := state.ParseTagQuery(s, true)
	if err != nil {
		return nil, wire.InvalidHeader(header, s)
	}
	return q, nil
}

// LeaseID reads a header with a lease ID, a GUID in any of its usual forms.
func LeaseID(h wire.Headers, header string) (string, error) {
	s := h.Get(header)
	if s == "" {
		return "", nil
	}
	id, ok := ParseGUID(s)
	if !ok {
		return "", wire.InvalidHeader(header, s)
	}
	return id, nil
}

// EffectiveVersion returns the version of the request. Without x-ms-version it is the latest.
func (c *Call) EffectiveVersion() wire.Version {
	if c.Version == 0 {
		return wire.LatestVersion()
	}
	return c.Version
}

// AnswerVersion returns the version whose headers the answer has. Azure answers an anonymous request without
// x-ms-version as the version in which containers became public (recorded), unless the account has a default version.
// https://learn.microsoft.com/rest/api/storageservices/versioning-for-the-azure-storage-services#requests-via-anonymous-access
func (c *Call) AnswerVersion() wire.Version {
	if c.Version == 0 && c.Identity.Mechanism == auth.Anonymous {
		return v20090919
	}
	return c.EffectiveVersion()
}

// ByVersion returns the limit, in bytes, of a version.
func ByVersion(v wire.Version, v2019, v2016, before int64) int64 {
	switch {
	case v >= wire.V20191212:
		return v2019
	case v >= V20160531:
		return v2016
	}
	return before
}

// RequestRange reads x-ms-range, or Range if that is absent. ok is false if the request names no range, or one that
// cannot be parsed: Azure answers such a read with the whole.
// https://learn.microsoft.com/rest/api/storageservices/specifying-the-range-header-for-blob-service-operations
func RequestRange(h wire.Headers) (r state.Range, ok bool) { return ParseRange(RangeHeader(h)) }

// RangeHeader is x-ms-range, or Range if that is absent.
func RangeHeader(h wire.Headers) string {
	if s := h.Get("X-Ms-Range"); s != "" {
		return s
	}
	return h.Get("Range")
}

// Service versions at which the Blob service's behaviour changes. Package wire has the versions that affect several
// services. https://learn.microsoft.com/rest/api/storageservices/previous-azure-storage-service-versions
const (
	v20090919 wire.Version = 20090919 // public containers
	V20110818 wire.Version = 20110818 // quoted entity tags, Accept-Ranges
	v20120212 wire.Version = 20120212 // states of leases
	V20160531 wire.Version = 20160531 // blocks of 100 MiB, blobs of 256 MiB in one request, the access of containers
	V20171109 wire.Version = 20171109 // the creation time of blobs, holds and policies of containers
	V20190202 wire.Version = 20190202 // CRC64, encryption scopes of containers
	V20190707 wire.Version = 20190707 // hierarchical namespaces
	V20191010 wire.Version = 20191010 // IDs of versions (recorded; the reference says 2019-12-12)
	V20191212 wire.Version = 20191212 // the kind of what exists, which Hadoop asks for
	V20200210 wire.Version = 20200210 // creation times of paths
	V20200612 wire.Version = 20200612 // owners of paths on the Blob endpoint
	V20201002 wire.Version = 20201002 // immutable storage with versioning
	V20210212 wire.Version = 20210212 // encoded names in listings
	V20201206 wire.Version = 20201206 // encryption scopes of paths
	V20210410 wire.Version = 20210410 // hashes of appended content
	V20211202 wire.Version = 20211202 // the tier Cold; Copy Blob From URL says that its content is encrypted
	V20221102 wire.Version = 20221102 // append blocks of 100 MiB
	V20230803 wire.Version = 20230803 // access control lists of paths
	V20231103 wire.Version = 20231103 // the codes of conditions of Put Blob From URL
	V20240804 wire.Version = 20240804 // the code of conditions on the destination of Copy Blob
	V20260606 wire.Version = 20260606 // the tier Smart, permission to create for Put Block
	V20261006 wire.Version = 20261006 // tiers in Get Blob, CRC64 beside MD5, listings in the Arrow format
)
