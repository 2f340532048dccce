package events

import (
	"slices"
	"strconv"

	"github.com/lazuli-storage/lazuli/internal/eventlog"
	blobrecord "github.com/lazuli-storage/lazuli/internal/state/blob/record"
)

// The types of the Blob service's events that Event Grid has.
// https://learn.microsoft.com/azure/event-grid/event-schema-blob-storage
const (
	BlobCreated             = "Microsoft.Storage.BlobCreated"
	BlobDeleted             = "Microsoft.Storage.BlobDeleted"
	BlobTierChanged         = "Microsoft.Storage.BlobTierChanged"
	AsyncOperationInitiated = "Microsoft.Storage.AsyncOperationInitiated"
	// Those of accounts with a hierarchical namespace alone.
	BlobRenamed      = "Microsoft.Storage.BlobRenamed"
	DirectoryCreated = "Microsoft.Storage.DirectoryCreated"
	DirectoryDeleted = "Microsoft.Storage.DirectoryDeleted"
	DirectoryRenamed = "Microsoft.Storage.DirectoryRenamed"
)

// The types that Event Grid does not have and the change feed has. A subscription gets them if it names them.
const (
	BlobPropertiesUpdated = "Microsoft.Storage.BlobPropertiesUpdated"
	BlobSnapshotCreated   = "Microsoft.Storage.BlobSnapshotCreated"
)

// DefaultTypes are the types that a subscription gets if it names none; AllTypes are those that it can name.
var (
	DefaultTypes = []string{BlobCreated, BlobDeleted, BlobTierChanged, AsyncOperationInitiated, BlobRenamed,
		DirectoryCreated, DirectoryDeleted, DirectoryRenamed}
	AllTypes = append(append(slices.Clone(DefaultTypes), BlobPropertiesUpdated, BlobSnapshotCreated), changeTypes...)
)

// blobTypes are the types by the change feed's names.
var blobTypes = map[string]string{
	"BlobCreated": BlobCreated, "BlobDeleted": BlobDeleted, "BlobTierChanged": BlobTierChanged,
	"BlobAsyncOperationInitiated": AsyncOperationInitiated, "BlobPropertiesUpdated": BlobPropertiesUpdated,
	"BlobSnapshotCreated": BlobSnapshotCreated, "BlobRenamed": BlobRenamed, "DirectoryCreated": DirectoryCreated,
	"DirectoryDeleted": DirectoryDeleted, "DirectoryRenamed": DirectoryRenamed,
}

// creators are the operations whose creation of a blob is an event. An undeleted blob is an event of the change feed
// only. A file of a tree is created empty, and FlushWithClose says that it is complete.
var creators = []string{"PutBlob", "PutBlobFromURL", "PutBlockList", "CopyBlob", "CopyBlobFromURL",
	"IncrementalCopyBlob", "PathCreate", eventlog.FlushWithClose}

// apis are the names that Event Grid has for operations on files, and on directories.
var apis = map[string][2]string{
	"PathCreate": {"CreateFile", "CreateDirectory"}, "PutBlob": {"PutBlob", "CreateDirectory"},
	"PathDelete": {"DeleteFile", "DeleteDirectory"}, "DeleteBlob": {"DeleteBlob", "DeleteDirectory"},
	"PathRename": {"RenameFile", "RenameDirectory"},
}

// apiOf is the operation of an event as Event Grid names it.
func apiOf(b *blobrecord.Event) string {
	names, ok := apis[b.Operation]
	switch {
	case !ok:
		return b.Operation
	case b.Directory:
		return names[1]
	}
	return names[0]
}

// blobData is the data of a blob's event, with the fields that Azure documents for its type.
// https://learn.microsoft.com/azure/event-grid/event-schema-blob-storage#event-properties
type blobData struct {
	API             string      `json:"api"`
	ClientRequestID string      `json:"clientRequestId,omitempty"`
	RequestID       string      `json:"requestId,omitempty"`
	ETag            string      `json:"eTag,omitempty"`
	ContentType     string      `json:"contentType,omitempty"`
	ContentLength   *int64      `json:"contentLength,omitempty"`
	ContentOffset   *int64      `json:"contentOffset,omitempty"`
	BlobType        string      `json:"blobType,omitempty"`
	AccessTier      string      `json:"accessTier,omitempty"`
	PreviousTier    string      `json:"previousTier,omitempty"`
	Snapshot        string      `json:"snapshot,omitempty"`
	URL             string      `json:"url,omitempty"`
	SourceURL       string      `json:"sourceUrl,omitempty"`
	DestinationURL  string      `json:"destinationUrl,omitempty"`
	Recursive       string      `json:"recursive,omitempty"`
	Sequencer       string      `json:"sequencer"`
	Diagnostics     diagnostics `json:"storageDiagnostics"`
}

// diagnostics are to be ignored by subscribers.
type diagnostics struct {
	BatchID string `json:"batchId"`
}

// eventOf returns the event of an entry of the log. ok is false for changes that are not events.
func eventOf(n *eventlog.Entry) (e Event, ok bool, err error) {
	if n.Change != nil {
		e, err = ofChange(n)
		return e, err == nil, err
	}
	b, err := blobrecord.DecodeEvent(eventlog.Key(n.Account, n.Number), n.Record)
	if err != nil {
		return e, false, err
	}
	e, ok = ofBlob(&b)
	return e, ok, nil
}

// ofBlob returns the event of a change of a blob.
func ofBlob(b *blobrecord.Event) (e Event, ok bool) {
	kind := blobTypes[b.Type()]
	switch {
	case kind == "", kind == BlobCreated && !slices.Contains(creators, b.Operation):
		return e, false
	case kind == AsyncOperationInitiated && b.Operation != "SetBlobTier":
		return e, false // A copy that is under way: BlobCreated follows.
	}
	d := blobData{API: apiOf(b), ClientRequestID: b.ClientRequestID, RequestID: b.RequestID, ContentType: b.ContentType,
		BlobType: b.BlobType,
		URL:      b.URL(), Sequencer: b.Sequencer(), Diagnostics: diagnostics{b.RequestID}}
	if kind != BlobDeleted {
		d.ContentLength = &b.Length
	}
	switch kind {
	case BlobRenamed, DirectoryCreated, DirectoryDeleted, DirectoryRenamed:
		d.ContentType, d.ContentLength, d.BlobType = "", nil, ""
		if b.Source != "" {
			d.SourceURL, d.DestinationURL, d.URL = b.SourceURL(), d.URL, ""
		}
		if kind == DirectoryDeleted {
			d.Recursive = strconv.FormatBool(b.Recursive)
		}
	case BlobCreated:
		if b.Operation == "PathCreate" || b.Operation == eventlog.FlushWithClose {
			d.ContentOffset = &b.Length
		}
		d.ETag, d.AccessTier = b.ETag.HexETag(), b.Tier
		if b.TierInferred {
			d.AccessTier = "Default"
		}
	case BlobTierChanged:
		d.AccessTier = b.Tier
		for _, p := range b.Previous {
			if p.Key == "PreviousTier" {
				d.PreviousTier = p.Value
			}
		}
	case BlobPropertiesUpdated, BlobSnapshotCreated:
		d.ETag = b.ETag.HexETag()
		if b.Snapshot != 0 {
			d.Snapshot = b.Snapshot.ISO()
		}
	}
	return Event{Number: b.Sequence, ID: b.ID(), Topic: b.Topic(), Subject: b.Subject(), Type: kind, Time: b.At.Time(),
		Data: mustMarshal(d)}, true
}
