package blobsvc

import (
	"strconv"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/state"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// sendResult sets ETag and Last-Modified, and the ID of the version that a write created.
func (c *call) sendResult(r *state.Result) {
	if r.Version != 0 && c.version() >= v20191010 {
		c.Set("x-ms-version-id", r.Version.ISO())
	}
	c.sendChanged(r.Changed)
}

// sendWritten is sendResult for writes of content.
func (c *call) sendWritten(r *state.Result) {
	c.sendResult(r)
	c.sendEncrypted(r.Encryption)
}

// sendBlobMetadata sets the metadata of a blob, and the mark of a directory.
func (c *call) sendBlobMetadata(b *state.Blob) {
	c.sendMetadata(b.Metadata)
	if b.IsDirectory() {
		c.Set("x-ms-meta-"+folderMark, "true")
	}
}

// sendBlob sets the headers that Get Blob and Get Blob Properties share.
func (c *call) sendBlob(b *state.Blob) {
	c.sendChanged(b.Changed)
	c.sendBlobMetadata(b)
	if c.answerVersion() >= v20110818 {
		c.Set("Accept-Ranges", "bytes")
	}
	h := &b.Headers
	set := func(name, value string) {
		if value != "" {
			c.Set(name, value)
		}
	}
	set("Content-Type", h.ContentType)
	set("Content-Encoding", h.Encoding)
	set("Content-Language", h.Language)
	set("Cache-Control", h.CacheControl)
	if h.DispositionSet {
		c.Set("Content-Disposition", h.Disposition)
	}
	c.Set("x-ms-blob-type", b.Kind.String())
	c.Set("x-ms-server-encrypted", "true")
	c.sendEncryption(b.Encryption)
	if c.version() >= v20171109 {
		c.Set("x-ms-creation-time", b.Created.RFC1123())
	}
	if i := &b.Incremental; i.Source != "" {
		c.Set("x-ms-incremental-copy", "true")
		if b.IsBase() {
			c.Set("x-ms-copy-destination-snapshot", i.To.ISO())
		}
	}
	switch b.Kind {
	case state.PageBlob:
		c.SetInt("x-ms-blob-sequence-number", b.Sequence)
	case state.AppendBlob:
		c.SetInt("x-ms-blob-committed-block-count", b.Blocks)
		if b.Sealed {
			c.Set("x-ms-blob-sealed", "true")
		}
	}
	switch {
	case b.IsSnapshot():
		if c.version() < v20190202 {
			c.Set("x-ms-snapshot", b.Snapshot().ISO())
		}
	case b.IsBase() && !c.Query.Has("versionid"):
		c.sendLease(b.Lease)
	}
	if b.Version != 0 && c.version() >= v20191010 {
		c.Set("x-ms-version-id", b.Version.ISO())
		if b.IsBase() {
			c.Set("x-ms-is-current-version", "true")
		}
	}
	c.sendProtection(&b.Protection)
	if b.Expires != 0 && b.IsBase() {
		c.Set("x-ms-expiry-time", b.Expires.RFC1123())
	}
	if len(b.Tags) > 0 && c.version() >= wire.V20191212 {
		c.SetInt("x-ms-tag-count", int64(len(b.Tags)))
	}
	if cp := &b.Copy; cp.ID != "" {
		c.Set("x-ms-copy-id", cp.ID)
		c.Set("x-ms-copy-source", cp.Source)
		c.Set("x-ms-copy-status", cp.Status)
		c.Set("x-ms-copy-progress", progress(cp.Copied, cp.Total))
		if cp.Completed != 0 {
			c.Set("x-ms-copy-completion-time", cp.Completed.RFC1123())
		}
		set("x-ms-copy-status-description", cp.Description)
	}
	if b.Node != nil {
		c.sendNode(b)
	}
	c.sendOverrides()
}

// sendNode sets the headers about the access control of a file or directory of a tree.
func (c *call) sendNode(b *state.Blob) {
	if c.version() >= v20200612 {
		c.sendOwner(b)
	}
	if c.version() >= v20201002 && b.IsBase() {
		kind := "file"
		if b.IsDirectory() {
			kind = "directory"
		}
		c.Set("x-ms-resource-type", kind)
	}
	if c.version() >= v20230803 {
		c.Set("x-ms-acl", b.Node.Access.String())
	}
	if b.Node.Context != "" {
		c.Set("x-ms-encryption-context", b.Node.Context)
	}
}

func progress(done, of int64) string {
	return strconv.FormatInt(done, 10) + "/" + strconv.FormatInt(of, 10)
}

// sendTier sets the headers about the access tier, which Get Blob Properties has, and Get Blob from version 2026-10-06
// on.
func (c *call) sendTier(b *state.Blob) {
	tier, inferred := b.AccessTier()
	if tier == "" || inferred && b.IsSnapshot() && c.version() < v20190202 {
		return
	}
	c.Set("x-ms-access-tier", tier)
	if inferred {
		c.Set("x-ms-access-tier-inferred", "true")
	}
	if smart := b.SmartAccessTier(); smart != "" && c.version() >= v20260606 {
		c.Set("x-ms-smart-access-tier", smart)
	}
	if b.TierChanged != 0 {
		c.Set("x-ms-access-tier-change-time", b.TierChanged.RFC1123())
	}
	if b.RehydrateTo != "" {
		c.Set("x-ms-archive-status", "rehydrate-pending-to-"+lowerTier(b.RehydrateTo))
		if c.version() >= wire.V20191212 {
			c.Set("x-ms-rehydrate-priority", b.RehydratePriority())
		}
	}
}

func lowerTier(s string) string {
	b := []byte(s)
	b[0] |= 0x20
	return string(b)
}

// metadata reads the x-ms-meta headers; nil if none exists.
func (c *call) metadata() ([]state.Meta, error) {
	list, err := c.Metadata()
	if list == nil || err != nil {
		return nil, err
	}
	out := make([]state.Meta, len(list))
	for i, m := range list {
		out[i] = state.Meta(m)
	}
	return out, nil
}

// sendMetadata sets the x-ms-meta headers.
func (c *call) sendMetadata(list []state.Meta) { c.SetMetadata(wireMetadata(list)) }

func wireMetadata(list []state.Meta) []wire.Meta {
	out := make([]wire.Meta, len(list))
	for i, m := range list {
		out[i] = wire.Meta(m)
	}
	return out
}
