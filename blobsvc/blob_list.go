package blobsvc

import (
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/endpoint"
	"github.com/lazuli-storage/lazuli/internal/azure/longpoll"
	"github.com/lazuli-storage/lazuli/internal/state/blob/listing"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
)

// listBlobs: https://learn.microsoft.com/rest/api/storageservices/list-blobs
func (s *Service) listBlobs(c *call) error {
	l, options, err := s.blobsAskedFor(c)
	if err != nil {
		return err
	}
	if acceptsArrow(c) {
		return s.listArrow(c, &l, &options)
	}
	w := blobWriter{page: newPage(), c: c, itemOptions: options}
	defer w.free()
	// This writes to memory: until the first flush an error can still be the answer.
	w.begin(l.Max)
	changed, watched, err := s.changedBlobs(c, &l)
	if err != nil {
		return err
	}
	var next []byte
	if watched {
		err = s.writeChanged(c, changed, w.write)
	} else {
		next, err = s.sendItems(c, &l, &w)
	}
	if err != nil {
		return err
	}
	return w.end(next)
}

// blobsAskedFor reads which blobs List Blobs is to list, and what of each.
func (s *Service) blobsAskedFor(c *call) (l listing.Blobs, options itemOptions, err error) {
	tree := c.IsTree()
	l = listing.Blobs{Now: c.Ticks(), Prefix: c.Query.Get("prefix"), Delimiter: c.Query.Get("delimiter"),
		EndBefore: c.Query.Get("endbefore"), Work: c.Work(), Caller: c.Caller()}
	switch text := c.Query.Get("showonly"); {
	case text == "":
	case tree && strings.EqualFold(text, "deleted"):
		l.Only = listing.DeletedItems
	case tree && strings.EqualFold(text, "files"):
		l.Only = listing.Files
	case tree && strings.EqualFold(text, "directories"):
		l.Only = listing.Directories
	default:
		return l, options, endpoint.InvalidQuery("showonly", text)
	}
	if l.Max, err = endpoint.MaxResults(c.Query); err != nil {
		return l, options, err
	}
	include, err := includes(c.Query, "snapshots", "metadata", "uncommittedblobs", "copy", "deleted", "tags", "versions",
		"deletedwithversions", "immutabilitypolicy", "legalhold", "permissions")
	if err != nil {
		return l, options, err
	}
	if include["permissions"] && !tree || tree &&
		(include["tags"] || include["versions"] || include["deletedwithversions"]) {
		return l, options, endpoint.InvalidQuery("include", c.Query.Get("include"))
	}
	// Tags have their own permission: list permission does not include reading them.
	// https://learn.microsoft.com/azure/storage/blobs/storage-manage-find-blobs#permissions-and-authorization
	if include["tags"] {
		if err := c.Identity.Holds(endpoint.OfTags); err != nil {
			return l, options, err
		}
	}
	l.Snapshots, l.Uncommitted, l.Deleted = include["snapshots"], include["uncommittedblobs"], include["deleted"]
	l.Versions, l.VersionsOnly = include["versions"], include["deletedwithversions"]
	// A tree is listed by its directories, whose separator is fixed.
	if tree && l.Delimiter != "" && l.Delimiter != "/" {
		return l, options, endpoint.InvalidQuery("delimiter", l.Delimiter)
	}
	if l.Snapshots && l.Delimiter != "" {
		return l, options, endpoint.InvalidQuery("include", c.Query.Get("include"))
	}
	if l.From, err = endpoint.Marker(c.Query, "marker"); err != nil {
		return l, options, err
	}
	// A marker continues a listing and goes before startfrom, which says only where the first page begins.
	if l.From == nil {
		l.From = []byte(c.Query.Get("startfrom"))
	}
	return l, itemOptions{now: c.Ticks(), version: c.EffectiveVersion(),
		metadata: include["metadata"], copies: include["copy"], tags: include["tags"], versions: include["versions"],
		policies: include["immutabilitypolicy"], permissions: include["permissions"], holds: include["legalhold"],
		accessTimes: s.accounts.Blob(c.Account).AccessTimes}, nil
}

// listBatch is the number of items of a page that are read in one transaction and held in memory. A page of more is
// sent while it is read, as Azure does; it shows what was there at some time in between.
const listBatch = 500

// sendItems writes a page's items and returns where the next page begins.
func (s *Service) sendItems(c *call, l *listing.Blobs, w *blobWriter) (next []byte, err error) {
	for left := l.Max; ; {
		l.Max = min(left, listBatch)
		next, err = s.state.Blobs.List(c.Account, c.Container, l, w.write)
		// Short ends the page early, since its work is used up: the client continues at the marker.
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
		return endpoint.Broken(err)
	}
	return nil
}

// blobWriter writes the items of a listing in XML.
type blobWriter struct {
	*page
	itemOptions
	c     *call
	begun bool          // the head was sent
	usual [2]usualItems // of the last two forms: directories and files take turns
}

