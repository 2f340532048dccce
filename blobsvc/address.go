package blobsvc

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/state"
	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
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

// resolve reads the path: which container, which blob. A path of one segment names a container if restype says so, and
// otherwise a blob of the root container.
// https://learn.microsoft.com/rest/api/storageservices/naming-and-referencing-containers--blobs--and-metadata
func (s *Service) resolve(r *wire.Request) (*call, frontend.Level, error) {
	c := &call{Request: r}
	if r.RawPath == "" {
		return c, onService, nil
	}
	container, rest, deeper := strings.Cut(r.RawPath[1:], "/")
	switch {
	case rest == "" && r.Restype != "":
		return c, onContainer, c.setContainer(container)
	case rest == "" && deeper:
		return c, onBlob, wire.ErrInvalidURI.With("UriPath", r.Base+r.RawPath)
	case rest == "": // a blob of the root container
		container, rest = state.RootContainer, container
	}
	if err := c.setContainer(container); err != nil {
		return c, onBlob, err
	}
	return c, onBlob, c.setBlob(rest, func(name string) (string, error) {
		name = strings.ReplaceAll(name, `\`, "/") // as Azure stores and lists it
		if s.hierarchical(c.Account) {
			return c.inTree(name)
		}
		return name, state.CheckBlobName(name)
	})
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

// The Blob endpoint of an account with a hierarchical namespace: the same operations on the same data, except for the
// features that such accounts do not have.
// https://learn.microsoft.com/azure/storage/blobs/storage-feature-support-in-storage-accounts

// errNotInTree: a feature that accounts with a hierarchical namespace do not have.
var errNotInTree = fail(http.StatusConflict, "FeatureNotYetSupportedForHierarchicalNamespaceAccounts",
	"This feature is not yet supported for hierarchical namespace accounts.")

// flatOnly are the values of comp whose operations exist in flat accounts alone.
var flatOnly = []string{"tags", "incrementalcopy", "page", "pagelist", "immutabilitypolicies", "legalhold"}

// inTree refuses what an account with a hierarchical namespace does not have, and returns the canonical form of a
// path.
func (c *call) inTree(name string) (string, error) {
	switch {
	case c.Comp == "tags": // https://github.com/Azure/azure-sdk-for-net/issues/39388
		return "", wire.InvalidQuery("comp", c.Comp, "")
	case slices.Contains(flatOnly, c.Comp), c.Header("X-Ms-Tags") != "", c.Header("X-Ms-If-Tags") != "",
		c.Comp == "" && c.HTTP.Method == put && strings.EqualFold(c.Header(blobTypeHeader), state.PageBlob.String()):
		return "", errNotInTree
	}
	if err := c.refuseVersion(); err != nil {
		return "", err
	}
	return cleanPath(name)
}
