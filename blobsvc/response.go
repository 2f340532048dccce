package blobsvc

import (
	"encoding/base64"
	"strconv"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// Versions at which answers change.
const (
	v20171109 wire.Version = 20171109 // creation time
	v20201002 wire.Version = 20201002
)

// now is the time of the request in ticks.
func (c *call) now() ticks.Ticks { return ticks.Of(c.Now) }

// sendVersion sets ETag and Last-Modified, and the id of the version that the call wrote.
func (c *call) sendVersion(changed ticks.Ticks) {
	if c.wrote != 0 && c.version() >= v20191212 {
		c.Set("x-ms-version-id", c.wrote.ISO())
	}
	c.Set("ETag", changed.QuotedHexETag())
	c.Set("Last-Modified", changed.RFC1123())
}

// sendLease sets the headers about a lease.
func (c *call) sendLease(l lease) {
	l = l.at(c.now())
	c.Set("x-ms-lease-status", l.status())
	c.Set("x-ms-lease-state", l.state.String())
	if kind := l.durationKind(); kind != "" {
		c.Set("x-ms-lease-duration", kind)
	}
}

// sendBlob sets the headers that Get Blob and Get Blob Properties share. slot tells snapshots from base blobs.
func (c *call) sendBlob(b *blobRecord, slot uint64) {
	c.sendVersion(b.changed)
	c.SetMetadata(b.metadata)
	c.Set("Accept-Ranges", "bytes")
	h := &b.headers
	set := func(name, value string) {
		if value != "" {
			c.Set(name, value)
		}
	}
	set("Content-Type", h.contentType)
	set("Content-Encoding", h.encoding)
	set("Content-Language", h.language)
	set("Cache-Control", h.cacheControl)
	if h.dispositionSet {
		c.Set("Content-Disposition", h.disposition)
	}
	c.Set("x-ms-blob-type", b.kind.String())
	c.Set("x-ms-server-encrypted", "true")
	c.sendEncryption(b.encryption)
	if c.version() >= v20171109 {
		c.Set("x-ms-creation-time", b.created.RFC1123())
	}
	if i := &b.incremental; i.source != "" {
		c.Set("x-ms-incremental-copy", "true")
		if slot == baseSlot {
			c.Set("x-ms-copy-destination-snapshot", i.to.ISO())
		}
	}
	switch b.kind {
	case pageBlob:
		c.SetInt("x-ms-blob-sequence-number", b.sequence)
	case appendBlob:
		c.SetInt("x-ms-blob-committed-block-count", b.blocks)
		if b.sealed {
			c.Set("x-ms-blob-sealed", "true")
		}
	}
	switch {
	case b.isSnapshot(slot):
		c.Set("x-ms-snapshot", ticks.Ticks(slot).ISO())
	case slot == baseSlot:
		c.sendLease(b.lease)
	}
	if b.version != 0 && c.version() >= v20191212 {
		c.Set("x-ms-version-id", b.version.ISO())
		if slot == baseSlot {
			c.Set("x-ms-is-current-version", "true")
		}
	}
	c.sendProtection(&b.protection)
	if b.expires != 0 && slot == baseSlot {
		c.Set("x-ms-expiry-time", b.expires.RFC1123())
	}
	if len(b.tags) > 0 && c.version() >= v20191212 {
		c.SetInt("x-ms-tag-count", int64(len(b.tags)))
	}
	if cp := &b.copy; cp.id != "" {
		c.Set("x-ms-copy-id", cp.id)
		c.Set("x-ms-copy-source", cp.source)
		c.Set("x-ms-copy-status", cp.status)
		c.Set("x-ms-copy-progress", progress(cp.copied, cp.of))
		if cp.completed != 0 {
			c.Set("x-ms-copy-completion-time", cp.completed.RFC1123())
		}
		set("x-ms-copy-status-description", cp.description)
	}
	c.sendOverrides()
}

func progress(done, of int64) string {
	return strconv.FormatInt(done, 10) + "/" + strconv.FormatInt(of, 10)
}

// sendOverrides sets the headers that a shared access signature gives instead of the blob's own.
// https://learn.microsoft.com/rest/api/storageservices/create-service-sas#override-response-headers
func (c *call) sendOverrides() {
	t := c.identity.Token()
	if t == nil {
		return
	}
	for _, h := range [...][2]string{{"Cache-Control", t.CacheControl}, {"Content-Disposition", t.ContentDisposition},
		{"Content-Encoding", t.ContentEncoding}, {"Content-Language", t.ContentLanguage}, {"Content-Type", t.ContentType}} {
		if h[1] != "" {
			c.Set(h[0], h[1])
		}
	}
}

// sendTier sets the headers about the access tier, which Get Blob Properties alone has.
func (c *call) sendTier(b *blobRecord, slot uint64) {
	tier, inferred := b.accessTier(slot)
	if tier == "" {
		return
	}
	c.Set("x-ms-access-tier", tier)
	if inferred {
		c.Set("x-ms-access-tier-inferred", "true")
	}
	if b.tierChanged != 0 {
		c.Set("x-ms-access-tier-change-time", b.tierChanged.RFC1123())
	}
	if b.rehydrateTo != "" {
		c.Set("x-ms-archive-status", "rehydrate-pending-to-"+lowerTier(b.rehydrateTo))
	}
}

// defaultTier is the account's default access tier.
const defaultTier = "Hot"

// accessTier is the tier that a blob shows; inferred if it is the account's default. Snapshots show one only if they have
// their own.
func (b *blobRecord) accessTier(slot uint64) (tier string, inferred bool) {
	switch {
	case b.tier != "":
		return b.tier, false
	case b.isSnapshot(slot):
		return "", false
	}
	return defaultTier, true
}

func lowerTier(s string) string {
	b := []byte(s)
	b[0] |= 0x20
	return string(b)
}

// base64MD5 is the header form of a stored MD5, "" for none.
func base64MD5(md5 string) string {
	if md5 == "" {
		return ""
	}
	return base64.StdEncoding.EncodeToString([]byte(md5))
}
