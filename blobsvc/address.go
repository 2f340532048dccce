package blobsvc

import (
	"net/http"
	"slices"
	"strings"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/endpoint"
	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
)

// resolve reads the path: which container, which blob. A path of one segment names a container if restype says so, and
// otherwise a blob of the root container.
// https://learn.microsoft.com/rest/api/storageservices/naming-and-referencing-containers--blobs--and-metadata
func (s *Service) resolve(r *wire.Request) (*call, frontend.Level, error) {
	c := &call{Request: r, Storage: s.storage}
	if r.RawPath == "" {
		return c, endpoint.OnService, nil
	}
	container, rest, deeper := strings.Cut(r.RawPath[1:], "/")
	switch {
	case rest == "" && r.Restype != "":
		return c, endpoint.OnContainer, c.SetContainer(container)
	case rest == "" && deeper:
		return c, endpoint.OnBlob, wire.ErrInvalidURI.With("UriPath", r.Base+r.RawPath)
	case rest == "": // a blob of the root container
		container, rest = record.RootContainer, container
	}
	if err := c.SetContainer(container); err != nil {
		return c, endpoint.OnBlob, err
	}
	return c, endpoint.OnBlob, c.SetBlob(rest, func(name string) (string, error) {
		name = strings.ReplaceAll(name, `\`, "/") // as Azure stores and lists it
		if s.storage.Hierarchical(c.Account) {
			return inTree(c, name)
		}
		return name, record.CheckBlobName(name)
	})
}

// The Blob endpoint of an account with a hierarchical namespace: the same operations on the same data, except for the
// features that such accounts do not have.
// https://learn.microsoft.com/azure/storage/blobs/storage-feature-support-in-storage-accounts

// errNotInTree: a feature that accounts with a hierarchical namespace do not have.
var errNotInTree = endpoint.Fail(http.StatusConflict, "FeatureNotYetSupportedForHierarchicalNamespaceAccounts",
	"This feature is not yet supported for hierarchical namespace accounts.")

// flatOnly are the values of comp whose operations exist in flat accounts alone.
var flatOnly = []string{"tags", "incrementalcopy", "page", "pagelist", "immutabilitypolicies", "legalhold"}

// inTree refuses what an account with a hierarchical namespace does not have, and returns the canonical form of a
// path.
func inTree(c *call, name string) (string, error) {
	switch {
	case c.Comp == "tags": // https://github.com/Azure/azure-sdk-for-net/issues/39388
		return "", wire.InvalidQuery("comp", c.Comp, "")
	case slices.Contains(flatOnly, c.Comp), c.Header("X-Ms-Tags") != "", c.Header("X-Ms-If-Tags") != "",
		strings.EqualFold(c.Header(sourceTagOption), copyTagOption),
		c.Comp == "" && c.HTTP.Method == put && strings.EqualFold(c.Header(blobTypeHeader), record.PageBlob.String()):
		return "", errNotInTree
	}
	if err := c.RefuseVersion(); err != nil {
		return "", err
	}
	return endpoint.CleanPath(name)
}
