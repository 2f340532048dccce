package lakesvc

import (
	"errors"
	"net/http"
	"strings"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/endpoint"
	"github.com/lazuli-storage/lazuli/blobsvc/internal/state"
)

// In a flat account a directory is an empty blob with the mark of a folder, or only the names below it. What changes a
// directory changes the blobs below it one by one, a page a request.

// flatPage is the number of blobs that one request deletes or renames below a directory of a flat account.
const flatPage = 1000

// deleteFlat deletes a path of a flat account, and with recursive the blobs whose names begin with it, a page a
// request. The path's own blob is the first, since the conditions and the lease of the request are for that.
func (s *Service) deleteFlat(c *call, w *state.Write, recursive bool) error {
	from, err := c.Marker("continuation")
	if err != nil {
		return err
	}
	below, next, err := s.below(c, w.Container, w.Blob, from, flatPage)
	if err != nil {
		return err
	}
	if len(below) > 0 && !recursive {
		return state.ErrDirectoryNotEmpty
	}
	if from == nil {
		_, err := s.State.Blobs.Delete(w, state.IncludeSnapshots)
		if errors.Is(err, state.ErrBlobNotFound) && len(below) > 0 && w.If == (state.Preconditions{}) {
			err = nil // a directory of which only the names below it tell
		}
		if err != nil {
			return err
		}
	}
	for _, name := range below {
		one := *w
		one.Blob, one.If = name, state.Preconditions{}
		if _, err := s.State.Blobs.Delete(&one, state.IncludeSnapshots); err != nil &&
			!errors.Is(err, state.ErrBlobNotFound) {
			return err
		}
	}
	if next != nil {
		c.Set("x-ms-continuation", endpoint.EncodeMarker(next))
	}
	s.Wake()
	return c.Status(http.StatusOK)
}

// below returns the names of at most n blobs of a flat account below a path, from a token on.
func (s *Service) below(c *call, container, path string, from []byte, n int) (names []string, next []byte, err error) {
	l := state.Listing{Prefix: path + "/", Max: n, Now: c.Ticks(), From: from}
	next, err = s.State.Blobs.List(c.Account, container, &l, func(item state.Item) error {
		names = append(names, strings.Clone(item.Name))
		return nil
	})
	return names, next, err
}

// renameFlat renames a path of a flat account, which is not one change: its own blob first, since the conditions and
// the leases of the request are for that, and then the blobs below it. With a continuation token only the latter are left.
func (s *Service) renameFlat(c *call, w *state.Write, src *state.RenameSource, changes *state.RenameChanges) (
	result state.Result, err error) {
	from, err := c.Marker("continuation")
	if err != nil {
		return result, err
	}
	inside := strings.HasPrefix(w.Blob+"/", src.Blob+"/") && src.Container == w.Container
	switch {
	case src.Blob == "" || w.Blob == "" || inside && w.Blob != src.Blob:
		return result, state.ErrRenameSource
	}
	below, next, err := s.below(c, src.Container, src.Blob, from, flatPage)
	if err != nil {
		return result, err
	}
	if from == nil {
		if result, err = s.renameOwn(c, w, src, changes, len(below) > 0); err != nil {
			return result, err
		}
	}
	if inside {
		return result, nil
	}
	for _, name := range below {
		one, each := *w, *src
		one.If, each.If, each.Blob = state.Preconditions{}, state.Preconditions{}, name
		one.Blob = w.Blob + name[len(src.Blob):]
		_, err := s.State.Paths.Move(&one, &each, &state.RenameChanges{})
		if err != nil && !errors.Is(err, state.ErrRenameNotFound) {
			return result, err
		}
	}
	if next != nil {
		c.Set("x-ms-continuation", endpoint.EncodeMarker(next))
	}
	return result, nil
}

// renameOwn renames the blob of a path of a flat account. directory is set if there are blobs below the path, so that it
// may have none.
func (s *Service) renameOwn(c *call, w *state.Write, src *state.RenameSource, changes *state.RenameChanges,
	directory bool) (result state.Result, err error) {
	status := func(r state.Ref) (b state.Blob, err error) {
		err = s.State.Blobs.Status(&state.Read{Ref: r, Now: c.Now}, &b)
		return b, err
	}
	source, err := status(src.Ref)
	missing := errors.Is(err, state.ErrBlobNotFound)
	switch {
	case missing && directory && src.If == (state.Preconditions{}):
		err = nil
	case missing:
		return result, state.ErrRenameNotFound
	case err != nil:
		return result, err
	}
	directory = directory || endpoint.HasFolderMark(source.Metadata)
	if src.Only == state.Files && directory || src.Only == state.Directories && !directory {
		return result, state.ErrRenameKinds
	}
	exists := true
	if src.Ref != w.Ref {
		there, _, err := s.below(c, w.Container, w.Blob, nil, 1)
		if err != nil {
			return result, err
		}
		old, err := status(w.Ref)
		exists = err == nil
		switch {
		case err != nil && !errors.Is(err, state.ErrBlobNotFound):
			return result, err
		case directory && len(there) > 0:
			return result, state.ErrDirectoryNotEmpty
		case !directory && len(there) > 0, exists && endpoint.HasFolderMark(old.Metadata) != directory:
			return result, state.ErrRenameKinds
		}
	}
	if missing { // there is nothing that the conditions could be compared with
		if none := (state.Preconditions{}); w.If != none {
			if none.IfNoneMatch = "*"; exists || w.If != none {
				err = state.ErrConditionNotMet
			}
		}
		return result, err
	}
	if changes.Metadata != nil && endpoint.HasFolderMark(source.Metadata) {
		marked := append(*changes.Metadata, state.Meta{Name: endpoint.FolderMark, Value: "true"})
		changes = &state.RenameChanges{Metadata: &marked}
	}
	return s.State.Paths.Move(w, src, changes)
}
