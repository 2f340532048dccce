package blobsvc

import (
	"encoding/base64"
	"strconv"

	"github.com/lazuli-storage/lazuli/internal/state/blob/encryption"
	"github.com/lazuli-storage/lazuli/internal/state/blob/lease"
	"github.com/lazuli-storage/lazuli/internal/state/blob/listing"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// usual reports whether b is a block blob that was put, and to which nothing has happened since. What rest writes of
// one such blob it writes of all.
func usual(b *record.Blob) bool {
	return b.Kind == record.BlockBlob && !b.Sealed && b.Tier == "" && b.TierChanged == 0 && b.RehydrateTo == "" &&
		b.IsBase() && b.Deleted == 0 && b.Lease == (lease.Lease{}) && b.Expires == 0 && b.Accessed == 0 &&
		b.Protection == (record.Protection{}) && b.Incremental == (record.Incremental{}) && b.Copy.ID == "" &&
		b.Encryption == (encryption.ID{}) && len(b.Tags) == 0
}

// usualItems has the parts in which usual blobs are alike, as they were written of one of them.
type usualItems struct {
	// form is that of the blob, of are its headers; nil before the first blob.
	form uint32
	of   *record.Headers
	// kind is the part of the element between ETag and length.
	kind, described, handling []byte
	// created and changed are seconds. dates is the part between the name and the ETag, which has both.
	created, changed ticks.Ticks
	dates            []byte
}

// shares reports whether an item can be written with the parts that usual blobs share.
func (w *blobWriter) shares(item *listing.Item) bool {
	b := item.Blob
	// Without a form nothing tells whether two nodes are alike.
	return item.Deletion == 0 && !item.VersionsOnly && (b.Version == 0 || !w.versions) && usual(b) &&
		(b.Node == nil || item.Form != 0)
}

// writeUsual writes a usual blob with the parts that it shares with those before it; it reports false for other blobs.
// The output is that of writeAny, whose functions have written the parts.
func (w *blobWriter) writeUsual(item *listing.Item) bool {
	b, u := item.Blob, &w.usual[item.Form%2]
	known := item.Form != 0 && item.Form == u.form
	if b == nil || !known && !w.shares(item) || !isPlain(item.Name) {
		return false
	}
	if created, changed := second(b.Created), second(b.Changed); u.dates == nil || u.created != created ||
		u.changed != changed {
		u.created, u.changed = created, changed
		u.dates = w.part(u.dates, func() {
			w.raw("</Name><Properties>")
			w.itemOptions.dates(w.page, b)
			w.raw("<Etag>")
		})
	}
	// A form tells more than the headers. Those are compared only for a blob without a form, which has no node either.
	if !known && (item.Form != 0 || u.of == nil || !sameTexts(u.of, &b.Headers)) {
		of := b.Headers
		u.of = &of
		u.form = item.Form
		u.kind = w.part(u.kind, func() {
			w.raw("</Etag>")
			w.itemOptions.kind(w.page, b)
			w.raw("<Content-Length>")
		})
		u.described = w.part(u.described, func() {
			w.raw("</Content-Length>")
			w.itemOptions.described(w.page, b)
		})
		u.handling = w.part(u.handling, func() {
			w.itemOptions.handling(w.page, b)
			w.rest(w.page, b)
			w.raw("</Properties>")
		})
	}
	// A local slice, stored once: see page.text.
	out := append(append(w.b, "<Blob><Name>"...), item.Name...)
	out = b.Changed.AppendHexETag(append(out, u.dates...))
	out = strconv.AppendInt(append(out, u.kind...), b.Length, 10)
	out = append(out, u.described...)
	if sum := b.Headers.MD5; sum == "" {
		out = append(out, "<Content-MD5 />"...)
	} else {
		out = base64.StdEncoding.AppendEncode(append(out, "<Content-MD5>"...), []byte(sum))
		out = append(out, "</Content-MD5>"...)
	}
	w.b = append(out, u.handling...)
	if w.itemOptions.metadata {
		w.page.metadata(listedMetadata(b))
	}
	w.raw(w.tail())
	return true
}

// part returns what write writes, in the memory of old. It stays out of the page.
func (w *blobWriter) part(old []byte, write func()) []byte {
	w.item()
	start := len(w.b)
	write()
	old = append(old[:0], w.b[start:]...)
	w.b = w.b[:start]
	return old
}

func second(t ticks.Ticks) ticks.Ticks { return t - t%ticks.Second }

// sameTexts reports whether two blobs have the same headers but for the MD5.
func sameTexts(a, b *record.Headers) bool {
	return a.ContentType == b.ContentType && a.Encoding == b.Encoding && a.Language == b.Language &&
		a.CacheControl == b.CacheControl && a.Disposition == b.Disposition
}
