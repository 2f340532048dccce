package blobsvc

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/state"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// cleanPath is the canonical form of a path: without slashes at its ends, and with one between names.
func cleanPath(path string) (string, error) {
	if err := state.CheckBlobName(path); err != nil {
		return "", err
	}
	clean, _, err := state.CleanPath(path)
	return clean, err
}

// folderMark is the metadata by which the Blob endpoint marks a directory. In a flat account it is all that a directory
// is.
const folderMark = "hdi_isfolder"

// isFolderMark reports whether m marks a directory.
func isFolderMark(m state.Meta) bool {
	return strings.EqualFold(m.Name, folderMark) && strings.EqualFold(m.Value, "true")
}

// withoutFolderMark removes the mark of a directory from metadata, and reports whether it was there.
func withoutFolderMark(list []state.Meta) (own []state.Meta, folder bool) {
	for _, m := range list {
		if isFolderMark(m) {
			folder = true
		} else {
			own = append(own, m)
		}
	}
	return own, folder
}

// hasFolderMark reports whether metadata has the mark of a directory of a flat account.
func hasFolderMark(list []state.Meta) bool { return slices.ContainsFunc(list, isFolderMark) }

// sendOwner sets the headers about the access control of a path of a tree.
func (c *call) sendOwner(b *state.Blob) {
	n := b.Node
	if n == nil {
		return
	}
	c.Set("x-ms-owner", c.nameOf(n.Owner))
	c.Set("x-ms-group", c.nameOf(n.Group))
	c.Set("x-ms-permissions", n.Access.Permissions())
}

// nameOf describes how an answer names an owner: its object ID, since no directory of users is there to ask. With
// upn=true the caller's own object ID becomes the name in its token.
func (c *call) nameOf(id string) string {
	if p := c.identity.Principal(); p != nil && p.Name != "" && p.ObjectID == id &&
		strings.EqualFold(c.Query.Get("upn"), "true") {
		return p.Name
	}
	return id
}

// undeleteBlob: https://learn.microsoft.com/rest/api/storageservices/undelete-blob
func (s *Service) undeleteBlob(c *call) error {
	if s.hierarchical(c.Account) {
		return s.undeletePath(c)
	}
	w := s.unconditional(c)
	if err := s.state.Blobs.Undelete(&w); err != nil {
		return err
	}
	return c.Status(http.StatusOK)
}

// undeletePath restores a deleted path of a tree.
// https://learn.microsoft.com/rest/api/storageservices/undelete-blob
func (s *Service) undeletePath(c *call) error {
	text := c.Header("X-Ms-Undelete-Source")
	if text == "" {
		return wire.MissingHeader("x-ms-undelete-source")
	}
	path, query, _ := strings.Cut(text, "?")
	values, err1 := url.ParseQuery(query)
	source, err2 := url.PathUnescape(path)
	id, err3 := strconv.ParseUint(values.Get("deletionid"), 10, 64)
	if err1 != nil || err2 != nil || err3 != nil {
		return wire.InvalidHeader("x-ms-undelete-source", text)
	}
	source, err := cleanPath(source)
	if err != nil {
		return wire.InvalidHeader("x-ms-undelete-source", text)
	}
	if source == "" { // the SDK for JavaScript sends the number alone: the path is where the file was
		source = c.blob
	}
	w := s.unconditional(c)
	b, err := s.state.Paths.Restore(&w, source, id)
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
