package blobsvc

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
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
	// The tags of a blob are a resource of their own, which a permission to list does not open.
	// https://learn.microsoft.com/azure/storage/blobs/storage-manage-find-blobs#permissions-and-authorization
	if include["tags"] {
		if err := c.holdsTags(); err != nil {
			return err
		}
	}
	l := listing{prefix: c.Query.Get("prefix"), delimiter: c.Query.Get("delimiter"), max: n,
		snapshots: include["snapshots"], uncommitted: include["uncommittedblobs"], deleted: include["deleted"],
		versions: include["versions"], versionsOnly: include["deletedwithversions"]}
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
		metadata: include["metadata"], copies: include["copy"], tags: include["tags"], versions: include["versions"],
		policies: include["immutabilitypolicy"], holds: include["legalhold"], accessTimes: s.managed(c).AccessTimes}
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
	now                    ticks.Ticks
	metadata, copies, tags bool
	versions               bool
	policies, holds        bool
	accessTimes            bool
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
	slot := item.slot
	if b.isSnapshot(slot) {
		w.text("Snapshot", ticks.Ticks(slot).ISO())
	}
	if b.version != 0 && w.versions {
		w.text("VersionId", b.version.ISO())
		if slot == baseSlot && b.deleted == 0 {
			w.raw("<IsCurrentVersion>true</IsCurrentVersion>")
		}
	}
	if item.versionsOnly {
		w.raw("<HasVersionsOnly>true</HasVersionsOnly>")
		if !w.versions { // the item stands for the blob
			slot, b.deleted = baseSlot, 0
		}
	}
	if b.deleted != 0 {
		w.raw("<Deleted>true</Deleted>")
	}
	w.raw("<Properties>")
	w.properties(b, slot)
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
	w.b = b.changed.AppendHexETag(w.b)
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
	if b.expires != 0 && slot == baseSlot {
		w.time("Expiry-Time", b.expires)
	}
	if w.accessTimes && b.accessed != 0 {
		w.time("LastAccessTime", b.accessed)
	}
	if w.policies && b.until != 0 {
		w.time("ImmutabilityPolicyUntilDate", b.until)
		w.text("ImmutabilityPolicyMode", b.mode())
	}
	if w.holds && b.hold {
		w.raw("<LegalHold>true</LegalHold>")
	}
	if b.incremental.source != "" {
		w.raw("<IncrementalCopy>true</IncrementalCopy>")
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
		if b.isDestination(slot) {
			w.text("CopyDestinationSnapshot", b.incremental.to.ISO())
		}
	}
	w.raw("<ServerEncrypted>true</ServerEncrypted>")
	if b.encryption.KeySHA256 != "" {
		w.text("CustomerProvidedKeySha256", base64.StdEncoding.EncodeToString([]byte(b.encryption.KeySHA256)))
	}
	if b.encryption.Scope != "" {
		w.text("EncryptionScope", b.encryption.Scope)
	}
	if b.deleted != 0 {
		w.time("DeletedTime", b.deleted)
		w.int("RemainingRetentionDays", b.remainingDays(w.now))
	}
	if len(b.tags) > 0 {
		w.int("TagCount", int64(len(b.tags)))
	}
}
