package blobsvc

import (
	"fmt"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/avro"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// previousState is what was there before a write: those who overwrite, delete or change a blob leave it in their call for the feed, which tells
// it with the event and forgets it. The zero value is nothing.
type previousState struct {
	// there is set if there was a blob, and tier is its access tier.
	there bool
	tier  string
	// version is the previous version that it is now, if it is one.
	version ticks.Ticks
	// softDeleted is set if it is kept as soft-deleted, and snapshot is as which snapshot, if it is one.
	softDeleted bool
	snapshot    ticks.Ticks
	// headers and tags are those that Set Blob Properties and Set Blob Tags replace.
	headers *Headers
	tags    *[]Tag
	// rehydrating is the tier that an archived blob is on its way to.
	rehydrating string
}

// was notes that b, the base blob or a version, is about to be overwritten, deleted, or moved to another tier.
func (p *previousState) was(b *Blob, slot uint64) {
	p.there = true
	p.tier, _ = b.AccessTier(slot)
}

// EventDetails are the parts of an event that not every one has.
// https://learn.microsoft.com/azure/storage/blobs/storage-blob-change-feed#schema-version-5
type EventDetails struct {
	// container is the generation of the container; 0 for one that is not there any more.
	container uint64
	// previous and async are pairs of previousInfo and asyncOperationInfo.
	previous, async []Tag
	// properties are the headers that changed.
	properties []propertyChange
	// tagged is set if the tags were set: before and now are they.
	tagged      bool
	before, now []Tag
}

type propertyChange struct{ name, previous, current string }

// details says what an event on b tells beside its state. c.before says what was there, and is empty afterwards.
func (c *call) details(tx *store.Tx, e event, b *Blob) (d EventDetails) {
	was := c.before
	c.before = previousState{}
	if gen, err := containerGen(tx, c.Account, c.container); err == nil {
		d.container = gen
	}
	add := func(to *[]Tag, key, value string) {
		if value != "" {
			*to = append(*to, Tag{key, value})
		}
	}
	if was.snapshot != 0 {
		add(&d.previous, "SoftDeleteSnapshot", was.snapshot.ISO())
	}
	if was.there || was.softDeleted {
		add(&d.previous, "WasBlobSoftDeleted", fmt.Sprint(was.softDeleted))
	}
	if was.version != 0 {
		if e != eventDeleted && b.Version != 0 {
			add(&d.previous, "BlobVersion", b.Version.ISO())
		}
		add(&d.previous, "LastVersion", was.version.ISO())
	}
	add(&d.previous, "PreviousTier", was.tier)
	switch {
	case e == eventStarted && was.rehydrating != "":
		add(&d.async, "DestinationTier", was.rehydrating)
	case e == eventStarted:
		add(&d.async, "CopyId", b.Copy.ID)
	}
	if len(d.async) > 0 {
		add(&d.async, "WasAsyncOperation", "true")
	}
	if h := was.headers; h != nil {
		for _, p := range [...]propertyChange{
			{"ContentLanguage", h.Language, b.Headers.Language}, {"CacheControl", h.CacheControl, b.Headers.CacheControl},
			{"ContentEncoding", h.Encoding, b.Headers.Encoding}, {"ContentMD5", base64MD5(h.MD5), base64MD5(b.Headers.MD5)},
			{"ContentDisposition", h.Disposition, b.Headers.Disposition}, {"ContentType", h.ContentType, b.Headers.ContentType},
		} {
			if p.previous != p.current {
				d.properties = append(d.properties, p)
			}
		}
	}
	if was.tags != nil {
		d.tagged, d.before, d.now = true, *was.tags, b.Tags
	}
	return d
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

func (f *EventDetails) encode(e *encoder) {
	e.uvarint(f.container)
	e.pairs(f.previous)
	e.pairs(f.async)
	e.uvarint(uint64(len(f.properties)))
	for _, p := range f.properties {
		e.string(p.name)
		e.string(p.previous)
		e.string(p.current)
	}
	if !f.tagged {
		e.uvarint(0)
		return
	}
	e.uvarint(1)
	e.pairs(f.before)
	e.pairs(f.now)
}

func (f *EventDetails) decode(d *decoder) {
	f.container, f.previous, f.async = d.uint(), d.pairs(), d.pairs()
	f.properties = make([]propertyChange, d.count(3))
	for i := range f.properties {
		f.properties[i] = propertyChange{d.string(), d.string(), d.string()}
	}
	if f.tagged = d.uint() == 1; f.tagged {
		f.before, f.now = d.pairs(), d.pairs()
	}
}

// containerVersion is the name of a container's incarnation: another container of the name has another.
func (f *EventDetails) containerVersion() string {
	if f.container == 0 {
		return ""
	}
	return fmt.Sprintf("%016X", f.container)
}

// appendMap appends a map of strings.
func appendMap(b []byte, list []Tag) []byte {
	b = avro.AppendMapHead(b, len(list))
	for _, t := range list {
		b = avro.AppendString(avro.AppendString(b, t.Key), t.Value)
	}
	return avro.AppendMapEnd(b)
}

// appendOptionalMap appends a union of null and a map of strings: null for an empty one.
func appendOptionalMap(b []byte, list []Tag) []byte {
	if len(list) == 0 {
		return avro.AppendLong(b, 0)
	}
	return appendMap(avro.AppendLong(b, 1), list)
}

// appendProperties appends blobPropertiesUpdated.
func (f *EventDetails) appendProperties(b []byte) []byte {
	if len(f.properties) == 0 {
		return avro.AppendLong(b, 0)
	}
	b = avro.AppendMapHead(avro.AppendLong(b, 1), len(f.properties))
	for _, p := range f.properties {
		b = appendMap(avro.AppendString(b, p.name), []Tag{{"current", p.current}, {"previous", p.previous}})
	}
	return avro.AppendMapEnd(b)
}

// appendTags appends blobTagsUpdated.
func (f *EventDetails) appendTags(b []byte) []byte {
	if !f.tagged {
		return avro.AppendLong(b, 0)
	}
	b = avro.AppendMapHead(avro.AppendLong(b, 1), 2)
	b = appendMap(avro.AppendString(b, "previous"), f.before)
	b = appendMap(avro.AppendString(b, "current"), f.now)
	return avro.AppendMapEnd(b)
}
