package record

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/eventlog"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// EventKind is a change of a blob by a transaction.
type EventKind byte

const (
	EventCreated    EventKind = iota + 1 // the blob was created, or overwritten as a whole
	EventStarted                         // something began that takes time: a copy to it, or its way out of the archive
	EventContent                         // a part of its content was written
	EventProperties                      // headers, metadata, tags
	EventTier                            // its access tier was set
	EventSnapshot                        // a snapshot was created; the blob itself is as before
	EventDeleted                         // the blob, or a snapshot, was deleted
	EventRenamed                         // a file or directory of a tree was renamed
)

// EventNames are the types of events that the change feed has. As on Azure, a write of a part of a blob's content is
// not one of them.
var EventNames = map[EventKind]string{
	EventCreated:    "BlobCreated",
	EventStarted:    "BlobAsyncOperationInitiated",
	EventProperties: "BlobPropertiesUpdated",
	EventTier:       "BlobTierChanged",
	EventSnapshot:   "BlobSnapshotCreated",
	EventDeleted:    "BlobDeleted",
	EventRenamed:    "BlobRenamed",
}

// Event is an entry of the change feed. The transaction that causes it records it in the changes bucket under the next
// number, so that no event is lost. Package changefeed moves events from there to the files of the feed.
// https://learn.microsoft.com/azure/storage/blobs/storage-blob-change-feed
type Event struct {
	// Account and Sequence are stored in the key. Sequence numbers are in the order of commits.
	Account  string
	Sequence uint64
	eventlog.Origin
	At                          ticks.Ticks
	Container, Blob             string
	ETag                        ticks.Ticks
	ContentType, BlobType, Tier string
	Length                      int64
	Snapshot, Version           ticks.Ticks
	EventDetails
	Kind   EventKind
	copyID string // of events that were recorded by a release without details
}

// EventDetails are the parts of an event that not every event has.
// https://learn.microsoft.com/azure/storage/blobs/storage-blob-change-feed#schema-version-5
type EventDetails struct {
	// Generation is the container's generation; 0 if it no longer exists.
	Generation Generation
	// Previous and Async are pairs of previousInfo and asyncOperationInfo.
	Previous, Async []Tag
	// Properties are the headers that changed.
	Properties []PropertyChange
	// Tagged is set if the tags were set: TagsBefore and TagsNow are the tags.
	Tagged              bool
	TagsBefore, TagsNow []Tag
	// TierInferred is set if the tier is the account's default.
	TierInferred bool
	// Directory is set for an event about a directory of a tree, Recursive if it was deleted with what was below it.
	Directory, Recursive bool
	// Source is the container and the path that a file or directory was renamed from.
	Source string
}

// PropertyChange is a header that changed.
type PropertyChange struct{ Name, Previous, Current string }

// Type is the type of the event as the feed names it, and for a directory as Event Grid does; Event Grid has no events
// about other changes of directories than these three.
func (f *Event) Type() string {
	name := EventNames[f.Kind]
	// A directory has three events of its own. All others of directories have no name in Event Grid, and keep that of
	// blobs.
	if f.Directory && (f.Kind == EventCreated || f.Kind == EventDeleted || f.Kind == EventRenamed) {
		return "Directory" + strings.TrimPrefix(name, "Blob")
	}
	return name
}

// ID identifies the event.
func (f *Event) ID() string { return eventlog.ID(f.RequestID, f.Sequence) }

// Sequencer orders the events of a blob as strings.
func (f *Event) Sequencer() string { return eventlog.Sequencer(f.Sequence) }

// Topic is the account as Azure Resource Manager names it.
func (f *Event) Topic() string { return eventlog.Topic(f.Account) }

// URL is the blob's address, as the client that changed it wrote it; without a host for background work.
func (f *Event) URL() string {
	return f.Base + "/" + f.Container + "/" + strings.ReplaceAll(url.PathEscape(f.Blob), "%2F", "/")
}

// SourceURL is the address of the path that a file or directory was renamed from.
func (f *Event) SourceURL() string {
	return f.Base + "/" + strings.ReplaceAll(url.PathEscape(f.Source), "%2F", "/")
}

// Subject is the path of the blob within the account.
func (f *Event) Subject() string {
	return "/blobServices/default/containers/" + f.Container + "/blobs/" + f.Blob
}

