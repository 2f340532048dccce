package state

import (
	"bytes"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/eventlog"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// event is a change of a blob by a transaction.
type event byte

const (
	eventCreated    event = iota + 1 // the blob was created, or overwritten as a whole
	eventStarted                     // something began that takes time: a copy to it, or its way out of the archive
	eventContent                     // a part of its content was written
	eventProperties                  // headers, metadata, tags
	eventTier                        // its access tier was set
	eventSnapshot                    // a snapshot was created; the blob itself is as before
	eventDeleted                     // the blob, or a snapshot, was deleted
	eventRenamed                     // a file or directory of a tree was renamed
)

// eventNames are the types of events that the change feed has. As on Azure, a write of a part of a blob's content is
// not one of them.
var eventNames = map[event]string{
	eventCreated:    "BlobCreated",
	eventStarted:    "BlobAsyncOperationInitiated",
	eventProperties: "BlobPropertiesUpdated",
	eventTier:       "BlobTierChanged",
	eventSnapshot:   "BlobSnapshotCreated",
	eventDeleted:    "BlobDeleted",
	eventRenamed:    "BlobRenamed",
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
	kind   event
	copyID string // of events that were recorded by a release without details
}

// EventDetails are the parts of an event that not every event has.
// https://learn.microsoft.com/azure/storage/blobs/storage-blob-change-feed#schema-version-5
type EventDetails struct {
	// generation is the container's generation; 0 if it no longer exists.
	generation generation
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
	name := eventNames[f.kind]
	if f.Directory && (f.kind == eventCreated || f.kind == eventDeleted || f.kind == eventRenamed) {
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
	if f.generation == 0 {
		return ""
	}
	return fmt.Sprintf("%016X", uint64(f.generation))
}

// previousState is the blob's state before a write. Writers record it; the change feed copies it into the event. The
// zero value means no previous state.
type previousState struct {
	// exists is set if there was a blob, and tier is its access tier.
	exists bool
	tier   string
	// version is the ID of the previous version that the state is now, 0 if it is not one.
	version ticks.Ticks
	// softDeleted is set if the state is kept as soft-deleted; snapshot is the time of the deleted snapshot that it is, if
	// it is one.
	softDeleted bool
	snapshot    ticks.Ticks
	// headers and tags are the values that Set Blob Properties and Set Blob Tags replace.
	headers *Headers
	tags    *[]Tag
	// rehydrating is the tier to which an archived blob is moved.
	rehydrating string
	// renamed is the container and path before a rename; recursive is set if a directory is deleted with what is below it.
	renamed   string
	recursive bool
}

// record records that b, the base blob or a version, is about to be overwritten, deleted, or moved to another tier.
func (p *previousState) record(b *Blob) {
	p.exists = true
	p.tier, _ = b.AccessTier()
}

// recordEvent adds an event to the change feed and to the event log, if the account has them, and clears c.previous.
func (c *change) recordEvent(e event, b *Blob) {
	previous := c.previous
	c.previous = previousState{}
	logged := c.logged(e, b)
	if !c.Policy.ChangeFeed && !logged || eventNames[e] == "" || c.Container == LogsContainer ||
		c.Container == ChangeFeedContainer {
		return
	}
	f := Event{kind: e, At: c.now, Origin: c.Origin, Container: c.Container, Blob: c.Blob, ETag: b.Changed,
		ContentType: b.Headers.ContentType, BlobType: b.Kind.String(), Length: b.Length, Version: b.Version,
		EventDetails: previous.details(e, b)}
	if gen, err := containerGeneration(c.tx, c.Account, c.Container); err == nil {
		f.generation = gen
	}
	f.ClientRequestID = f.ClientRequestID[:min(len(f.ClientRequestID), eventlog.MaxRequestID)]
	f.Tier, f.TierInferred = b.AccessTier()
	if b.IsSnapshot() {
		f.Snapshot = b.Snapshot()
	}
	key, value := eventlog.Key(c.Account, nextID(c.tx)), f.encode()
	if c.Policy.ChangeFeed {
		c.tx.Put(changesBucket, key, value)
	}
	if logged {
		c.tx.Put(eventsBucket, key, value)
		c.eventLogged = true
	}
}

// logged reports whether the event log takes an event on b. Snapshots and previous versions are not blobs that a
// subscriber knows by name, so it takes their creation, and no other event on them.
func (c *change) logged(e event, b *Blob) bool {
	return c.s.logEvents && (b.slot == baseSlot || e == eventSnapshot) && c.s.log.Subscribed(c.tx, c.Account)
}

// details are the fields of an event on b in addition to the state of b.
func (p *previousState) details(e event, b *Blob) (d EventDetails) {
	d.Directory, d.Recursive, d.Source = b.IsDirectory(), p.recursive, p.renamed
	add := func(to *[]Tag, key, value string) {
		if value != "" {
			*to = append(*to, Tag{key, value})
		}
	}
	if p.snapshot != 0 {
		add(&d.Previous, "SoftDeleteSnapshot", p.snapshot.ISO())
	}
	if p.exists || p.softDeleted {
		add(&d.Previous, "WasBlobSoftDeleted", fmt.Sprint(p.softDeleted))
	}
	if p.version != 0 {
		if e != eventDeleted && b.Version != 0 {
			add(&d.Previous, "BlobVersion", b.Version.ISO())
		}
		add(&d.Previous, "LastVersion", p.version.ISO())
	}
	add(&d.Previous, "PreviousTier", p.tier)
	switch {
	case e == eventStarted && p.rehydrating != "":
		add(&d.Async, "DestinationTier", p.rehydrating)
	case e == eventStarted:
		add(&d.Async, "CopyId", b.Copy.ID)
	}
	if len(d.Async) > 0 {
		add(&d.Async, "WasAsyncOperation", "true")
	}
	if p.headers != nil {
		d.Properties = p.headers.changes(&b.Headers)
	}
	if p.tags != nil {
		d.Tagged, d.TagsBefore, d.TagsNow = true, *p.tags, b.Tags
	}
	return d
}

// changes returns the headers that differ from to.
func (h *Headers) changes(to *Headers) (list []PropertyChange) {
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

func (f *Event) encode() []byte {
	e := newEncoder(256)
	e.b = append(e.b, byte(f.kind))
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
	f.kind = event(d.byte())
	for _, s := range f.texts() {
		*s = d.string()
	}
	f.At, f.ETag, f.Length = ticks.Ticks(d.uint()), ticks.Ticks(d.uint()), int64(d.uint())
	f.Snapshot, f.Version = ticks.Ticks(d.uint()), ticks.Ticks(d.uint())
	if d.more() {
		f.EventDetails.decode(&d)
	} else if f.copyID != "" {
		f.Async = []Tag{{"CopyId", f.copyID}, {"WasAsyncOperation", "true"}}
	}
	return f, d.err()
}

func (f *EventDetails) encode(e *encoder) {
	e.uvarint(uint64(f.generation))
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
	e.uvarint(flags)
	e.string(f.Source)
}

func (f *EventDetails) decode(d *decoder) {
	f.generation, f.Previous, f.Async = generation(d.uint()), d.pairs(), d.pairs()
	f.Properties = make([]PropertyChange, d.count(3))
	for i := range f.Properties {
		f.Properties[i] = PropertyChange{d.string(), d.string(), d.string()}
	}
	if f.Tagged = d.uint() == 1; f.Tagged {
		f.TagsBefore, f.TagsNow = d.pairs(), d.pairs()
	}
	flags := d.uint()
	f.TierInferred, f.Directory, f.Recursive = flags&1 != 0, flags&2 != 0, flags&4 != 0
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

// Feed has the operations of the writer of the change feed.
type Feed struct{ *core }

// Events returns the oldest recorded events of an account: at most n, and no more after size bytes. more is set if
// there are others.
func (s Feed) Events(account string, n, size int) (list []Event, more bool, err error) {
	err = s.db.ViewLocal(func(tx *store.Tx) error {
		scope := append([]byte(account), 0)
		cur := tx.Cursor(changesBucket)
		sum := 0
		for k, v := cur.Seek(scope); k != nil && bytes.HasPrefix(k, scope); k, v = cur.Next() {
			f, err := DecodeEvent(k, v)
			if err != nil {
				return err
			}
			if len(list) == n || sum > size {
				more = true
				break
			}
			list, sum = append(list, f), sum+len(v)
		}
		return nil
	})
	return list, more, err
}

func feedStateKey(account string) []byte { return []byte("feed:" + account) }

// State returns the state of the writer of an account's change feed, as [Feed.Commit] stored it; nil for none.
func (s Feed) State(account string) (state []byte, err error) {
	err = s.db.ViewLocal(func(tx *store.Tx) error {
		state = bytes.Clone(tx.Get(metaBucket, feedStateKey(account)))
		return nil
	})
	return state, err
}

// FeedCommit is one step of the writer of a change feed.
type FeedCommit struct {
	Account string
	Files   []FeedFile
	// Events are in the files now, and need not be kept.
	Events []Event
	// Before is the writer's state before the step, as Feed.State returned it, and State the one after it.
	Before, State []byte
}

// Commit puts the files of a change feed in place and removes the events that they have, in one transaction, so
// that each event is in the feed once. It creates the container of the feed. If another node was first, it changes
// nothing and fails with [ErrFeedMoved].
func (s Feed) Commit(f *FeedCommit, now ticks.Ticks) error {
	times := make([]ticks.Ticks, len(f.Files)+1)
	for i := range times {
		times[i] = s.ticks.Next(now.Time())
	}
	return s.db.Update(func(tx *store.Tx) error {
		if !bytes.Equal(tx.Get(metaBucket, feedStateKey(f.Account)), f.Before) {
			return ErrFeedMoved
		}
		gen, err := containerGeneration(tx, f.Account, ChangeFeedContainer)
		if errors.Is(err, ErrContainerNotFound) {
			rec := Container{generation: generation(nextID(tx)), Changed: s.stamp(tx, times[0])}
			putContainer(tx, f.Account, ChangeFeedContainer, &rec)
			gen, err = rec.generation, nil
		}
		if err != nil {
			return err
		}
		for i := range f.Files {
			if err := f.Files[i].put(tx, gen, s.stamp(tx, times[i+1])); err != nil {
				return err
			}
		}
		for i := range f.Events {
			tx.Delete(changesBucket, eventlog.Key(f.Account, f.Events[i].Sequence))
		}
		tx.Put(metaBucket, feedStateKey(f.Account), f.State)
		return nil
	})
}
