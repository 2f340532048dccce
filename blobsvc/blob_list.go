package blobsvc

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/state"
)

// Markers are opaque to clients: a version, and the position in base64.
const markerVersion = "1!"

func encodeMarker(at []byte) string {
	if at == nil {
		return ""
	}
	return markerVersion + base64.RawURLEncoding.EncodeToString(at)
}

func decodeMarker(s string) ([]byte, bool) {
	s, ok := strings.CutPrefix(s, markerVersion)
	if !ok || len(s) > 8<<10 {
		return nil, false
	}
	at, err := base64.RawURLEncoding.DecodeString(s)
	return at, err == nil
}

// listBlobs: https://learn.microsoft.com/rest/api/storageservices/list-blobs
func (s *Service) listBlobs(c *call) error {
	tree := s.hierarchical(c.Account) && !strings.HasPrefix(c.container, "$")
	if only := c.Query.Get("showonly"); only != "" {
		if !tree || !strings.EqualFold(only, "deleted") {
			return invalidQuery("showonly", only)
		}
		return s.showDeleted(c)
	}
	n, err := c.maxResults()
	if err != nil {
		return err
	}
	include, err := c.includes("snapshots", "metadata", "uncommittedblobs", "copy", "deleted", "tags", "versions",
		"deletedwithversions", "immutabilitypolicy", "legalhold", "permissions")
	if err != nil {
		return err
	}
	if include["permissions"] && !tree || tree &&
		(include["tags"] || include["versions"] || include["deletedwithversions"]) {
		return invalidQuery("include", c.Query.Get("include"))
	}
	// Tags have their own permission: list permission does not include reading them.
	// https://learn.microsoft.com/azure/storage/blobs/storage-manage-find-blobs#permissions-and-authorization
	if include["tags"] {
		if err := c.holdsTags(); err != nil {
			return err
		}
	}
	l := state.Listing{Now: c.now(), Prefix: c.Query.Get("prefix"), Delimiter: c.Query.Get("delimiter"),
		EndBefore: c.Query.Get("endbefore"), Max: n, Work: c.Work(),
		Snapshots: include["snapshots"], Uncommitted: include["uncommittedblobs"], Deleted: include["deleted"],
		Versions: include["versions"], VersionsOnly: include["deletedwithversions"]}
	l.Caller = c.caller()
	if tree && l.Delimiter != "" && l.Delimiter != "/" {
		return invalidQuery("delimiter", l.Delimiter)
	}
	if l.Snapshots && l.Delimiter != "" {
		return invalidQuery("include", c.Query.Get("include"))
	}
	marker, startFrom := c.Query.Get("marker"), c.Query.Get("startfrom")
	l.From = []byte(startFrom)
	if marker != "" {
		var ok bool
		if l.From, ok = decodeMarker(marker); !ok {
			return invalidQuery("marker", marker)
		}
	}
	options := itemOptions{now: c.now(), version: c.version(),
		metadata: include["metadata"], copies: include["copy"], tags: include["tags"], versions: include["versions"],
		policies: include["immutabilitypolicy"], permissions: include["permissions"], holds: include["legalhold"],
		accessTimes: s.accounts.Blob(c.Account).AccessTimes}
	if c.acceptsArrow() {
		return s.listArrow(c, &l, &options)
	}
	w := blobWriter{page: newPage(), c: c, itemOptions: options}
	defer w.free()
	w.raw(`<EnumerationResults ServiceEndpoint="`)
	w.escape(c.Base)
	w.raw(`/" ContainerName="` + c.container + `">`)
	w.echo("Prefix", l.Prefix)
	w.echo("Marker", marker)
	if c.Query.Has("maxresults") {
		w.int("MaxResults", int64(n))
	}
	w.echo("StartFrom", startFrom)
	w.echo("Delimiter", l.Delimiter)
	w.raw("<Blobs>")
	changed, only, err := s.changedBlobs(c, &l)
	if err != nil {
		return err
	}
	var next []byte
	if only {
		err = s.writeChanged(c, changed, w.write)
	} else {
		next, err = s.sendItems(c, &l, &w)
	}
	if err != nil {
		return err
	}
	w.raw("</Blobs>")
	w.text("NextMarker", encodeMarker(next))
	w.raw("</EnumerationResults>")
	if w.begun {
		return w.flush()
	}
	return c.Body(http.StatusOK, "application/xml", w.b)
}