// ContainerVersion identifies the container: another container of the name has another version.
func (f *Event) ContainerVersion() string {
	if f.Generation == 0 {
		return ""
	}
	return fmt.Sprintf("%016X", uint64(f.Generation))
}

// Changes returns the headers that differ from to.
func (h *Headers) Changes(to *Headers) (list []PropertyChange) {
	for _, p := range [...]PropertyChange{
		{"ContentLanguage", h.Language, to.Language}, {"CacheControl", h.CacheControl, to.CacheControl},
		{"ContentEncoding", h.Encoding, to.Encoding}, {"ContentMD5", h.Base64MD5(), to.Base64MD5()},
		{"ContentDisposition", h.Disposition, to.Disposition}, {"ContentType", h.ContentType, to.ContentType},
	} {
		if p.Previous != p.Current {
			list = append(list, p)
		}
	}
	return list
}

// texts are the fields that are strings, in the order in which they are stored.
func (f *Event) texts() [10]*string {
	return [...]*string{&f.Operation, &f.RequestID, &f.ClientRequestID, &f.Base, &f.Container, &f.Blob, &f.ContentType,
		&f.BlobType, &f.Tier, &f.copyID}
}

func (f *Event) Encode() []byte {
	e := newEncoder(256)
	e.b = append(e.b, byte(f.Kind))
	for _, s := range f.texts() {
		e.string(*s)
	}
	for _, n := range [...]int64{int64(f.At), int64(f.ETag), f.Length, int64(f.Snapshot), int64(f.Version)} {
		e.uvarint(uint64(n))
	}
	f.EventDetails.encode(&e)
	return e.b
}

// DecodeEvent returns the event of an entry of the change feed or of the event log.
func DecodeEvent(k, v []byte) (f Event, err error) {
	if f.Account, f.Sequence, err = eventlog.ParseKey(k); err != nil {
		return f, err
	}
	d := newDecoder(v)
	f.Kind = EventKind(d.byte())
	for _, s := range f.texts() {
		*s = d.string()
	}
	f.At = ticks.Ticks(d.uint())
	f.ETag = ticks.Ticks(d.uint())
	f.Length = int64(d.uint())
	f.Snapshot = ticks.Ticks(d.uint())
	f.Version = ticks.Ticks(d.uint())
	// Events of releases without details end here. Of these, the copy ID was stored alone.
	if d.more() {
		f.EventDetails.decode(&d)
	} else if f.copyID != "" {
		f.Async = []Tag{{"CopyId", f.copyID}, {"WasAsyncOperation", "true"}}
	}
	return f, d.err()
}

func (f *EventDetails) encode(e *encoder) {
	e.uvarint(uint64(f.Generation))
	e.pairs(f.Previous)
	e.pairs(f.Async)
	e.uvarint(uint64(len(f.Properties)))
	for _, p := range f.Properties {
		e.string(p.Name)
		e.string(p.Previous)
		e.string(p.Current)
	}
	if f.Tagged {
		e.uvarint(1)
		e.pairs(f.TagsBefore)
		e.pairs(f.TagsNow)
	} else {
		e.uvarint(0)
	}
	var flags uint64
	for i, set := range [...]bool{f.TierInferred, f.Directory, f.Recursive} {
		if set {
			flags |= 1 << i
		}
	}
	// One number with room for more: a release that knows fewer flags ignores the others.
	e.uvarint(flags)
	e.string(f.Source)
}

func (f *EventDetails) decode(d *decoder) {
	f.Generation = Generation(d.uint())
	f.Previous = d.pairs()
	f.Async = d.pairs()
	f.Properties = make([]PropertyChange, d.count(3))
	for i := range f.Properties {
		f.Properties[i] = PropertyChange{d.string(), d.string(), d.string()}
	}
	if f.Tagged = d.uint() == 1; f.Tagged {
		f.TagsBefore = d.pairs()
		f.TagsNow = d.pairs()
	}
	flags := d.uint()
	f.TierInferred = flags&1 != 0
	f.Directory = flags&2 != 0
	f.Recursive = flags&4 != 0
	f.Source = d.string()
}

func (e *encoder) pairs(list []Tag) {
	e.uvarint(uint64(len(list)))
	for _, t := range list {
		e.string(t.Key)
		e.string(t.Value)
	}
}

func (d *decoder) pairs() []Tag {
	list := make([]Tag, d.count(2))
	for i := range list {
		list[i] = Tag{d.string(), d.string()}
	}
	return list
}
