package blob

import (
	"fmt"

	"github.com/lazuli-storage/lazuli/internal/eventlog"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
)

// changes stores b, the base blob, snapshot or version, as changed at c.at, and records the event.
func (c *change) changes(e record.EventKind, b *record.Blob) {
	b.Changed = c.at
	c.put(b)
	c.note(e, b)
	c.result.Changed = b.Changed
}

// note records an event in the transaction that causes it. b is the record as it is stored, or as it was before it was
// deleted.
func (c *change) note(e record.EventKind, b *record.Blob) {
	c.recordEvent(e, b)
	if b.Slot == record.BaseSlot && e != record.EventSnapshot && e != record.EventDeleted {
		c.written = true
	}
}

// recordEvent adds an event to the change feed and to the event log, if the account has them, and clears c.previous.
func (c *change) recordEvent(e record.EventKind, b *record.Blob) {
	previous := c.previous
	c.previous = previousState{}
	logged := c.logged(e, b)
	if !c.Policy.ChangeFeed && !logged || record.EventNames[e] == "" || c.Container == record.LogsContainer ||
		c.Container == record.ChangeFeedContainer {
		return
	}
	f := record.Event{Kind: e, At: c.now, Origin: c.Origin, Container: c.Container, Blob: c.Blob, ETag: b.Changed,
		ContentType: b.Headers.ContentType, BlobType: b.Kind.String(), Length: b.Length, Version: b.Version,
		EventDetails: previous.details(e, b)}
	if gen, err := record.GenerationOf(c.tx, c.Account, c.Container); err == nil {
		f.Generation = gen
	}
	f.ClientRequestID = f.ClientRequestID[:min(len(f.ClientRequestID), eventlog.MaxRequestID)]
	f.Tier, f.TierInferred = b.AccessTier()
	if b.IsSnapshot() {
		f.Snapshot = b.Snapshot()
	}
	key, value := eventlog.Key(c.Account, record.NextID(c.tx)), f.Encode()
	if c.Policy.ChangeFeed {
		c.tx.Put(record.ChangesBucket, key, value)
	}
	if logged {
		c.tx.Put(record.EventsBucket, key, value)
		c.eventLogged = true
	}
}

// logged reports whether the event log takes an event on b. Snapshots and previous versions are not blobs that a
// subscriber knows by name, so it takes their creation, and no other event on them.
func (c *change) logged(e record.EventKind, b *record.Blob) bool {
	return c.s.logEvents && (b.Slot == record.BaseSlot || e == record.EventSnapshot) && c.s.log.Subscribed(c.tx, c.Account)
}

// details are the fields of an event on b in addition to the state of b.
func (p *previousState) details(e record.EventKind, b *record.Blob) (d record.EventDetails) {
	d.Directory = b.IsDirectory()
	d.Recursive = p.recursive
	d.Source = p.renamed
	// The schema of the change feed has a field only where there is a value.
	add := func(to *[]record.Tag, key, value string) {
		if value != "" {
			*to = append(*to, record.Tag{Key: key, Value: value})
		}
	}
	if p.snapshot != 0 {
		add(&d.Previous, "SoftDeleteSnapshot", p.snapshot.ISO())
	}
	if p.exists || p.softDeleted {
		add(&d.Previous, "WasBlobSoftDeleted", fmt.Sprint(p.softDeleted))
	}
	if p.version != 0 {
		// A deletion leaves one version, the last. All other writes make a second one.
		if e != record.EventDeleted && b.Version != 0 {
			add(&d.Previous, "BlobVersion", b.Version.ISO())
		}
		add(&d.Previous, "LastVersion", p.version.ISO())
	}
	add(&d.Previous, "PreviousTier", p.tier)
	// Both a copy and a rehydration are announced when they start; of their end the event of the new state tells.
	switch {
	case e == record.EventStarted && p.rehydrating != "":
		add(&d.Async, "DestinationTier", p.rehydrating)
	case e == record.EventStarted:
		add(&d.Async, "CopyId", b.Copy.ID)
	}
	if len(d.Async) > 0 {
		add(&d.Async, "WasAsyncOperation", "true")
	}
	if p.headers != nil {
		d.Properties = p.headers.Changes(&b.Headers)
	}
	if p.tags != nil {
		d.Tagged = true
		d.TagsBefore = *p.tags
		d.TagsNow = b.Tags
	}
	return d
}
