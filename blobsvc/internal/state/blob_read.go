package state

import (
	"errors"
	"time"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/content"
	"github.com/lazuli-storage/lazuli/blobsvc/internal/encryption"
	"github.com/lazuli-storage/lazuli/blobsvc/internal/posix"
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
func (s *core) view(r *Read, b *Blob, more func(tx *store.Tx, it item) error) error {
	return s.db.View(func(tx *store.Tx) error {
		it, err := r.existing(tx)
		if err != nil {
			return err
		}
		if err := r.At.get(tx, it, r.now(), b); err != nil {
			return err
		}
		if err := b.permit(r.Caller, r.Want); err != nil {
			return err
		}
		if err := r.If.checkRead(b, r.now()); err != nil {
			return err
		}
		return more(tx, it)
	})
}

// Blobs has the operations on blobs of all types, their snapshots and versions.
type Blobs struct{ *core }

// Get reads properties and metadata of a blob into b. The customer-provided key must be right.
func (s Blobs) Get(r *Read, b *Blob) error {
	return s.view(r, b, func(*store.Tx, item) error { return s.unlock(r.Account, b, r.Key) })
}

// Status is Get without a customer-provided key, which the status of a path does not need.
func (s Blobs) Status(r *Read, b *Blob) error {
	return s.view(r, b, func(*store.Tx, item) error { return nil })
}

// Get returns the tags of a blob, which need no customer-provided key.
func (s Tags) Get(r *Read) ([]Tag, error) {
	var b Blob
	err := s.view(r, &b, func(*store.Tx, item) error { return nil })
	return b.Tags, err
}

// unlock checks that the holder of key, nil for none, may read and change the content of b, and lets it be opened.
func (s *core) unlock(account string, b *Blob, key *encryption.CustomerKey) (err error) {
	b.opened, err = s.scopes.Unlock(account, b.Encryption, key)
	return err
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
func (s Blobs) Open(r *Read, kind Kind, within *Range, b *Blob) (c Content, err error) {
	err = s.view(r, b, func(tx *store.Tx, it item) (err error) {
		if kind != 0 && b.Kind != kind {
			return ErrBlobType
		}
		if err := s.unlock(r.Account, b, r.Key); err != nil {
			return err
		}
		if b.Tier == ArchiveTier {
			return ErrArchived
		}
		if b.IsIncremental() {
			return ErrIncremental
		}
		c.Offset, c.Length = 0, b.Length
		if within != nil {
			if c.Offset, c.Length, err = within.Within(b.Length); err != nil {
				return err
			}
		}
		if c.Reader, err = s.open(tx, b, c.Offset, c.Length); err != nil {
			return err
		}
		if r.TrackAccess {
			s.accesses.note(blobKey(it, b.slot), b, r.now())
		}
		return nil
	})
	return c, err
}

// EachNamed calls fn with each named base blob that exists.
func (s Blobs) EachNamed(account, container string, names []string, now time.Time,
	fn func(name string, b *Blob) error) error {
	return s.db.View(func(tx *store.Tx) error {
		for _, name := range names {
			it, err := (&Ref{Account: account, Container: container, Blob: name}).existing(tx)
			if err != nil && !errors.Is(err, ErrBlobNotFound) {
				return err
			}
			var b Blob
			switch err := getBlob(tx, it, baseSlot, ticks.Of(now), &b); {
			case errors.Is(err, ErrBlobNotFound):
			case err != nil:
				return err
			default:
				b.finishRehydration(ticks.Of(now))
				if err := fn(name, &b); err != nil {
					return err
				}
			}
		}
		return nil
	})
}
