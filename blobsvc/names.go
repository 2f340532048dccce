package blobsvc

import (
	"net/url"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// RootContainer holds the blobs that are addressed without a container.
const RootContainer = "$root"

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
			return c, onContainer, containerName(container)
		}
		// A blob of the root container.
		container, rest = RootContainer, first
	}
	c.container = container
	if err := containerName(container); err != nil {
		return c, onBlob, err
	}
	c.blob, err = url.PathUnescape(rest)
	if err != nil {
		return c, onBlob, wire.ErrInvalidURI
	}
	if err := blobName(c.blob); err != nil {
		return c, onBlob, err
	}
	if err := c.readKeys(); err != nil {
		return c, onBlob, err
	}
	return c, onBlob, c.refuseStructured()
}

// containerName checks a container's name: 3 to 63 lower-case letters, digits and hyphens, beginning and ending with a
// letter or digit, no two hyphens in a row; or one of the containers with a special meaning.
func containerName(s string) error {
	switch s {
	case RootContainer, "$logs", WebContainer, ChangeFeedContainer:
		return nil
	}
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9':
		case c == '-' && i > 0 && i < len(s)-1 && s[i-1] != '-':
		default:
			return wire.ErrInvalidResourceName
		}
	}
	if len(s) < 3 || len(s) > 63 {
		return errNameLength
	}
	return nil
}

// errNameLength: a name is shorter or longer than its kind allows.
var errNameLength = wire.ErrOutOfRangeInput.WithMessage("The specified resource name length is not within the permissible limits.")

// maxBlobName is the longest blob name in UTF-16 units, which is how Azure counts characters.
const maxBlobName = 1024

// blobName checks a decoded blob name: any characters, 1 to 1024 of them, at most 254 path segments. U+0000 has no form in
// a listing and is refused.
func blobName(s string) error {
	if !utf8.ValidString(s) || strings.IndexByte(s, 0) >= 0 {
		return wire.ErrInvalidURI
	}
	if len(s) > maxBlobName {
		units := 0
		for _, c := range s {
			units += utf16.RuneLen(c)
		}
		if units > maxBlobName {
			return errNameLength
		}
	}
	if strings.Count(s, "/") >= 254 {
		return wire.ErrInvalidURI
	}
	return nil
}