// begin writes the document up to its items: the container, and the parameters of the request. n is the number of
// items of a page.
func (w *blobWriter) begin(n int) {
	q := w.c.Query
	w.raw(`<EnumerationResults ServiceEndpoint="`)
	w.escape(w.c.Base)
	w.raw(`/" ContainerName="` + w.c.Container + `">`)
	w.echo("Prefix", q.Get("prefix"))
	w.echo("Marker", q.Get("marker"))
	if q.Has("maxresults") {
		w.int("MaxResults", int64(n))
	}
	w.echo("StartFrom", q.Get("startfrom"))
	w.echo("Delimiter", q.Get("delimiter"))
	w.raw("<Blobs>")
}

// end writes what follows the items, and sends the document or what of it was not sent yet.
func (w *blobWriter) end(next []byte) error {
	w.raw("</Blobs>")
	w.text("NextMarker", endpoint.EncodeMarker(next))
	w.raw("</EnumerationResults>")
	if w.begun {
		return w.flush()
	}
	return w.c.Body(http.StatusOK, "application/xml", w.b)
}

func (w *blobWriter) write(item listing.Item) error {
	if item.Prefix != "" || !w.writeUsual(&item) {
		w.writeAny(&item)
	}
	return nil
}

// writeAny writes an item of any kind.
func (w *blobWriter) writeAny(item *listing.Item) {
	if item.Prefix != "" {
		w.raw("<BlobPrefix>")
		w.name(item.Prefix)
		if w.hasDirectory(item) {
			w.item()
			w.raw("<Properties>")
			w.directory(w.page, item.Blob, resourceType(item.Blob))
			w.raw("</Properties>")
		}
		w.raw("</BlobPrefix>")
		return
	}
	w.item()
	w.raw("<Blob>")
	w.name(item.Name)
	if item.Blob == nil {
		w.raw("<Properties>")
		uncommitted(w.page)
		w.raw("</Properties></Blob>")
		return
	}
	if item.Deletion != 0 {
		w.int("DeletionId", int64(item.Deletion))
	}
	w.flags(w.page, item)
	b := item.Blob
	w.raw("<Properties>")
	w.properties(w.page, b)
	w.raw("</Properties>")
	switch {
	case !w.itemOptions.metadata:
	case b.Encryption.KeySHA256 != "": // the customer's key protects the metadata as well
		w.raw(`<Metadata Encrypted="true" />`)
	default:
		w.page.metadata(listedMetadata(b))
	}
	if w.tags && len(b.Tags) > 0 {
		w.raw("<Tags>")
		w.tagSet(b.Tags)
		w.raw("</Tags>")
	}
	w.raw(w.tail())
}

// tail ends the element of a blob.
func (w *blobWriter) tail() string {
	if w.version >= endpoint.V20190202 {
		return "<OrMetadata /></Blob>"
	}
	return "</Blob>"
}

// name writes a Name element. From version 2021-02-12 a name that XML cannot hold is percent-encoded and marked.
func (w *blobWriter) name(s string) {
	if !representable(s) && w.version >= endpoint.V20210212 {
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

// maxChanged is the maximum number of blobs in a listing of changes.
const maxChanged = 1000

// changedBlobs is the extension of List Blobs by which a client hears of changes at once: it names the position up to
// which it has seen them, and gets only what was created or written since, after waiting for it if it likes. only is
// false if the whole container is to be listed: the request does not ask for changes, its position is no longer known,
// or it is for the second page. See [longpoll.AfterHeader].
func (s *Service) changedBlobs(c *call, l *listing.Blobs) (names []string, only bool, err error) {
	if s.feed == nil || !c.HasHeader(longpoll.AfterHeader) || len(l.From) > 0 {
		return nil, false, nil
	}
	wanted := func(name string) bool {
		return strings.HasPrefix(name, l.Prefix) && (l.EndBefore == "" || name < l.EndBefore)
	}
	// In a cluster a container is watched before the feed is asked: a change in between would otherwise be missed.
	if err := s.state.Membership.Watch(c.Account, c.Container); err != nil {
		return nil, false, err
	}
	key := longpoll.Key(c.Account, c.Container)
	var at string
	err = s.common.Wait(c.Request, key, nil, func() (bool, error) {
		names, at, only = s.feed.After(c.Header(longpoll.AfterHeader), key, min(l.Max, maxChanged), wanted)
		return len(names) > 0 || !only, nil
	})
	c.Set(longpoll.PositionHeader, at)
	c.Set(longpoll.FeedHeader, longpoll.FeedEverything)
	if only {
		c.Set(longpoll.FeedHeader, longpoll.FeedChanges)
	}
	return names, only, err
}

// writeChanged lists the named blobs that exist.
func (s *Service) writeChanged(c *call, names []string, write func(listing.Item) error) error {
	return s.state.Blobs.EachNamed(c.Account, c.Container, names, c.Now, func(name string, b *record.Blob) error {
		return write(listing.Item{Name: name, Blob: b})
	})
}
