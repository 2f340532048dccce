package blobsvc

import (
	"encoding/base64"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/encryption"
	"github.com/lazuli-storage/lazuli/blobsvc/internal/state"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// pathItem is an item of List Paths, in the order of the service's own documents.
type pathItem struct {
	Scope        string `json:"EncryptionScope,omitempty"`
	KeySHA256    string `json:"CustomerProvidedKeySha256,omitempty"`
	Length       string `json:"contentLength,omitempty"`
	Created      string `json:"creationTime,omitempty"`
	Context      string `json:"EncryptionContext,omitempty"`
	ETag         string `json:"etag"`
	Expires      string `json:"expiryTime,omitempty"`
	Group        string `json:"group,omitempty"`
	Directory    string `json:"isDirectory,omitempty"`
	LastModified string `json:"lastModified"`
	Name         string `json:"name"`
	Owner        string `json:"owner,omitempty"`
	Permissions  string `json:"permissions,omitempty"`
}

// fileTime is a time as Windows counts it: units of 100 ns since 1601.
func fileTime(t ticks.Ticks) string { return strconv.FormatInt(t.FileTime(), 10) }

// listPaths: https://learn.microsoft.com/rest/api/storageservices/datalakestoragegen2/path/list
func (s *Service) listPaths(c *call) error {
	n, err := c.maxResults()
	if err != nil {
		return err
	}
	if c.Query.Get("recursive") == "" {
		return wire.MissingQuery("recursive")
	}
	recursive, err := c.boolQuery("recursive")
	if err != nil {
		return err
	}
	if err := c.upn(); err != nil {
		return err
	}
	directory, err := cleanPath(c.Query.Get("directory"))
	if err != nil {
		return invalidQuery("directory", c.Query.Get("directory"))
	}
	tree := s.hierarchical(c.Account)
	l := state.Listing{Now: c.now(), Max: n, Caller: c.caller(), Paths: tree, Directory: directory}
	if !recursive {
		l.Delimiter = "/"
	}
	prefix := directory
	if prefix != "" {
		prefix += "/"
	}
	if !tree {
		l.Prefix = prefix
	}
	if from := c.Query.Get("beginfrom"); from != "" {
		l.From = []byte(prefix + strings.TrimPrefix(from, prefix))
	}
	if name, ok := nameInToken(c.Query.Get("continuation")); ok && tree {
		l.From = []byte(prefix + name)
	} else if token, err := c.marker("continuation"); err != nil {
		return err
	} else if token != nil {
		l.From = token
	}
	doc := struct {
		Paths []pathItem `json:"paths"`
	}{Paths: []pathItem{}}
	next, err := s.state.ListBlobs(c.Account, c.container, &l, func(item state.Item) error {
		doc.Paths = append(doc.Paths, c.pathItem(&item))
		return nil
	})
	if err != nil {
		return err
	}
	if !tree && !recursive { // a directory that has a blob of its own was listed with that; a prefix has no entity tag
		doc.Paths = slices.DeleteFunc(doc.Paths, func(p pathItem) bool {
			var b state.Blob
			r := state.Read{Ref: state.Ref{Account: c.Account, Container: c.container, Blob: p.Name}, Now: c.Now}
			return p.ETag == "" && s.state.GetStatus(&r, &b) == nil && hasFolderMark(b.Metadata)
		})
	}
	if !tree && directory != "" && len(doc.Paths) == 0 && l.From == nil {
		var b state.Blob
		r := state.Read{Ref: state.Ref{Account: c.Account, Container: c.container, Blob: directory}, Now: c.Now}
		if err := s.state.GetStatus(&r, &b); err != nil {
			return err
		}
	}
	if next != nil {
		c.Set("x-ms-continuation", encodeMarker(next))
	}
	return sendJSON(c.Request, http.StatusOK, &doc)
}

// nameInToken returns the name that a continuation token of the service's own form begins at: a checksum, a zero and
// the name. Hadoop makes such tokens, to begin a listing at a name.
func nameInToken(token string) (name string, ok bool) {
	text, err := base64.StdEncoding.DecodeString(token)
	if err != nil {
		return "", false
	}
	sum, name, ok := strings.Cut(string(text), " 0 ")
	if _, err := strconv.ParseInt(sum, 10, 64); err != nil || !ok || name == "" || state.CheckBlobName(name) != nil {
		return "", false
	}
	return name, true
}

// pathItem returns an item of a listing.
func (c *call) pathItem(item *state.Item) (p pathItem) {
	if item.Prefix != "" { // a directory of a flat account
		return pathItem{Name: strings.TrimSuffix(item.Prefix, "/"), Directory: "true", Length: "0"}
	}
	b := item.Blob
	p = pathItem{Name: strings.Clone(item.Name), Length: strconv.FormatInt(b.Length, 10),
		ETag:         strings.Trim(b.Changed.HexETag(), `"`),
		LastModified: b.Changed.RFC1123()}
	if b.IsDirectory() || hasFolderMark(b.Metadata) {
		p.Directory = "true"
		if b.Node != nil && b.Node.Implicit {
			p.Length = "" // recorded
		}
	}
	if c.version() >= v20200210 {
		p.Created = fileTime(b.Created)
		if b.Expires != 0 {
			p.Expires = fileTime(b.Expires)
		}
	}
	if c.version() >= v20201206 {
		p.Scope = encryption.ID{Scope: b.Encryption.Scope}.ScopeName()
	}
	if b.Encryption.KeySHA256 != "" {
		p.KeySHA256 = base64.StdEncoding.EncodeToString([]byte(b.Encryption.KeySHA256))
	}
	if b.Node != nil {
		p.Owner, p.Group, p.Permissions, p.Context = c.nameOf(b.Node.Owner), c.nameOf(b.Node.Group),
			b.Node.Access.Permissions(), b.Node.Context
	}
	return p
}
