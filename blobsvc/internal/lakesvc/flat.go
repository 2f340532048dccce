package lakesvc

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/endpoint"
	state "github.com/lazuli-storage/lazuli/internal/state/blob"
	"github.com/lazuli-storage/lazuli/internal/state/blob/listing"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/state/blob/tree"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// In a flat account a directory is an empty blob with the mark of a folder, or only the names below it, which the Blob
// endpoint made. What changes a directory changes the blobs below it one by one, a page a request. Hadoop's tests have
// it that directories and files of such accounts are as in a tree: one is not created over the other, a creation makes
// the directories that are missing, and a rename wants its parent.

// flat reads the paths of a flat account at one time, that of a request.
type flat struct {
	blobs state.Blobs
	now   time.Time
}

func (s *Service) flat(c *call) flat { return flat{s.State.Blobs, c.Now} }

// status reads the record of a path.
func (f flat) status(r state.Ref, b *record.Blob) error {
	return f.blobs.Status(&state.Read{Ref: r, Now: f.now}, b)
}

// flatKind classifies a path of a flat account.
type flatKind byte

const (
	flatNothing flatKind = iota
	flatFile
	flatMarked   // a directory with a blob of its own
	flatImplicit // a directory of which only the names below it tell
)

// kindOf finds what a path of a flat account names, and its record, if it has one.
func (f flat) kindOf(r state.Ref, b *record.Blob) (flatKind, error) {
	switch err := f.status(r, b); {
	case err == nil && endpoint.HasFolderMark(b.Metadata):
		return flatMarked, nil
	case err == nil:
		return flatFile, nil
	case !errors.Is(err, record.ErrBlobNotFound):
		return flatNothing, err
	}
	below, _, err := f.below(r, nil, 1)
	if len(below) > 0 {
		return flatImplicit, err
	}
	return flatNothing, err
}

// mayCreate checks that a file or directory may be created, and returns the directories above it that
// are missing.
func (f flat) mayCreate(r state.Ref, directory bool) (missing []string, err error) {
	var b record.Blob
	kind, err := f.kindOf(r, &b)
	if err != nil {
		return nil, err
	}
	if kind != flatNothing {
		if directory != (kind != flatFile) {
			err = tree.ErrPathConflict
		}
		return nil, err
	}
	for i := strings.LastIndexByte(r.Blob, '/'); i > 0; i = strings.LastIndexByte(r.Blob, '/') {
		r.Blob = r.Blob[:i]
		switch kind, err := f.kindOf(r, &b); {
		case err != nil:
			return nil, err
		case kind == flatFile:
			return nil, tree.ErrPathConflict
		case kind == flatMarked:
			return missing, nil
		}
		missing = append(missing, r.Blob)
	}
	return missing, nil
}

// markFolders creates directories of a flat account that do not exist.
func (s *Service) markFolders(c *call, names []string) error {
	for _, name := range names {
		w := c.NewUnconditionalWrite()
		w.Blob, w.If.IfNoneMatch = name, "*"
		b := record.Blob{Kind: record.BlockBlob, Headers: record.Headers{ContentType: endpoint.DefaultType},
			Metadata: []record.Meta{{Name: endpoint.FolderMark, Value: "true"}}}
		// Another request may create the directory at the same time, which is as good.
		if _, err := s.State.Blobs.Put(&w, &b, nil); err != nil && !errors.Is(err, state.ErrBlobExists) {
			return err
		}
	}
	return nil
}

// flatPage is the number of blobs that one request deletes or renames below a directory of a flat account.
const flatPage = 1000

