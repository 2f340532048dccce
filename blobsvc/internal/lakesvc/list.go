package lakesvc

import (
	"bytes"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/endpoint"
	"github.com/lazuli-storage/lazuli/blobsvc/internal/query"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/budget"
	"github.com/lazuli-storage/lazuli/internal/state/blob/listing"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// pathsAskedFor reads which paths List Paths is to list.
func pathsAskedFor(c *call) (l listing.Blobs, err error) {
	tree := c.IsTree()
	l = listing.Blobs{Now: c.Ticks(), Caller: c.Caller(), Paths: tree, Work: c.Work()}
	if l.Max, err = endpoint.MaxResults(c.Query); err != nil {
		return l, err
	}
	if c.Query.Get("recursive") == "" {
		return l, wire.MissingQuery("recursive")
	}
	recursive, err := boolQuery(c.Query, "recursive")
	if err != nil {
		return l, err
	}
	if err := upn(c.Query); err != nil {
		return l, err
	}
	if l.Directory, err = endpoint.CleanPath(c.Query.Get("directory")); err != nil {
		return l, endpoint.InvalidQuery("directory", c.Query.Get("directory"))
	}
	if !recursive {
		l.Delimiter = "/"
	}
	prefix := l.Directory
	if prefix != "" {
		prefix += "/"
	}
	// A tree is read from the directory; in a flat account a directory is only a prefix of names.
	if !tree {
		l.Prefix = prefix
	}
	if from := c.Query.Get("beginfrom"); from != "" {
		l.From = []byte(prefix + strings.TrimPrefix(from, prefix))
	}
	if name, ok := nameInToken(c.Query.Get("continuation")); ok && tree {
		l.From = []byte(prefix + name)
	} else if token, err := endpoint.Marker(c.Query, "continuation"); err != nil {
		return l, err
	} else if token != nil {
		l.From = token
	}
	return l, nil
}

// listPaths: https://learn.microsoft.com/rest/api/storageservices/datalakestoragegen2/path/list
func (s *Service) listPaths(c *call) error {
	l, err := pathsAskedFor(c)
	if err != nil {
		return err
	}
	w := pathWriter{document: emptyDocument(), c: c, l: &l}
	defer w.free()
	const head = `{"paths":[`
	w.raw(head)
	next, err := s.State.Blobs.List(c.Account, c.Container, &l, w.write)
	if err != nil {
		return err
	}
	flat, at := s.flat(c), c.Ref()
	status := func(name string, b *record.Blob) error {
		at.Blob = name
		return flat.status(at, b)
	}
	if len(w.prefixes) > 0 { // a directory that has a blob of its own was listed with that
		w.without(func(name string) bool {
			var b record.Blob
			return status(name, &b) == nil && endpoint.HasFolderMark(b.Metadata)
		})
	}
	// Nothing was listed on the first page: the path is an empty directory, a file, or not there, and its record tells
	// which.
	if !l.Paths && l.Directory != "" && len(w.b) == len(head) && l.From == nil {
		var b record.Blob
		if err := status(l.Directory, &b); err != nil {
			return err
		}
		if !endpoint.HasFolderMark(b.Metadata) { // the listing of a file has the file, as in a tree
			w.item(&listing.Item{Name: l.Directory, Blob: &b})
		}
	}
	if next != nil {
		c.Set("x-ms-continuation", endpoint.EncodeMarker(next))
	}
	w.b = append(bytes.TrimSuffix(w.b, []byte(",")), "]}\n"...)
	return c.Body(http.StatusOK, "application/json;charset=utf-8", w.b)
}

// nameInToken returns the name that a continuation token of the service's own form begins at: a checksum, a zero and
// the name. Hadoop makes such tokens, to begin a listing at a name.
func nameInToken(token string) (name string, ok bool) {
	text, err := base64.StdEncoding.DecodeString(token)
	if err != nil {
		return "", false
	}
	sum, name, ok := strings.Cut(string(text), " 0 ")
	if _, err := strconv.ParseInt(sum, 10, 64); err != nil || !ok || name == "" || record.CheckBlobName(name) != nil {
		return "", false
	}
	return name, true
}

// pathWriter writes the items of List Paths in JSON, with their members in the order of the service's own documents.
type pathWriter struct {
	*document
	c *call
	l *listing.Blobs
	n int // items so far
	// prefixes are the directories of a flat account that only names tell of.
	prefixes []pathPrefix

	// The texts that the last item had, which those after it mostly have too.
	second       ticks.Ticks // of modified
	modified     []byte
	group, owner principal
	// parts has the last two forms, which take turns where directories and files do.
	parts [2]pathParts
}

// principal is the name of an owner or group in an answer, as JSON.
type principal struct {
	id   string
	name []byte
}

// appendTo appends the name of the principal with an id.
func (p *principal) appendTo(dst []byte, c *call, id string) []byte {
	if p.name == nil || p.id != id {
		p.id, p.name = id, query.AppendJSON(p.name[:0], c.NameOf(id))
	}
	return append(dst, p.name...)
}

// document is the text of a page of List Paths, in a buffer that is used again.
type document struct{ b []byte }

// documents are buffers; larger ones than maxDocument are left to the collector.
var documents = sync.Pool{New: func() any { return &document{make([]byte, 0, 64<<10)} }}

const maxDocument = 2 << 20

func emptyDocument() *document {
	d := documents.Get().(*document)
	d.b = d.b[:0]
	return d
}

// free gives the buffer back. Nothing of d is used after that.
func (d *document) free() {
	if cap(d.b) <= maxDocument {
		documents.Put(d)
	}
}

// raw writes text as it is.
func (d *document) raw(s string) { d.b = append(d.b, s...) }

// pathPrefix is such a directory, and where its item is in the document.
type pathPrefix struct {
	name     string
	from, to int
}

// appendMember appends a member, unless value is empty. The item goes on with a comma.
func appendMember(out []byte, name, value string) []byte {
	if value == "" {
		return out
	}
	return append(query.AppendJSON(append(out, name...), value), ',')
}

// write writes an item, and a comma behind it. The item that reaches the size of an answer is the last of its page.
func (w *pathWriter) write(item listing.Item) error {
	w.item(&item)
	if w.n++; len(w.b) >= budget.Answer {
		w.l.Max = w.n
	}
	return nil
}

func (w *pathWriter) item(item *listing.Item) {
	if item.Prefix != "" { // a directory of a flat account
		p := pathPrefix{name: strings.TrimSuffix(strings.Clone(item.Prefix), "/"), from: len(w.b)}
		w.raw(`{"contentLength":"0","etag":"","isDirectory":"true","lastModified":"","name":`)
		w.b = append(query.AppendJSON(w.b, p.name), "},"...)
		p.to = len(w.b)
		w.prefixes = append(w.prefixes, p)
		return
	}
	b, p := item.Blob, &w.parts[item.Form%2]
	if item.Form == 0 || item.Form != p.form {
		p.write(w, item)
	}
	// A local slice, stored once: each store to the heap costs a write barrier while garbage is collected.
	out := append(w.b, p.begin...)
	if p.length {
		out = append(strconv.AppendInt(out, b.Length, 10), `",`...)
	}
	if p.created {
		out = append(strconv.AppendInt(append(out, `"creationTime":"`...), b.Created.FileTime(), 10), `",`...)
	}
	out = b.Changed.AppendHexETag(append(out, p.toETag...))
	out = append(out, p.toModified...)
	if second := b.Changed - b.Changed%ticks.Second; w.modified == nil || w.second != second {
		w.second = second
		w.modified = append(b.Changed.AppendRFC1123(append(w.modified[:0], `"lastModified":"`...)), `","name":`...)
	}
	out = query.AppendJSON(append(out, w.modified...), item.Name)
	w.b = append(out, p.end...)
}

// pathParts holds the text that items of one form share.
type pathParts struct {
	form uint32
	// begin ends before the number of the length, if that is shown. created says whether the time of the creation is.
	begin           []byte
	length, created bool
	// toETag begins behind the creation and ends before the ETag, toModified is from there to the last change, and end
	// follows the name.
	toETag, toModified, end []byte
}

// write writes the parts of an item.
func (p *pathParts) write(w *pathWriter, item *listing.Item) {
	b, n, version := item.Blob, item.Blob.Node, w.c.EffectiveVersion()
	p.form = item.Form
	p.begin = append(p.begin[:0], '{')
	if version >= endpoint.V20201206 { // only a scope of its own (recorded)
		p.begin = appendMember(p.begin, `"EncryptionScope":`, b.Encryption.Scope)
	}
	if sum := b.Encryption.KeySHA256; sum != "" {
		p.begin = appendMember(p.begin, `"CustomerProvidedKeySha256":`, base64.StdEncoding.EncodeToString([]byte(sum)))
	}
	// The first version leaves out the length of a directory that was created because something in it was (recorded;
	// clients of later ones cannot read an item without it).
	if p.length = n == nil || !n.Implicit || !n.Directory || version > endpoint.V20190202; p.length {
		p.begin = append(p.begin, `"contentLength":"`...)
	}
	p.created = version >= endpoint.V20200210
	p.toETag = p.toETag[:0]
	if n != nil {
		p.toETag = appendMember(p.toETag, `"EncryptionContext":`, n.Context)
	}
	p.toETag = append(p.toETag, `"etag":"`...)
	p.toModified = append(p.toModified[:0], `",`...)
	switch {
	case b.Expires != 0 && version >= endpoint.V20200210:
		p.toModified = append(p.toModified, `"expiryTime":"`...)
		p.toModified = append(strconv.AppendInt(p.toModified, b.Expires.FileTime(), 10), `",`...)
	case version >= endpoint.V20201002: // recorded of files and directories
		p.toModified = append(p.toModified, `"expiryTime":"0",`...)
	}
	if n != nil && n.Group != "" {
		p.toModified = append(w.group.appendTo(append(p.toModified, `"group":`...), w.c, n.Group), ',')
	}
	if b.IsDirectory() || endpoint.HasFolderMark(b.Metadata) {
		p.toModified = append(p.toModified, `"isDirectory":"true",`...)
	}
	p.end = p.end[:0]
	if n != nil {
		p.end = w.owner.appendTo(append(p.end, `,"owner":`...), w.c, n.Owner)
		p.end = append(n.Access.AppendPermissions(append(p.end, `,"permissions":"`...)), '"')
	}
	p.end = append(p.end, "},"...)
}

// without removes the items of the prefixes that drop names.
func (w *pathWriter) without(drop func(name string) bool) {
	kept, from := w.b[:0], 0
	for _, p := range w.prefixes {
		if drop(p.name) {
			kept = append(kept, w.b[from:p.from]...)
			from = p.to
		}
	}
	w.b = append(kept, w.b[from:]...)
}
