package blobsvc

import (
	"strconv"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/endpoint"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	state "github.com/lazuli-storage/lazuli/internal/state/blob"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
)

// sendResult sets ETag and Last-Modified, and the ID of the version that a write created.
func sendResult(c *call, r *state.Result) {
	if r.Version != 0 && c.EffectiveVersion() >= endpoint.V20191010 {
		c.Set("x-ms-version-id", r.Version.ISO())
	}
	c.SendChanged(r.Changed)
}

// sendWritten is sendResult for writes of content.
func sendWritten(c *call, r *state.Result) {
	sendResult(c, r)
	c.SendEncrypted(r.Encryption)
}

// sendBlobMetadata sets the metadata of a blob, and the mark of a directory.
func sendBlobMetadata(c *call, b *record.Blob) {
	c.SetMetadata(wireMetadata(b.Metadata))
	if b.IsDirectory() {
		c.Set("x-ms-meta-"+endpoint.FolderMark, "true")
	}
}

// sendBlob sets the headers that Get Blob and Get Blob Properties share.
func sendBlob(c *call, b *record.Blob) {
	c.SendChanged(b.Changed)
	sendBlobMetadata(c, b)
	if c.AnswerVersion() >= endpoint.V20110818 {
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
	// A disposition that was set to nothing is sent as an empty header, one that was never set is not.
	if h.DispositionSet {
		c.Set("Content-Disposition", h.Disposition)
	}
	c.Set("x-ms-blob-type", b.Kind.String())
	c.Set("x-ms-server-encrypted", "true")
	c.SendEncryption(b.Encryption)
	if c.EffectiveVersion() >= endpoint.V20171109 {
		c.Set("x-ms-creation-time", b.Created.RFC1123())
	}
	if i := &b.Incremental; i.Source != "" {
		c.Set("x-ms-incremental-copy", "true")
		if b.IsBase() {
			c.Set("x-ms-copy-destination-snapshot", i.To.ISO())
		}
	}
	switch b.Kind {
	case record.PageBlob:
		c.SetInt("x-ms-blob-sequence-number", b.Sequence)
	case record.AppendBlob:
		c.SetInt("x-ms-blob-committed-block-count", b.Blocks)
		if b.Sealed {
			c.Set("x-ms-blob-sealed", "true")
		}
	}
	// A version that is read by its ID has no lease, even if it is the current one.
	if b.IsBase() && !c.Query.Has("versionid") {
		c.SendLease(b.Lease)
	}
	if b.Version != 0 && c.EffectiveVersion() >= endpoint.V20191010 {
		c.Set("x-ms-version-id", b.Version.ISO())
		if b.IsBase() {
			c.Set("x-ms-is-current-version", "true")
		}
	}
	sendProtection(c, &b.Protection)
	if b.Expires != 0 && b.IsBase() {
		c.Set("x-ms-expiry-time", b.Expires.RFC1123())
	}
	if len(b.Tags) > 0 && c.EffectiveVersion() >= wire.V20191212 {
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
		sendNode(c, b)
	}
	// The overrides of a SAS come last, since they replace headers from above.
	c.SendOverrides()
}

// sendNode sets the headers about the access control of a file or directory of a tree.
func sendNode(c *call, b *record.Blob) {
	if c.EffectiveVersion() >= endpoint.V20200612 {
		c.SendOwner(b)
	}
	if c.EffectiveVersion() >= endpoint.V20201002 && b.IsBase() {
		kind := "file"
		if b.IsDirectory() {
			kind = "directory"
		}
		c.Set("x-ms-resource-type", kind)
	}
	if c.EffectiveVersion() >= endpoint.V20230803 {
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
func sendTier(c *call, b *record.Blob) {
	tier, inferred := b.AccessTier()
	if tier == "" || inferred && b.IsSnapshot() && c.EffectiveVersion() < endpoint.V20190202 {
		return
	}
	c.Set("x-ms-access-tier", tier)
	if inferred {
		c.Set("x-ms-access-tier-inferred", "true")
	}
	if smart := b.SmartAccessTier(); smart != "" && c.EffectiveVersion() >= endpoint.V20260606 {
		c.Set("x-ms-smart-access-tier", smart)
	}
	if b.TierChanged != 0 {
		c.Set("x-ms-access-tier-change-time", b.TierChanged.RFC1123())
	}
	if b.RehydrateTo != "" {
		c.Set("x-ms-archive-status", "rehydrate-pending-to-"+lowerTier(b.RehydrateTo))
		if c.EffectiveVersion() >= wire.V20191212 {
			c.Set("x-ms-rehydrate-priority", b.RehydratePriority())
		}
	}
}

func lowerTier(s string) string {
	b := []byte(s)
	b[0] |= 0x20
	return string(b)
}

func wireMetadata(list []record.Meta) []wire.Meta {
	out := make([]wire.Meta, len(list))
	for i, m := range list {
		out[i] = wire.Meta(m)
	}
	return out
}

// sendProtection sets the headers about a policy and a hold.
func sendProtection(c *call, p *record.Protection) {
	if p.Until != 0 {
		c.Set(untilHeader, p.Until.RFC1123())
		c.Set(modeHeader, p.Mode())
	}
	if p.Hold {
		c.Set(holdHeader, "true")
	}
}
