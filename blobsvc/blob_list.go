package blobsvc

import (
	"bytes"
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/lazuli-storage/lazuli/internal/store"
)

// listing is one request for a page of blobs.
type listing struct {
	prefix, delimiter string
	// from is where the page begins: the rest of a blob key after the generation, or a prefix of one.
	from []byte
	max  int
	// What is included beside base blobs.
	snapshots, uncommitted, deleted bool
	rec                             blobRecord // of the item at hand, used again
}

// listed is one item of a page: a blob, a prefix, or a blob that has only uncommitted blocks.
type listed struct {
	prefix string
	name   string
	slot   uint64
	record *blobRecord // without its pieces; nil for a prefix and for uncommitted blocks
}

// walk calls emit with up to max items in order and returns where the next page begins, nil at the end. It does not scan:
// snapshots that are not wanted, and everything below a prefix that was emitted, are skipped by seeking.
func (l *listing) walk(tx *store.Tx, gen uint64, emit func(listed) error) (next []byte, err error) {
	scope := generationPrefix(gen)
	within := append(bytes.Clone(scope), l.prefix...)
	start := append(bytes.Clone(scope), l.from...)
	if bytes.Compare(start, within) < 0 {
		start = within
	}
	blobs := walker{cur: tx.Cursor(blobsBucket), within: within}
	blobs.seek(start)
	var pending walker
	if l.uncommitted {
		pending = walker{cur: tx.Cursor(pendingBucket), within: within}
		pending.seek(pendingStart(start))
	}
	count := 0
	full := func(at []byte) bool {
		if count < l.max {
			return false
		}
		next = bytes.Clone(at[8:])
		return true
	}
	for blobs.key != nil || pending.key != nil {
		if pending.key != nil && (blobs.key == nil || bytes.Compare(pending.key, blobs.key[:len(blobs.key)-8]) < 0) {
			_, rawName, err := parsePendingKey(pending.key)
			if err != nil {
				return nil, err
			}
			name := string(rawName)
			key := blobKey(gen, name, baseSlot)
			committed, err := l.committed(tx.Get(blobsBucket, key))
			if err != nil {
				return nil, err
			}
			if committed {
				pending.next()
				continue
			}
			if full(key) {
				return next, nil
			}
			if p := l.commonPrefix(name); p != "" {
				err = emit(listed{prefix: p})
				skip := successor(append(bytes.Clone(scope), p...))
				blobs.seek(skip)
				pending.seek(skip)
			} else {
				err = emit(listed{name: name, slot: baseSlot})
				pending.next()
			}
			if err != nil {
				return nil, err
			}
			count++
			continue
		}
		_, rawName, slot, err := parseBlobKey(blobs.key)
		if err != nil {
			return nil, err
		}
		if slot != baseSlot && !l.snapshots {
			blobs.seek(blobKey(gen, string(rawName), baseSlot))
			continue
		}
		if err := decodeBlobHead(blobs.value, &l.rec); err != nil {
			return nil, err
		}
		if l.rec.deleted != 0 && !l.deleted {
			blobs.next()
			continue
		}
		if full(blobs.key) {
			return next, nil
		}
		if l.delimiter != "" {
			if p := l.commonPrefix(string(rawName)); p != "" {
				if err := emit(listed{prefix: p}); err != nil {
					return nil, err
				}
				count++
				skip := successor(append(bytes.Clone(scope), p...))
				blobs.seek(skip)
				if pending.key != nil && bytes.Compare(pending.key, skip) < 0 {
					pending.seek(skip)
				}
				continue
			}
		}
		if err := emit(listed{name: string(rawName), slot: slot, record: &l.rec}); err != nil {
			return nil, err
		}
		count++
		blobs.next()
	}
	return nil, nil
}

// committed reports whether a name with uncommitted blocks is listed as what is committed under it, record if anything.
func (l *listing) committed(record []byte) (bool, error) {
	if record == nil || l.deleted {
		return record != nil, nil
	}
	err := decodeBlobHead(record, &l.rec)
	return err == nil && l.rec.deleted == 0, err
}

// pendingStart cuts a position among blob keys to one among pending keys, which have no slot: a page may begin at a base
// blob, and the pending record of the same name must still be found.
func pendingStart(start []byte) []byte {
	if n := len(start) - 8; n > 8 && start[n-1] == 0 {
		return start[:n]
	}
	return start
}

