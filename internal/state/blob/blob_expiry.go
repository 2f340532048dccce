package blob

import (
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// A blob with an expiry time is deleted at that time, as Delete Blob with its snapshots would: it stays as a version or
// soft-deleted if the account is set so. The background deletes it (ExpireBlobs); the expiring bucket has such blobs in
// the order of their times, and entries that are out of date are recognised when they are due. From its expiry time on
// requests treat the blob as absent, whether the background has come to it or not: reads do not find it, and a write
// that takes its place deletes it first, in its own transaction.

// Expiry is the expiry time that a request sets.
type Expiry struct {
	// At is the time; 0 is never.
	At ticks.Ticks
	// AfterCreation, unless 0, is the time after the creation of the blob, in place of At.
	AfterCreation ticks.Ticks
}

// maxExpiry is the end of the year 9999, the last time that has a form in a header.
const maxExpiry ticks.Ticks = 3155378975999999999

// Of returns the expiry time of a blob that was created at a time. It fails with [ErrExpiry] unless the time is in the
// future; a time after the creation may have passed, as a live test of the SDK for Go shows.
func (e Expiry) Of(created, now ticks.Ticks) (ticks.Ticks, error) {
	at := e.At
	switch {
	case e.AfterCreation != 0:
		at = created + e.AfterCreation
	case at == 0:
		return 0, nil
	}
	if at <= now && e.AfterCreation == 0 || at > maxExpiry {
		return 0, ErrExpiry
	}
	return at, nil
}

// SetExpiry sets the expiry time of a blob.
func (s Blobs) SetExpiry(w *Write, e Expiry) (Result, error) {
	return s.updateBlob(w, (*Preconditions).checkWrite, func(c *change, b *record.Blob) (err error) {
		if b.IsDirectory() {
			return ErrIsDirectory
		}
		if b.Expires, err = e.Of(b.Created, c.now); err != nil {
			return err
		}
		c.put(b) // the entity tag and the time of the last change stay (recorded)
		c.note(record.EventProperties, b)
		c.result.Changed = b.Changed
		c.expireLater(b)
		return nil
	})
}
