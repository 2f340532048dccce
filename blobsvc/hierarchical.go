package blobsvc

import (
	"net/http"
	"slices"
	"strings"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/state"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// The Blob endpoint of an account with a hierarchical namespace: the same operations on the same data, except for the
// features that such accounts do not have.
// https://learn.microsoft.com/azure/storage/blobs/storage-feature-support-in-storage-accounts

// errNotInTree: a feature that accounts with a hierarchical namespace do not have.
var errNotInTree = fail(http.StatusConflict, "FeatureNotYetSupportedForHierarchicalNamespaceAccounts",
	"This feature is not yet supported for hierarchical namespace accounts.")

// flatOnly are the values of comp whose operations exist in flat accounts alone.
var flatOnly = []string{"tags", "incrementalcopy", "page", "pagelist", "immutabilitypolicies", "legalhold"}

// inTree refuses what an account with a hierarchical namespace does not have, and makes the path canonical.
func (c *call) inTree() (err error) {
	switch {
	case c.Comp == "tags": // https://github.com/Azure/azure-sdk-for-net/issues/39388
		return wire.InvalidQuery("comp", c.Comp, "")
	case slices.Contains(flatOnly, c.Comp), c.Header("X-Ms-Tags") != "", c.Header("X-Ms-If-Tags") != "",
		c.Comp == "" && c.HTTP.Method == put && strings.EqualFold(c.Header(blobTypeHeader), state.PageBlob.String()):
		return errNotInTree
	}
	if err := c.refuseVersion(); err != nil {
		return err
	}
	c.blob, err = cleanPath(c.blob)
	return err
}

// showDeleted lists the deleted files and directories of a container of a hierarchical account.
// https://learn.microsoft.com/rest/api/storageservices/list-blobs
func (s *Service) showDeleted(c *call) error {
	n, err := c.maxResults()
	if err != nil {
		return err
	}
	l := state.TrashListing{Prefix: c.Query.Get("prefix"), Delimiter: c.Query.Get("delimiter"), Max: n}
	if l.From, err = c.marker("marker"); err != nil {
		return err
	}
	w := blobWriter{page: newPage(), c: c, itemOptions: itemOptions{now: c.now(), version: c.version()}}
	defer w.free()
	w.begin(n)
	r := c.ref()
	next, err := s.state.ListTrash(&r, &l, w.trashed)
	if err != nil {
		return err
	}
	return w.end(next)
}

// trashed writes an item of a listing of deleted files and directories.
func (w *blobWriter) trashed(prefix string, t state.Trashed) error {
	if prefix != "" {
		return w.write(state.Item{Prefix: prefix})
	}
	w.item()
	w.raw("<Blob>")
	w.name(t.Path)
	w.int("DeletionId", int64(t.Deletion))
	w.bool("Deleted", true)
	w.raw("<Properties>")
	b := *t.Blob
	b.Deleted, b.KeptDays = t.Deleted, t.Days
	w.properties(w.page, &b)
	w.raw("</Properties>")
	if w.version >= v20190202 {
		w.raw("<OrMetadata />")
	}
	w.raw("</Blob>")
	return nil
}
