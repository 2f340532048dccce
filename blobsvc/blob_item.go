package blobsvc

import (
	"encoding/base64"
	"slices"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/endpoint"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/state/blob/lease"
	"github.com/lazuli-storage/lazuli/internal/state/blob/listing"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// itemWriter takes the properties of an item of a listing, by the names of XML elements, which are those of Arrow
// columns as well.
type itemWriter interface {
	// text takes a property that may be empty.
	text(name, value string)
	int(name string, n int64)
	time(name string, t ticks.Ticks)
	bool(name string, b bool)
	etag(changed ticks.Ticks)
	// md5 takes the Content-MD5 as bytes; it may be empty.
	md5(sum string)
}

// itemOptions hold what a request says about the items of a listing.
type itemOptions struct {
	now     ticks.Ticks
	version wire.Version
	// What include names.
	metadata, copies, tags, versions, policies, holds, permissions bool
	// accessTimes is set if the account tracks the last access.
	accessTimes bool
}

// flags writes what stands before the properties of a blob.
func (o *itemOptions) flags(w itemWriter, item *listing.Item) {
	b := item.Blob
	if b.IsSnapshot() {
		w.text("Snapshot", b.Snapshot().ISO())
	}
	if b.Version != 0 && o.versions {
		w.text("VersionId", b.Version.ISO())
		if b.IsBase() && b.Deleted == 0 {
			w.bool("IsCurrentVersion", true)
		}
	}
	if item.VersionsOnly {
		w.bool("HasVersionsOnly", true)
		if !o.versions { // the item represents the blob
			b.ShowAsBase()
		}
	}
	if b.Deleted != 0 {
		w.bool("Deleted", true)
	}
}

// uncommitted writes the properties of a blob that has uncommitted blocks alone.
func uncommitted(w itemWriter) {
	w.int("Content-Length", 0)
	w.text("BlobType", "BlockBlob")
	w.text("AccessTier", record.DefaultTier)
	w.bool("AccessTierInferred", true)
	w.text("LeaseStatus", "unlocked")
	w.text("LeaseState", "available")
	w.bool("ServerEncrypted", false)
}

// times writes what properties of blobs and of directories begin with.
func (o *itemOptions) times(w itemWriter, b *record.Blob) {
	o.dates(w, b)
	w.etag(b.Changed)
}

func (o *itemOptions) dates(w itemWriter, b *record.Blob) {
	if o.version >= endpoint.V20171109 {
		w.time("Creation-Time", b.Created)
	}
	w.time("Last-Modified", b.Changed)
}

// properties writes the properties of a blob, in Azure's order.
func (o *itemOptions) properties(w itemWriter, b *record.Blob) {
	o.times(w, b)
	o.kind(w, b)
	w.int("Content-Length", b.Length)
	o.described(w, b)
	w.md5(b.Headers.MD5)
	o.handling(w, b)
	o.rest(w, b)
}

// kind writes what b is in a tree.
func (o *itemOptions) kind(w itemWriter, b *record.Blob) {
	if b.Node != nil && o.version >= endpoint.V20201002 {
		w.text("ResourceType", resourceType(b))
	}
}

// directory writes the properties of a directory that is a prefix in a listing by hierarchy: those of a blob without
// what describes content. kind is the resource type, which is another one in Arrow.
// https://learn.microsoft.com/rest/api/storageservices/list-blobs#response-body, and an answer of the service in
// https://github.com/redpanda-data/redpanda/blob/dev/src/v/cloud_storage_clients/tests/xml_sax_parser_test.cc
func (o *itemOptions) directory(w itemWriter, b *record.Blob, kind string) {
	o.times(w, b)
	w.text("ResourceType", kind)
	w.int("Content-Length", b.Length)
	o.rest(w, b)
}

// hasDirectory reports whether a prefix is written with the properties of its directory: the reference names the
// version.
func (o *itemOptions) hasDirectory(item *listing.Item) bool {
	return item.Blob != nil && o.version >= endpoint.V20200612
}

// resourceType is the word for what b is in a tree.
func resourceType(b *record.Blob) string {
	if b.IsDirectory() {
		return "directory"
	}
	return "file"
}

// listedMetadata is the metadata that a listing shows: a directory has the mark of one.
func listedMetadata(b *record.Blob) []record.Meta {
	if b.IsDirectory() {
		return append(slices.Clip(b.Metadata), record.Meta{Name: endpoint.FolderMark, Value: "true"})
	}
	return b.Metadata
}

// described writes the headers that describe content, up to its MD5.
func (o *itemOptions) described(w itemWriter, b *record.Blob) {
	h := &b.Headers
	w.text("Content-Type", h.ContentType)
	w.text("Content-Encoding", h.Encoding)
	w.text("Content-Language", h.Language)
	if o.version >= endpoint.V20190202 {
		crc := ""
		if b.Deleted != 0 && b.Node != nil && b.Length == 0 {
			crc = "AAAAAAAAAAA=" // of no content (recorded of deleted paths)
		}
		w.text("Content-CRC64", crc)
	}
}

// handling writes the headers that say what to do with content, which follow its MD5.
func (o *itemOptions) handling(w itemWriter, b *record.Blob) {
	w.text("Cache-Control", b.Headers.CacheControl)
	w.text("Content-Disposition", b.Headers.Disposition)
}

// rest writes the properties that follow those of the content.
func (o *itemOptions) rest(w itemWriter, b *record.Blob) {
	if b.Kind == record.PageBlob {
		w.int("x-ms-blob-sequence-number", b.Sequence)
	}
	w.text("BlobType", b.Kind.String())
	if b.Sealed {
		w.bool("Sealed", true)
	}
	if tier, inferred := b.AccessTier(); tier != "" && !(inferred && b.IsSnapshot() && o.version < endpoint.V20190202) {
		w.text("AccessTier", tier)
		if inferred {
			w.bool("AccessTierInferred", true)
		}
		if smart := b.SmartAccessTier(); smart != "" && o.version >= endpoint.V20260606 {
			w.text("SmartAccessTier", smart)
		}
		if b.TierChanged != 0 {
			w.time("AccessTierChangeTime", b.TierChanged)
		}
		if b.RehydrateTo != "" {
			w.text("ArchiveStatus", "rehydrate-pending-to-"+lowerTier(b.RehydrateTo))
			if o.version >= wire.V20191212 {
				w.text("RehydratePriority", b.RehydratePriority())
			}
		}
	}
	switch {
	// Snapshots and versions have no lease.
	case !b.IsBase():
	case b.Deleted != 0: // an empty element until 2019, none since (recorded)
		if o.version < wire.V20191212 {
			w.text("LeaseStatus", "")
		}
	default:
		leaseProperties(w, b.Lease, o.now)
	}
	switch {
	case b.Deleted != 0 && b.Node != nil: // of a deleted path it is when it cannot be restored any more (recorded)
		w.time("Expiry-Time", b.PurgeAt())
	case b.Expires != 0 && b.IsBase():
		w.time("Expiry-Time", b.Expires)
	}
	if o.accessTimes && b.Accessed != 0 {
		w.time("LastAccessTime", b.Accessed)
	}
	if o.policies && b.Until != 0 {
		w.time("ImmutabilityPolicyUntilDate", b.Until)
		w.text("ImmutabilityPolicyMode", b.Mode())
	}
	if o.holds && b.Hold {
		w.bool("LegalHold", true)
	}
	if b.Incremental.Source != "" {
		w.bool("IncrementalCopy", true)
	}
	if cp := &b.Copy; o.copies && cp.ID != "" {
		w.text("CopyId", cp.ID)
		w.text("CopySource", cp.Source)
		w.text("CopyStatus", cp.Status)
		w.text("CopyProgress", progress(cp.Copied, cp.Total))
		if cp.Completed != 0 {
			w.time("CopyCompletionTime", cp.Completed)
		}
		echo(w, "CopyStatusDescription", cp.Description)
		if b.IsIncremental() {
			w.text("CopyDestinationSnapshot", b.Incremental.To.ISO())
		}
	}
	w.bool("ServerEncrypted", true)
	if b.Encryption.KeySHA256 != "" {
		w.text("CustomerProvidedKeySha256", base64.StdEncoding.EncodeToString([]byte(b.Encryption.KeySHA256)))
	}
	if b.Encryption.Scope != "" {
		w.text("EncryptionScope", b.Encryption.Scope)
	}
	if b.Deleted != 0 {
		w.time("DeletedTime", b.Deleted)
		w.int("RemainingRetentionDays", b.RemainingDays(o.now))
	}
	if b.Node != nil && o.permissions {
		w.text("Owner", b.Node.Owner)
		w.text("Group", b.Node.Group)
		w.text("Permissions", b.Node.Access.Permissions())
		w.text("Acl", b.Node.Access.String())
	}
	if len(b.Tags) > 0 {
		w.int("TagCount", int64(len(b.Tags)))
	}
}

func echo(w itemWriter, name, value string) {
	if value != "" {
		w.text(name, value)
	}
}

func leaseProperties(w itemWriter, l lease.Lease, now ticks.Ticks) {
	l = l.At(now)
	w.text("LeaseStatus", l.Status())
	w.text("LeaseState", l.State.String())
	echo(w, "LeaseDuration", l.DurationKind())
}