// commonPrefix returns what stands for name in a listing by hierarchy: everything up to and including the first delimiter
// after the prefix; "" if there is none.
func (l *listing) commonPrefix(name string) string {
	if l.delimiter == "" {
		return ""
	}
	i := strings.Index(name[len(l.prefix):], l.delimiter)
	if i < 0 {
		return ""
	}
	return name[:len(l.prefix)+i+len(l.delimiter)]
}

// walker is a cursor that ends where the keys leave a prefix.
type walker struct {
	cur        *store.Cursor
	within     []byte
	key, value []byte
}

func (w *walker) seek(k []byte) { w.take(w.cur.Seek(k)) }
func (w *walker) next()         { w.take(w.cur.Next()) }
func (w *walker) take(k, v []byte) {
	if !bytes.HasPrefix(k, w.within) {
		k, v = nil, nil
	}
	w.key, w.value = k, v
}

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
	n, err := c.maxResults()
	if err != nil {
		return err
	}
	include, err := c.includes("snapshots", "metadata", "uncommittedblobs", "copy", "deleted", "tags", "versions",
		"deletedwithversions", "immutabilitypolicy", "legalhold", "permissions")
	if err != nil {
		return err
	}
	if include["permissions"] { // of accounts with a hierarchical namespace
		return invalidQuery("include", c.Query.Get("include"))
	}
	l := listing{prefix: c.Query.Get("prefix"), delimiter: c.Query.Get("delimiter"), max: n,
		snapshots: include["snapshots"], uncommitted: include["uncommittedblobs"], deleted: include["deleted"]}
	if l.snapshots && l.delimiter != "" {
		return invalidQuery("include", c.Query.Get("include"))
	}
	marker, startFrom := c.Query.Get("marker"), c.Query.Get("startfrom")
	l.from = []byte(startFrom)
	if marker != "" {
		var ok bool
		if l.from, ok = decodeMarker(marker); !ok {
			return invalidQuery("marker", marker)
		}
	}
	w := blobWriter{page: newPage(), c: c, now: c.now(),
		metadata: include["metadata"], copies: include["copy"], tags: include["tags"]}
	defer w.free()
	w.raw(`<EnumerationResults ServiceEndpoint="`)
	w.escape(c.Base)
	w.raw(`/" ContainerName="` + c.container + `">`)
	w.echo("Prefix", l.prefix)
	w.echo("Marker", marker)
	if c.Query.Has("maxresults") {
		w.int("MaxResults", int64(n))
	}
	w.echo("StartFrom", startFrom)
	w.echo("Delimiter", l.delimiter)
	w.raw("<Blobs>")
	changed, only, err := s.changedBlobs(c, &l)
	if err != nil {
		return err
	}
	var next []byte
	if only {
		err = s.writeChanged(c, changed, &w)
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

// listBatch is how many items of a page are read in one transaction and held in memory. A page of more is sent while it is
// read, as Azure does; it shows what was there at some time in between.
const listBatch = 500

// sendItems writes a page's items and returns where the next page begins.
func (s *Service) sendItems(c *call, l *listing, w *blobWriter) (next []byte, err error) {
	var gen uint64
	for left := l.max; ; {
		l.max = min(left, listBatch)
		err := s.db.View(func(tx *store.Tx) (err error) {
			if gen == 0 {
				if gen, err = containerGen(tx, c.Account, c.container); err != nil {
					return err
				}
			}
			next, err = l.walk(tx, gen, w.write)
			return err
		})
		if left -= l.max; err != nil || next == nil || left == 0 {
			return next, err
		}
		l.from = next
		if err := w.flush(); err != nil {
			return nil, err
		}
	}
}

// flush sends what was written so far.
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

// blobWriter writes the items of a listing.
type blobWriter struct {
	*page
	c                      *call
	now                    ticks
	metadata, copies, tags bool
	begun                  bool // the head was sent
}

func (w *blobWriter) write(item listed) error {
	if item.prefix != "" {
		w.raw("<BlobPrefix>")
		w.name(item.prefix)
		w.raw("</BlobPrefix>")
		return nil
	}
	w.raw("<Blob>")
	w.name(item.name)
	if item.record == nil {
		w.raw("<Properties><Content-Length>0</Content-Length><BlobType>BlockBlob</BlobType><AccessTier>" + defaultTier +
			"</AccessTier><AccessTierInferred>true</AccessTierInferred><LeaseStatus>unlocked</LeaseStatus>" +
			"<LeaseState>available</LeaseState><ServerEncrypted>false</ServerEncrypted></Properties></Blob>")
		return nil
	}
	b := item.record
	b.settle(w.now)
	if item.slot != baseSlot {
		w.text("Snapshot", ticks(item.slot).iso())
	}
	if b.deleted != 0 {
		w.raw("<Deleted>true</Deleted>")
	}
	w.raw("<Properties>")
	w.properties(b, item.slot)
	w.raw("</Properties>")
	if w.metadata {
		w.page.metadata(b.metadata)
	}
	if w.tags && len(b.tags) > 0 {
		w.raw("<Tags>")
		w.tagSet(b.tags)
		w.raw("</Tags>")
	}
	if w.c.version() >= v20190202 {
		w.raw("<OrMetadata />")
	}
	w.raw("</Blob>")
	return nil
}

// name writes a Name element. From version 2021-02-12 a name that XML cannot hold is percent-encoded and marked.
func (w *blobWriter) name(s string) {
	const v20210212 = 20210212
	if !representable(s) && w.c.version() >= v20210212 {
		w.raw(`<Name Encoded="true">` + url.PathEscape(s) + "</Name>")
		return
	}
	w.text("Name", s)
}

// representable reports whether XML 1.0 has a form for all characters of s.
func representable(s string) bool {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < 0x20 && c != '\t' && c != '\n' && c != '\r' || c >= utf8.RuneSelf {
			return !strings.ContainsFunc(s, func(r rune) bool {
				return r < 0x20 && r != '\t' && r != '\n' && r != '\r' || r == 0xFFFE || r == 0xFFFF
			})
		}
	}
	return true
}

