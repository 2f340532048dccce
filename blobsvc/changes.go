package blobsvc

import (
	"github.com/lazuli-storage/lazuli/internal/azure/longpoll"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// event is what a transaction did to a blob.
type event byte

const (
	eventCreated    event = iota + 1 // the blob came to be, or was overwritten as a whole
	eventStarted                     // something began that takes time: a copy to it, or its way out of the archive
	eventContent                     // a part of its content was written
	eventProperties                  // headers, metadata, tags
	eventTier                        // its access tier was set
	eventSnapshot                    // a snapshot was made; the blob itself is as before
	eventDeleted                     // the blob, or a snapshot, was deleted
)

// note tells of an event in the transaction that brings it about. b is the record as it is stored, or as it was before it
// was deleted; slot is where.
func (s *Service) note(tx *store.Tx, c *call, e event, slot uint64, b *Blob) {
	s.recordEvent(tx, c, e, slot, b)
	if slot == baseSlot && e != eventSnapshot && e != eventDeleted {
		c.changed = true
	}
}

// update is a transaction of a call that changes blobs: what it gives up is counted, and what it changed is told, once it
// is durable.
func (s *Service) update(c *call, fn func(*store.Tx) error) error {
	err := s.db.Update(func(tx *store.Tx) error {
		c.freed, c.changed, c.expires, c.wrote, c.before = 0, false, false, 0, previousState{}
		return fn(tx)
	})
	if err != nil {
		return err
	}
	if c.expires {
		s.expiryKnown()
	}
	if c.freed > 0 {
		s.freed(c.freed)
	}
	if c.changed && s.changed != nil {
		s.changed(c.Account, c.container, c.blob)
	}
	if c.changed && s.feed != nil {
		s.feed.Add(longpoll.Key(c.Account, c.container), c.blob)
	}
	return nil
}
