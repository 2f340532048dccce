package blobsvc

import (
	"net/url"
	"strings"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/state"
	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// resolve reads the path: which container, which blob. A path of one segment names a container if restype says so, and
// otherwise a blob of the root container.
// https://learn.microsoft.com/rest/api/storageservices/naming-and-referencing-containers--blobs--and-metadata
func (s *Service) resolve(r *wire.Request) (*call, frontend.Level, error) {
	c := &call{Request: r}
	if r.RawPath == "" {
		return c, onService, nil
	}
	first, rest, deeper := strings.Cut(r.RawPath[1:], "/")
	container, err := url.PathUnescape(first)
	if err != nil {
		return c, onContainer, wire.ErrInvalidURI
	}
	if rest == "" {
		if deeper && r.Restype == "" {
			return c, onBlob, wire.ErrInvalidURI.With("UriPath", r.Base+r.RawPath)
		}
		if r.Restype != "" {
			c.container = container
			return c, onContainer, state.CheckContainerName(container)
		}
		// A blob of the root container.
		container, rest = state.RootContainer, first
	}
	c.container = container
	if err := state.CheckContainerName(container); err != nil {
		return c, onBlob, err
	}
	c.blob, err = url.PathUnescape(rest)
	if err != nil {
		return c, onBlob, wire.ErrInvalidURI
	}
	c.blob = strings.ReplaceAll(c.blob, `\`, "/") // as Azure stores and lists it
	if err := state.CheckBlobName(c.blob); err != nil {
		return c, onBlob, err
	}
	if s.hierarchical(c.Account) {
		if err := c.inTree(); err != nil {
			return c, onBlob, err
		}
	}
	if err := c.readKeys(); err != nil {
		return c, onBlob, err
	}
	return c, onBlob, c.refuseStructured()
}