func (w *blobWriter) properties(b *blobRecord, slot uint64) {
	if w.c.version() >= v20171109 {
		w.time("Creation-Time", b.created)
	}
	w.time("Last-Modified", b.changed)
	w.raw("<Etag>")
	w.b = b.changed.appendETag(w.b)
	w.raw("</Etag>")
	w.int("Content-Length", b.length)
	h := &b.headers
	w.text("Content-Type", h.contentType)
	w.text("Content-Encoding", h.encoding)
	w.text("Content-Language", h.language)
	if w.c.version() >= v20190202 {
		w.raw("<Content-CRC64 />")
	}
	if h.md5 == "" {
		w.raw("<Content-MD5 />")
	} else {
		w.raw("<Content-MD5>")
		w.b = base64.StdEncoding.AppendEncode(w.b, []byte(h.md5))
		w.raw("</Content-MD5>")
	}
	w.text("Cache-Control", h.cacheControl)
	w.text("Content-Disposition", h.disposition)
	if b.kind == pageBlob {
		w.int("x-ms-blob-sequence-number", b.sequence)
	}
	w.text("BlobType", b.kind.String())
	if b.sealed {
		w.raw("<Sealed>true</Sealed>")
	}
	if tier, inferred := b.accessTier(slot); tier != "" {
		w.text("AccessTier", tier)
		if inferred {
			w.raw("<AccessTierInferred>true</AccessTierInferred>")
		}
		if b.tierChanged != 0 {
			w.time("AccessTierChangeTime", b.tierChanged)
		}
		if b.rehydrateTo != "" {
			w.text("ArchiveStatus", "rehydrate-pending-to-"+lowerTier(b.rehydrateTo))
		}
	}
	switch {
	case slot != baseSlot:
	case b.deleted != 0:
		w.raw("<LeaseStatus />")
	default:
		w.lease(b.lease, w.now)
	}
	if cp := &b.copy; w.copies && cp.id != "" {
		w.text("CopyId", cp.id)
		w.text("CopySource", cp.source)
		w.text("CopyStatus", cp.status)
		w.text("CopyProgress", progress(cp.copied, cp.of))
		if cp.completed != 0 {
			w.time("CopyCompletionTime", cp.completed)
		}
		w.echo("CopyStatusDescription", cp.description)
	}
	w.raw("<ServerEncrypted>true</ServerEncrypted>")
	if b.deleted != 0 {
		w.time("DeletedTime", b.deleted)
		w.int("RemainingRetentionDays", b.remainingDays(w.now))
	}
	if len(b.tags) > 0 {
		w.int("TagCount", int64(len(b.tags)))
	}
}
