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

// Source is a blob of this process that is copied.
type Source struct {
	Ref
	// If must hold for it. It has no lease ID.
	If Preconditions
	// Key is the customer-provided key of the source, nil for none.
	Key *encryption.CustomerKey
	// Archived lets the source be in the archive.
	Archived bool
}

// Copy is a copy from one blob to another.
type Copy struct {
	// ID is the copy's, URL the address of the source as the client sent it; the properties of the blob repeat them.
	ID, URL string
	// Sync limits the copy to what Copy Blob From URL copies: block blobs of at most MaxSyncCopy bytes.
	Sync bool
	// Tags takes over the tags of the source.
	Tags bool
	// Seal seals the copy of an append blob. Without Seal and Unseal the copy of a sealed blob is sealed.
	Seal, Unseal bool
	// MD5 is the MD5 that the source must have, "" for any.
	MD5 string
	// RehydrateHigh is the priority with which a copy of a blob in the archive leaves it.
	RehydrateHigh bool
	// Of, unless 0, is the state of the source that is copied, by the time of its last change. Another fails with
	// [ErrSourceChanged].
	Of ticks.Ticks
}

// MaxSyncCopy is the size in bytes of the largest source of Copy Blob From URL.
const MaxSyncCopy = 256 << 20

// read reads the source into b and checks its conditions. It fails with a [*SourceError].
func (src *Source) read(tx *store.Tx, now ticks.Ticks, b *Blob) error {
	if err := src.load(tx, now, b); err != nil {
		return &SourceError{err}
	}
	return nil
}

func (src *Source) load(tx *store.Tx, now ticks.Ticks, b *Blob) error {
	it, err := src.existing(tx)
	if err != nil {
		return err
	}
	if err := src.At.get(tx, it, now, b); err != nil {
		return err
	}
	if err := b.permit(src.Caller, posix.Read); err != nil {
		return err
	}
	if b.IsDirectory() {
		return ErrSourceType
	}
	if b.IsIncremental() {
		return ErrIncremental
	}
	if b.finishRehydration(now); b.Tier == ArchiveTier && !src.Archived {
		return ErrArchived
	}
	if b.Copy.Status == CopyPending {
		return ErrCopyPending
	}
	if err := src.If.Conditions.checkRead(b.Changed); err != nil {
		return err
	}
	return src.If.checkTags(b)
}

// SourceContent is the content of a source that is read.
type SourceContent struct {
	*content.Reader
	// Length is the length in bytes of the range.
	Length int64
	// Blocks are the blocks of the whole source, ID and length alone.
	Blocks []content.Piece
}

// Copies has the operations that copy blobs, and those on copies that go on in the background.
type Copies struct{ *core }

// OpenSource opens a range of a source, and reads its properties into b. blocks asks for its blocks.
func (s Copies) OpenSource(src *Source, now time.Time, within Range, blocks bool, b *Blob) (out SourceContent,
	err error) {
	err = s.db.View(func(tx *store.Tx) (err error) {
		if err := src.read(tx, ticks.Of(now), b); err != nil {
			return err
		}
		if err := s.unlock(src.Account, b, src.Key); err != nil {
			return &SourceError{err}
		}
		var off int64
		if b.Length > 0 || within.Start > 0 {
			if off, out.Length, err = within.Within(b.Length); err != nil {
				return err
			}
		}
		if blocks {
			err := b.content.walk(tx, 0, b.Length, b.Length, func(p *content.Piece) error {
				out.Blocks = append(out.Blocks, content.Piece{Length: p.Length, Block: p.Block})
				return nil
			})
			if err != nil {
				return err
			}
		}
		out.Reader, err = s.open(tx, b, off, out.Length)
		return err
	})
	return out, err
}

// CopyResult is the result of a copy.
type CopyResult struct {
	Result
	// MD5 is the source's MD5, "" if it has none.
	MD5 string
}