// listBatch is the number of items of a page that are read in one transaction and held in memory. A page of more is
// sent while it is read, as Azure does; it shows what was there at some time in between.
const listBatch = 500

// sendItems writes a page's items and returns where the next page begins.
func (s *Service) sendItems(c *call, l *state.Listing, w *blobWriter) (next []byte, err error) {
	for left := l.Max; ; {
		l.Max = min(left, listBatch)
		next, err = s.state.ListBlobs(c.Account, c.container, l, w.write)
		if left -= l.Max; err != nil || next == nil || left == 0 || l.Short {
			return next, err
		}
		l.From = next
		if err := w.flush(); err != nil {
			return nil, err
		}
	}
}

// flush sends the output so far.
func (w *blobWriter) flush() error {
	if !w.begun {
		w.begun = true
		w.c.Set("Content-Type", "application/xml")
		w.c.Out.WriteHeader(http.StatusOK)
	}
	_, err := w.c.Out.Write(w.b)
	w.b = w.b[:0]
	if err != nil {
		return broken(err)
	}
	return nil
}

// blobWriter writes the items of a listing in XML.
type blobWriter struct {
	*page
	itemOptions
	c     *call
	begun bool // the head was sent
}

func (w *blobWriter) write(item state.Item) error {
	if item.Prefix != "" {
		w.raw("<BlobPrefix>")
		w.name(item.Prefix)
		w.raw("</BlobPrefix>")
		return nil
	}
	w.item()
	w.raw("<Blob>")
	w.name(item.Name)
	if item.Blob == nil {
		w.raw("<Properties>")
		uncommitted(w.page)
		w.raw("</Properties></Blob>")
		return nil
	}
	w.flags(w.page, &item)
	b := item.Blob
	w.raw("<Properties>")
	w.properties(w.page, b)
	w.raw("</Properties>")
	switch {
	case !w.itemOptions.metadata:
	case b.Encryption.KeySHA256 != "": // the customer's key protects the metadata as well
		w.raw(`<Metadata Encrypted="true" />`)
	default:
		list := b.Metadata
		if b.IsDirectory() {
			list = append(slices.Clip(list), state.Meta{Name: folderMark, Value: "true"})
		}
		w.page.metadata(list)
	}
	if w.tags && len(b.Tags) > 0 {
		w.raw("<Tags>")
		w.tagSet(b.Tags)
		w.raw("</Tags>")
	}
	if w.version >= v20190202 {
		w.raw("<OrMetadata />")
	}
	w.raw("</Blob>")
	return nil
}

// name writes a Name element. From version 2021-02-12 a name that XML cannot hold is percent-encoded and marked.
func (w *blobWriter) name(s string) {
	if !representable(s) && w.version >= v20210212 {
		w.raw(`<Name Encoded="true">` + url.PathEscape(s) + "</Name>")
		return
	}
	w.once("Name", s)
}

// representable reports whether XML 1.0 has a form for all characters of s.
func representable(s string) bool {
	for i := plainPrefix(s); i < len(s); i++ {
		if c := s[i]; c < 0x20 && c != '\t' && c != '\n' && c != '\r' || c >= utf8.RuneSelf {
			return !strings.ContainsFunc(s, func(r rune) bool {
				return r < 0x20 && r != '\t' && r != '\n' && r != '\r' || r == 0xFFFE || r == 0xFFFF
			})
		}
	}
	return true
}
