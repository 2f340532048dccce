package blobsvc

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/state"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
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
	// Tags have their own permission: list permission does not include reading them.
	// https://learn.microsoft.com/azure/storage/blobs/storage-manage-find-blobs#permissions-and-authorization
	if include["tags"] {
		if err := c.holdsTags(); err != nil {
			return err
		}
	}
	l := state.Listing{Now: c.now(), Prefix: c.Query.Get("prefix"), Delimiter: c.Query.Get("delimiter"), EndBefore: c.Query.Get("endbefore"), Max: n,
		Snapshots: include["snapshots"], Uncommitted: include["uncommittedblobs"], Deleted: include["deleted"],
		Versions: include["versions"], VersionsOnly: include["deletedwithversions"]}
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
	w := blobWriter{page: newPage(), c: c, now: c.now(),
		metadata: include["metadata"], copies: include["copy"], tags: include["tags"], versions: include["versions"],
		policies: include["immutabilitypolicy"], holds: include["legalhold"], accessTimes: s.accounts.Blob(c.Account).AccessTimes}
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
func (s *Service) sendItems(c *call, l *state.Listing, w *blobWriter) (next []byte, err error) {
	for left := l.Max; ; {
		l.Max = min(left, listBatch)
		next, err = s.state.ListBlobs(c.Account, c.container, l, w.write)
		if left -= l.Max; err != nil || next == nil || left == 0 {
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

func (w *blobWriter) write(item state.Item) error {
	if item.Prefix != "" {
		w.raw("<BlobPrefix>")
		w.name(item.Prefix)
		w.raw("</BlobPrefix>")
		return nil
	}
	w.raw("<Blob>")
	w.name(item.Name)
	if item.Blob == nil {
		w.raw("<Properties><Content-Length>0</Content-Length><BlobType>BlockBlob</BlobType><AccessTier>" + state.DefaultTier +
			"</AccessTier><AccessTierInferred>true</AccessTierInferred><LeaseStatus>unlocked</LeaseStatus>" +
			"<LeaseState>available</LeaseState><ServerEncrypted>false</ServerEncrypted></Properties></Blob>")
		return nil
	}
	b := item.Blob
	if b.IsSnapshot() {
		w.text("Snapshot", b.Snapshot().ISO())
	}
	if b.Version != 0 && w.versions {
		w.text("VersionId", b.Version.ISO())
		if b.IsBase() && b.Deleted == 0 {
			w.raw("<IsCurrentVersion>true</IsCurrentVersion>")
		}
	}
	if item.VersionsOnly {
		w.raw("<HasVersionsOnly>true</HasVersionsOnly>")
		if !w.versions { // the item represents the blob
			b.ShowAsBase()
		}
	}
	if b.Deleted != 0 {
		w.raw("<Deleted>true</Deleted>")
	}
	w.raw("<Properties>")
	w.properties(b)
	w.raw("</Properties>")
	if w.metadata {
		w.page.metadata(b.Metadata)
	}
	if w.tags && len(b.Tags) > 0 {
		w.raw("<Tags>")
		w.tagSet(b.Tags)
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

func (w *blobWriter) properties(b *state.Blob) {
	if w.c.version() >= v20171109 {
		w.time("Creation-Time", b.Created)
	}
	w.time("Last-Modified", b.Changed)
	w.raw("<Etag>")
	w.b = b.Changed.AppendHexETag(w.b)
	w.raw("</Etag>")
	w.int("Content-Length", b.Length)
	h := &b.Headers
	w.text("Content-Type", h.ContentType)
	w.text("Content-Encoding", h.Encoding)
	w.text("Content-Language", h.Language)
	if w.c.version() >= v20190202 {
		w.raw("<Content-CRC64 />")
	}
	if h.MD5 == "" {
		w.raw("<Content-MD5 />")
	} else {
		w.raw("<Content-MD5>")
		w.b = base64.StdEncoding.AppendEncode(w.b, []byte(h.MD5))
		w.raw("</Content-MD5>")
	}
	w.text("Cache-Control", h.CacheControl)
	w.text("Content-Disposition", h.Disposition)
	if b.Kind == state.PageBlob {
		w.int("x-ms-blob-sequence-number", b.Sequence)
	}
	w.text("BlobType", b.Kind.String())
	if b.Sealed {
		w.raw("<Sealed>true</Sealed>")
	}
	if tier, inferred := b.AccessTier(); tier != "" && !(inferred && b.IsSnapshot() && w.c.version() < v20190202) {
		w.text("AccessTier", tier)
		if inferred {
			w.raw("<AccessTierInferred>true</AccessTierInferred>")
		}
		if smart := b.SmartAccessTier(); smart != "" && w.c.version() >= v20260606 {
			w.text("SmartAccessTier", smart)
		}
		if b.TierChanged != 0 {
			w.time("AccessTierChangeTime", b.TierChanged)
		}
		if b.RehydrateTo != "" {
			w.text("ArchiveStatus", "rehydrate-pending-to-"+lowerTier(b.RehydrateTo))
			if w.c.version() >= wire.V20191212 {
				w.text("RehydratePriority", b.RehydratePriority())
			}
		}
	}
	switch {
	case !b.IsBase():
	case b.Deleted != 0:
		w.raw("<LeaseStatus />")
	default:
		w.lease(b.Lease, w.now)
	}
	if b.Expires != 0 && b.IsBase() {
		w.time("Expiry-Time", b.Expires)
	}
	if w.accessTimes && b.Accessed != 0 {
		w.time("LastAccessTime", b.Accessed)
	}
	if w.policies && b.Until != 0 {
		w.time("ImmutabilityPolicyUntilDate", b.Until)
		w.text("ImmutabilityPolicyMode", b.Mode())
	}
	if w.holds && b.Hold {
		w.raw("<LegalHold>true</LegalHold>")
	}
	if b.Incremental.Source != "" {
		w.raw("<IncrementalCopy>true</IncrementalCopy>")
	}
	if cp := &b.Copy; w.copies && cp.ID != "" {
		w.text("CopyId", cp.ID)
		w.text("CopySource", cp.Source)
		w.text("CopyStatus", cp.Status)
		w.text("CopyProgress", progress(cp.Copied, cp.Total))
		if cp.Completed != 0 {
			w.time("CopyCompletionTime", cp.Completed)
		}
		w.echo("CopyStatusDescription", cp.Description)
		if b.IsIncremental() {
			w.text("CopyDestinationSnapshot", b.Incremental.To.ISO())
		}
	}
	w.raw("<ServerEncrypted>true</ServerEncrypted>")
	if b.Encryption.KeySHA256 != "" {
		w.text("CustomerProvidedKeySha256", base64.StdEncoding.EncodeToString([]byte(b.Encryption.KeySHA256)))
	}
	if b.Encryption.Scope != "" {
		w.text("EncryptionScope", b.Encryption.Scope)
	}
	if b.Deleted != 0 {
		w.time("DeletedTime", b.Deleted)
		w.int("RemainingRetentionDays", b.RemainingDays(w.now))
	}
	if len(b.Tags) > 0 {
		w.int("TagCount", int64(len(b.Tags)))
	}
}