// Copy creates a copy of src that refers to the same content. blob has the properties from the request. It returns
// errOtherEncryption if the bytes have to be read and stored again; see Put.
func (s Copies) Copy(w *Write, blob *Blob, src *Source, cp *Copy) (out CopyResult, err error) {
	result, err := s.update(w, func(c *change) error {
		b := *blob
		var from Blob
		if err := src.read(c.tx, c.now, &from); err != nil {
			return err
		}
		if err := cp.accepts(&from); err != nil {
			return err
		}
		if cp.Tags {
			b.Tags = from.Tags
		}
		out.MD5 = from.Headers.MD5
		if err := c.sameType(from.Kind); err != nil {
			return err
		}
		if err := c.sameEncryption(src, &b, &from); err != nil {
			return err
		}
		if from.Tier == ArchiveTier {
			if err := c.rehydrateCopy(src, &b, cp); err != nil {
				return err
			}
		}
		b.Adopt(&from)
		if b.content, err = from.content.duplicate(c.tx, &from); err != nil {
			return err
		}
		return c.finishCopy(&b, cp)
	})
	out.Result = result
	return out, err
}

// rehydrateCopy prepares b, a copy of a blob in the archive, which stays there: the copy is on its way to the tier that
// the request names. Such a copy is another blob, and has a tier other than the archive.
// https://learn.microsoft.com/azure/storage/blobs/archive-rehydrate-overview#copy-an-archived-blob-to-an-online-tier
func (c *change) rehydrateCopy(src *Source, b *Blob, cp *Copy) error {
	if b.Tier == "" || b.Tier == ArchiveTier || src.Account != c.Account ||
		src.Container == c.Container && src.Blob == c.Blob && src.At.IsBase() {
		return &SourceError{ErrArchived}
	}
	b.RehydrateTo, b.RehydrateHigh, b.Tier, b.TierChanged = b.Tier, cp.RehydrateHigh, ArchiveTier, c.now
	return nil
}

// accepts checks that the copy can be made from a source.
func (cp *Copy) accepts(from *Blob) error {
	switch {
	case cp.Of != 0 && from.Changed != cp.Of:
		return ErrSourceChanged
	case !cp.Sync:
		return nil
	case from.Length > MaxSyncCopy:
		return ErrSourceTooLarge
	case from.Kind != BlockBlob:
		return ErrSyncSourceType
	case cp.MD5 != "" && from.Headers.MD5 != cp.MD5:
		return ErrSourceMD5
	}
	return nil
}

// Put puts a copy in place whose bytes were uploaded. blocks are the blocks of the source.
func (s Copies) Put(w *Write, blob *Blob, up *content.Upload, blocks []content.Piece, cp *Copy) (Result, error) {
	return s.update(w, func(c *change) error {
		b := *blob
		if err := c.sameType(b.Kind); err != nil {
			return err
		}
		b.Encryption = up.Encryption()
		b.content, b.Length = layOut(c.tx, up.Blocks(c.tx, blocks))
		return c.finishCopy(&b, cp)
	})
}

// finishCopy puts b in place, a copy that has its content.
func (c *change) finishCopy(b *Blob, cp *Copy) error {
	if err := cp.shape(b); err != nil {
		return err
	}
	b.Copy = CopyState{ID: cp.ID, Source: cp.URL, Status: CopySuccess, Copied: b.Length, Total: b.Length, Completed: c.at}
	return c.replace(b)
}

// shape checks the tier that b is to have, and seals it or not as the request asks.
func (cp *Copy) shape(b *Blob) error {
	if b.Kind != BlockBlob {
		if b.Tier != "" && b.Tier != DefaultTier { // the tier that such blobs are in
			return ErrTier
		}
		b.Tier = ""
	}
	if cp.Unseal {
		b.Sealed = false
	}
	if cp.Seal {
		if b.Kind != AppendBlob {
			return ErrBlobType
		}
		b.Sealed = true
	}
	return nil
}

// Adopt gives b everything of a source but its content, and the metadata only if b has none.
func (b *Blob) Adopt(from *Blob) {
	b.Kind, b.Length, b.Sequence, b.Blocks, b.Sealed = from.Kind, from.Length, from.Sequence, from.Blocks, from.Sealed
	b.Headers = from.Headers
	if b.Metadata == nil {
		b.Metadata = from.Metadata
	}
}

// sameType refuses to copy over a blob of another type.
func (c *change) sameType(kind Kind) error {
	if err := c.enter(); err != nil {
		return err
	}
	var old Blob
	switch err := c.base(&old); {
	case errors.Is(err, ErrBlobNotFound):
		return nil
	case err != nil:
		return err
	case old.Kind != kind:
		return ErrBlobType
	}
	return nil
}