// deleteFlat deletes a path of a flat account, and with recursive the blobs whose names begin with it, a page a
// request. The path's own blob is the first, since the conditions and the lease of the request are for that.
func (s *Service) deleteFlat(c *call, w *state.Write, recursive bool) error {
	from, err := endpoint.Marker(c.Query, "continuation")
	if err != nil {
		return err
	}
	below, next, err := s.flat(c).below(w.Ref, from, flatPage)
	if err != nil {
		return err
	}
	if len(below) > 0 && !recursive {
		return state.ErrDirectoryNotEmpty
	}
	if len(below) > 0 && !w.Rights.Below {
		return errAccess
	}
	// Only the first page deletes the path itself: on later ones it is gone, and its conditions held.
	if from == nil {
		_, err := s.State.Blobs.Delete(w, state.IncludeSnapshots)
		if errors.Is(err, record.ErrBlobNotFound) && len(below) > 0 && w.If == (state.Preconditions{}) {
			err = nil // a directory of which only the names below it tell
		}
		if err != nil {
			return err
		}
	}
	for _, name := range below {
		// The conditions and the lease are of the path, and not of what is below it.
		one := *w
		one.Blob, one.If = name, state.Preconditions{}
		if _, err := s.State.Blobs.Delete(&one, state.IncludeSnapshots); err != nil &&
			!errors.Is(err, record.ErrBlobNotFound) {
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
func (f flat) below(r state.Ref, from []byte, n int) (names []string, next []byte, err error) {
	l := listing.Blobs{Prefix: r.Blob + "/", Max: n, Now: ticks.Of(f.now), From: from}
	next, err = f.blobs.List(r.Account, r.Container, &l, func(item listing.Item) error {
		names = append(names, strings.Clone(item.Name))
		return nil
	})
	return names, next, err
}

// renameFlat renames a path of a flat account, which is not one change: its own blob first, since the conditions and
// the leases of the request are for that, and then the blobs below it. With a continuation token, which has the
// destination as well, only the latter are left.
func (s *Service) renameFlat(c *call, w *state.Write, src *state.RenameSource, changes *state.RenameChanges) (
	result state.Result, err error) {
	token, err := endpoint.Marker(c.Query, "continuation")
	if err != nil {
		return result, err
	}
	f := s.flat(c)
	// A caller whose permission does not reach below the path can rename a file or an empty directory alone.
	if !src.Below || !w.Rights.Below {
		below, _, err := f.below(src.Ref, nil, 1)
		if err != nil {
			return result, err
		}
		if len(below) > 0 {
			return result, errAccess
		}
	}
	var from []byte
	if token == nil {
		if result, err = s.renameOwn(f, w, src, changes); err != nil || src.Container == w.Container && src.Blob == w.Blob {
			return result, err
		}
	} else {
		// The first page has decided whether the source goes below the destination. Later pages find both half renamed and
		// cannot decide it, so the token has the result. A client could change the token: no other destination is accepted,
		// and none within the source.
		to, rest, ok := strings.Cut(string(token), "\x00")
		if !ok || to != w.Blob && to != within(w.Blob, src.Blob) || strings.HasPrefix(to+"/", src.Blob+"/") {
			return result, endpoint.InvalidQuery("continuation", c.Query.Get("continuation"))
		}
		w.Blob, from = to, []byte(rest)
	}
	below, next, err := f.below(src.Ref, from, flatPage)
	if err != nil {
		return result, err
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
		c.Set("x-ms-continuation", endpoint.EncodeMarker(append([]byte(w.Blob+"\x00"), next...)))
	}
	return result, nil
}

// within is the path that a path has below a directory.
func within(dir, path string) string {
	return strings.TrimPrefix(dir+"/"+path[strings.LastIndexByte(path, '/')+1:], "/")
}

// renameOwn renames the blob of a path of a flat account, if it has one, and sets the path of w to its destination.
func (s *Service) renameOwn(f flat, w *state.Write, src *state.RenameSource, changes *state.RenameChanges) (
	result state.Result, err error) {
	var source, old record.Blob
	from, err := f.kindOf(src.Ref, &source)
	if err != nil {
		return result, err
	}
	directory := from != flatFile
	switch {
	case src.Blob == "":
		return result, state.ErrRenameSource
	case from == flatNothing, from == flatImplicit && src.If != (state.Preconditions{}):
		return result, state.ErrRenameNotFound
	case src.Only == listing.Files && directory, src.Only == listing.Directories && !directory:
		return result, state.ErrRenameKinds
	}
	// The root of a container is a directory without a blob.
	to := flatImplicit
	if w.Blob != "" {
		if to, err = f.kindOf(w.Ref, &old); err != nil {
			return result, err
		}
	}
	same := src.Container == w.Container && src.Blob == w.Blob
	if src.Into && to > flatFile && !same {
		w.Blob = within(w.Blob, src.Blob)
		same = src.Container == w.Container && src.Blob == w.Blob
		if to, err = f.kindOf(w.Ref, &old); err != nil {
			return result, err
		}
	}
	if !same {
		if err := f.mayRename(w, src, directory, to); err != nil {
			return result, err
		}
	}
	if from == flatImplicit { // there is nothing that the conditions could be compared with
		if none := (state.Preconditions{}); w.If != none {
			if none.IfNoneMatch = "*"; to != flatNothing || w.If != none {
				err = state.ErrConditionNotMet
			}
		}
		return result, err
	}
	// New metadata replaces the old, and with it the mark that makes the blob a directory.
	if changes.Metadata != nil && from == flatMarked {
		marked := append(*changes.Metadata, record.Meta{Name: endpoint.FolderMark, Value: "true"})
		changes = &state.RenameChanges{Metadata: &marked}
	}
	return s.State.Paths.Move(w, src, changes)
}

// mayRename checks the destination of a rename, which is of a kind, and its parent.
func (f flat) mayRename(w *state.Write, src *state.RenameSource, directory bool, to flatKind) error {
	switch {
	case w.Blob == "", src.Container == w.Container && strings.HasPrefix(w.Blob, src.Blob+"/"):
		return state.ErrRenameSource
	case to != flatNothing && directory != (to != flatFile):
		return state.ErrRenameKinds
	// The kinds after flatFile are the directories.
	case to > flatFile:
		below, _, err := f.below(w.Ref, nil, 1)
		if err == nil && len(below) > 0 {
			err = state.ErrDirectoryNotEmpty
		}
		return err
	}
	parent := w.Ref
	parent.Blob = w.Blob[:max(0, strings.LastIndexByte(w.Blob, '/'))]
	if parent.Blob == "" {
		return nil
	}
	var b record.Blob
	switch kind, err := f.kindOf(parent, &b); {
	case err != nil:
		return err
	case kind == flatFile:
		return tree.ErrPathConflict
	case kind == flatNothing:
		return state.ErrRenameParent
	}
	return nil
}
