package endpoint

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/state/blob/tree"
)

// CleanPath is the canonical form of a path: without slashes at its ends, and with one between names.
func CleanPath(path string) (string, error) {
	if err := record.CheckBlobName(path); err != nil {
		return "", err
	}
	clean, _, err := tree.CleanPath(path)
	return clean, err
}

// FolderMark is the metadata by which the Blob endpoint marks a directory. In a flat account it is all that a directory
// is.
const FolderMark = "hdi_isfolder"

// isFolderMark reports whether m marks a directory.
func isFolderMark(m record.Meta) bool {
	return strings.EqualFold(m.Name, FolderMark) && strings.EqualFold(m.Value, "true")
}

// WithoutFolderMark removes the mark of a directory from metadata, and reports whether it was there.
func WithoutFolderMark(list []record.Meta) (own []record.Meta, folder bool) {
	for _, m := range list {
		if isFolderMark(m) {
			folder = true
		} else {
			own = append(own, m)
		}
	}
	return own, folder
}

// HasFolderMark reports whether metadata has the mark of a directory of a flat account.
func HasFolderMark(list []record.Meta) bool { return slices.ContainsFunc(list, isFolderMark) }

// SendOwner sets the headers about the access control of a path of a tree.
func (c *Call) SendOwner(b *record.Blob) {
	n := b.Node
	if n == nil {
		return
	}
	c.Set("x-ms-owner", c.NameOf(n.Owner))
	c.Set("x-ms-group", c.NameOf(n.Group))
	c.Set("x-ms-permissions", n.Access.Permissions())
}

// NameOf describes how an answer names an owner: its object ID, since no directory of users is there to ask. With
// upn=true the caller's own object ID becomes the name in its token.
func (c *Call) NameOf(id string) string {
	if p := c.Identity.Principal(); p != nil && p.Name != "" && p.ObjectID == id &&
		strings.EqualFold(c.Query.Get("upn"), "true") {
		return p.Name
	}
	return id
}

// UndeleteBlob: https://learn.microsoft.com/rest/api/storageservices/undelete-blob
func (c *Call) UndeleteBlob() error {
	if c.Hierarchical(c.Account) {
		return c.undeletePath()
	}
	w := c.NewUnconditionalWrite()
	if err := c.State.Blobs.Undelete(&w); err != nil {
		return err
	}
	return c.Status(http.StatusOK)
}

// UndeleteSource resolves the place from which a deleted path of a tree is restored, "path?deletionid=number".
func (c *Call) UndeleteSource(t *frontend.Touch) (src Source, err error) {
	if !c.Hierarchical(c.Account) {
		return src, nil // flat accounts restore what the URL names
	}
	text := c.Header(t.Source)
	path, query, _ := strings.Cut(text, "?")
	src.Query = query
	name, err := url.PathUnescape(path)
	if err == nil {
		name, err = CleanPath(name)
	}
	if err != nil {
		return src, wire.InvalidHeader(strings.ToLower(t.Source), text)
	}
	if name == "" { // the SDK for JavaScript sends the number alone: the path is where the file was
		name = c.Blob
	}
	src.Call, err = c.OfCaller(c.Container, name, t.Need)
	return src, err
}

// undeletePath restores a deleted path of a tree.
// https://learn.microsoft.com/rest/api/storageservices/undelete-blob
func (c *Call) undeletePath() error {
	text := c.Header(UndeleteHeader)
	if text == "" {
		return wire.MissingHeader("x-ms-undelete-source")
	}
	source, _ := c.Source(UndeleteHeader)
	// The ID of the deletion is the query of the source: several deleted paths may have had the name.
	values, err1 := url.ParseQuery(source.Query)
	id, err2 := strconv.ParseUint(values.Get("deletionid"), 10, 64)
	if err1 != nil || err2 != nil {
		return wire.InvalidHeader("x-ms-undelete-source", text)
	}
	// Conditions would be about the deleted path, which has no state to compare with.
	w := c.NewUnconditionalWrite()
	b, err := c.State.Paths.Restore(&w, source.Blob, id)
	if err != nil {
		return err
	}
	c.Set("x-ms-creation-time", b.Created.RFC1123())
	kind := "file"
	if b.IsDirectory() {
		kind = "directory"
	}
	c.Set("x-ms-resource-type", kind)
	return c.Status(http.StatusOK)
}
