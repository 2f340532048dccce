package blob

import (
	"errors"
	"time"

	"github.com/lazuli-storage/lazuli/internal/state/blob/content"
	"github.com/lazuli-storage/lazuli/internal/state/blob/encryption"
	"github.com/lazuli-storage/lazuli/internal/state/blob/listing"
	"github.com/lazuli-storage/lazuli/internal/state/blob/posix"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// Read has the parameters of a read of a blob.
type Read struct {
	Ref
	// Now is the time of the request.
	Now time.Time
	// If must hold for the blob.
	If Preconditions
	// Want are the permissions that the caller needs on a file or directory of a tree.
	Want posix.Perm
	// Key is a customer-provided key, nil for none.
	Key *encryption.CustomerKey
	// TrackAccess records that the content was read.
	TrackAccess bool
}

func (r *Read) now() ticks.Ticks { return ticks.Of(r.Now) }

// view reads the record that r names into b, checks the preconditions of a read, and calls more in the same
// transaction.
func (s *core) view(r *Read, b *record.Blob, more func(tx *store.Tx, it record.Item) error) error {
	return s.db.View(func(tx *store.Tx) error {
		it, err := r.existing(tx)
		if err != nil {
			return err
		}
		if err := r.At.Get(tx, it, r.now(), b); err != nil {
			return err
		}
		if err := b.Permit(r.Caller, r.Want); err != nil {
			return err
		}
		if err := r.If.checkRead(b, r.now()); err != nil {
			return err
		}
		return more(tx, it)
	})
}

// Get reads properties and metadata of a blob into b. The customer-provided key must be right.
func (s Blobs) Get(r *Read, b *record.Blob) error {
	return s.view(r, b, func(*store.Tx, record.Item) error { return s.unlock(r.Account, b, r.Key) })
}

// Status is Get without a customer-provided key, which the status of a path does not need.
func (s Blobs) Status(r *Read, b *record.Blob) error {
	return s.view(r, b, func(*store.Tx, record.Item) error { return nil })
}

// Get returns the tags of a blob, which need no customer-provided key.
func (s Tags) Get(r *Read) ([]record.Tag, error) {
	var b record.Blob
	err := s.view(r, &b, func(*store.Tx, record.Item) error { return nil })
	return b.Tags, err
}

// Range is a range of bytes as a request names it. End is inclusive, OpenEnd where the range goes to the end of the
// blob.
type Range struct{ Start, End int64 }

// OpenEnd is the end of a range that goes to the end of the blob.
const OpenEnd = int64(1<<63 - 1)

// WholeBlob is the range of all bytes.
var WholeBlob = Range{0, OpenEnd}

// Within cuts r to a blob of length bytes and returns offset and length. It fails with a [*RangeError] if r begins at
// or past the end.
func (r Range) Within(length int64) (off, n int64, err error) {
	if r.Start >= length {
		return 0, 0, &RangeError{length}
	}
	return r.Start, min(r.End, length-1) - r.Start + 1, nil
}

// Content is an open range of a blob. Close it.
type Content struct {
	*content.Reader
	// Offset and Length are the range in the blob.
	Offset, Length int64
}

// Open opens a range of a blob, nil for all of it, and reads the blob's properties into b. kind, unless 0, is the
// type that the blob must have.
func (s Blobs) Open(r *Read, kind record.Kind, within *Range, b *record.Blob) (c Content, err error) {
	err = s.view(r, b, func(tx *store.Tx, it record.Item) (err error) {
		if kind != 0 && b.Kind != kind {
			return ErrBlobType
		}
		if err := s.unlock(r.Account, b, r.Key); err != nil {
			return err
		}
		if b.Tier == record.ArchiveTier {
			return ErrArchived
		}
		if b.IsIncremental() {
			return ErrIncremental
		}
		c.Offset = 0
		c.Length = b.Length
		if within != nil {
			if c.Offset, c.Length, err = within.Within(b.Length); err != nil {
				return err
			}
		}
		if c.Reader, err = s.open(tx, b, c.Offset, c.Length); err != nil {
			return err
		}
		if r.TrackAccess {
			s.maintenance.Accesses.Note(record.BlobKey(it, b.Slot), b, r.now())
		}
		return nil
	})
	return c, err
}

// EachNamed calls fn with each named base blob that exists.
func (s Blobs) EachNamed(account, container string, names []string, now time.Time,
	fn func(name string, b *record.Blob) error) error {
	return s.db.View(func(tx *store.Tx) error {
		for _, name := range names {
			it, err := (&Ref{Account: account, Container: container, Blob: name}).existing(tx)
			if err != nil && !errors.Is(err, record.ErrBlobNotFound) {
				return err
			}
			var b record.Blob
			switch err := record.GetBlob(tx, it, record.BaseSlot, ticks.Of(now), &b); {
			case errors.Is(err, record.ErrBlobNotFound):
			case err != nil:
				return err
			default:
				b.FinishRehydration(ticks.Of(now))
				if err := fn(name, &b); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// List calls emit with the items of a page in order, and returns where the next page begins, nil at the end.
func (s Blobs) List(account, container string, l *listing.Blobs, emit func(listing.Item) error) (next []byte,
	err error) {
	err = s.db.View(func(tx *store.Tx) (err error) {
		next, err = l.Page(tx, account, container, emit)
		return err
	})
	return next, err
}
