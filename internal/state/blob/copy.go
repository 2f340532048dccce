package blob

import (
	"errors"
	"io"
	"time"

	"github.com/lazuli-storage/lazuli/internal/state/blob/content"
	"github.com/lazuli-storage/lazuli/internal/state/blob/encryption"
	"github.com/lazuli-storage/lazuli/internal/state/blob/lease"
	"github.com/lazuli-storage/lazuli/internal/state/blob/posix"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// Source is a blob of this process that is copied.
type Source struct {
	Ref
	// If must hold for it. It has a lease ID in versions before 2012-02-12 alone.
	If Preconditions
	// Key is the customer-provided key of the source, nil for none.
	Key *encryption.CustomerKey
	// Archived lets the source be in the archive.
	Archived bool
}

// Copy is a copy from one blob to another. Its content is that of Source, or Upload, or arrives as Job.
type Copy struct {
	// Source is a blob of this process. The copy refers to the same bytes.
	Source *Source
	// Upload is content that was read from the source and stored.
	Upload *content.Upload
	blocks []content.Piece // of Upload, ID and length alone; nil for none
	// Job fetches the content in the background, and is completed. The copy is empty, and pending.
	Job *record.CopyJob
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
func (src *Source) read(tx *store.Tx, now ticks.Ticks, b *record.Blob) error {
	if err := src.load(tx, now, b); err != nil {
		return &SourceError{err}
	}
	return nil
}

func (src *Source) load(tx *store.Tx, now ticks.Ticks, b *record.Blob) error {
	it, err := src.existing(tx)
	if err != nil {
		return err
	}
	if err := src.At.Get(tx, it, now, b); err != nil {
		return err
	}
	// The right to read comes before all that tells of the source.
	if err := b.Permit(src.Caller, posix.Read); err != nil {
		return err
	}
	if b.IsDirectory() {
		return ErrSourceType
	}
	if b.IsIncremental() {
		return ErrIncremental
	}
	// The tier is that of now: a rehydration that is over may not be in the record yet.
	if b.FinishRehydration(now); b.Tier == record.ArchiveTier && !src.Archived {
		return ErrArchived
	}
	// A pending copy has no content of its own yet.
	if b.Copy.Status == record.CopyPending {
		return ErrCopyPending
	}
	if err := src.If.Conditions.checkRead(b.Changed); err != nil {
		return err
	}
	if err := src.If.checkTags(b); err != nil {
		return err
	}
	return b.Lease.CheckRead(src.If.LeaseID, now, &lease.OfBlob)
}

// SourceContent is a range of a source that is read. Close it.
type SourceContent struct {
	io.ReadCloser
	// Length is the length in bytes of the range.
	Length int64
	// Blob has the properties of the whole source.
	Blob record.Blob
	// ETag is the entity tag of a source outside this process as it was sent, "" for none.
	ETag string

	blocks []content.Piece // of the whole source, ID and length alone, if they were asked for
}

// OpenSource opens a range of a source.
func (s Copies) OpenSource(src *Source, now time.Time, within Range) (SourceContent, error) {
	return s.openSource(src, now, within, false)
}

func (s Copies) openSource(src *Source, now time.Time, within Range, blocks bool) (out SourceContent, err error) {
	b := &out.Blob
	err = s.db.View(func(tx *store.Tx) (err error) {
		if err := src.read(tx, ticks.Of(now), b); err != nil {
			return err
		}
		if err := s.unlock(src.Account, b, src.Key); err != nil {
			return &SourceError{err}
		}
		var off int64
		// An empty source is copied as a whole, although no range is within it.
		if b.Length > 0 || within.Start > 0 {
			if off, out.Length, err = within.Within(b.Length); err != nil {
				return err
			}
		}
		if blocks {
			err := b.Content.Walk(tx, 0, b.Length, b.Length, func(p *content.Piece) error {
				out.blocks = append(out.blocks, content.Piece{Length: p.Length, Block: p.Block})
				return nil
			})
			if err != nil {
				return err
			}
		}
		out.ReadCloser, err = s.open(tx, b, off, out.Length)
		return err
	})
	return out, err
}

// CopyResult is the result of a copy.
type CopyResult struct {
	Result
	// MD5 is that of the source, or of what was uploaded; "" if it is not known.
	MD5 string
}

// Put creates a copy. blob has the properties from the request, and those of a source that is not cp.Source.
func (s Copies) Put(w *Write, blob *record.Blob, cp *Copy) (CopyResult, error) {
	out, err := s.put(w, blob, cp)
	if errors.Is(err, errOtherEncryption) {
		return s.putEncrypted(w, blob, cp)
	}
	return out, err
}

// putEncrypted is Put for a blob of this process whose copy is encrypted in another way: its bytes are read, and stored
// again in the same blocks.
func (s Copies) putEncrypted(w *Write, blob *record.Blob, cp *Copy) (out CopyResult, err error) {
	blobs := Blobs(s)
	// What the transaction of put would refuse is refused before all bytes of the source are read and stored.
	if err := blobs.CheckPut(w); err != nil {
		return out, err
	}
	src, again, b := *cp.Source, *cp, *blob
	// The bytes are needed now, and a blob in the archive cannot be read.
	src.Archived = false
	from, err := s.openSource(&src, w.Now, WholeBlob, true)
	if err != nil {
		return out, err
	}
	defer func() { _ = from.Close() }()
	if err := cp.accepts(&from.Blob); err != nil {
		return out, err
	}
	if from.Blob.Kind != record.BlockBlob {
		return out, ErrCopyEncryption
	}
	sealer, err := blobs.Sealer(w, false)
	if err != nil {
		return out, err
	}
	again.Upload, err = content.Store(s.extents, from, from.Length, content.Options{MD5: true, Sealer: sealer})
	if err != nil {
		return out, err
	}
	defer again.Upload.Close()
	// The copy is of the state that was opened, whose conditions held then. So put sees an upload, does not read the
	// source again, and cannot come back to here.
	again.Source = nil
	again.blocks = from.blocks
	if b.Adopt(&from.Blob); cp.Tags {
		b.Tags = from.Blob.Tags
	}
	return s.put(w, &b, &again)
}

// put is Put, and fails with errOtherEncryption if the bytes of cp.Source cannot be referred to.
func (s Copies) put(w *Write, blob *record.Blob, cp *Copy) (out CopyResult, err error) {
	result, err := s.update(w, func(c *change) error {
		b := *blob
		var from record.Blob
		if cp.Source != nil {
			if err := cp.Source.read(c.tx, c.now, &from); err != nil {
				return err
			}
			if err := cp.accepts(&from); err != nil {
				return err
			}
			b.Kind = from.Kind
		}
		// Errors of the source precede those of the blob in the way.
		if err := c.sameType(b.Kind); err != nil {
			return err
		}
		// refer takes its reference before replace drops that of the blob in the way. In the other order a copy of a blob
		// onto itself would leave its content to the garbage.
		switch {
		case cp.Source != nil:
			out.MD5, err = from.Headers.MD5, c.refer(&b, &from, cp)
		case cp.Upload != nil:
			out.MD5 = string(cp.Upload.MD5)
			b.Encryption = cp.Upload.Encryption()
			b.Content, b.Length = record.LayOut(c.tx, divide(cp.Upload.Pieces(c.tx), cp.blocks))
		default:
			b.Encryption, err = c.encryption(false)
		}
		if err == nil {
			err = cp.shape(&b)
		}
		if err != nil {
			return err
		}
		c.afresh = true
		b.Copy = record.CopyState{ID: cp.ID, Source: cp.URL, Total: b.Length}
		if cp.Job != nil {
			// Total has the length of the source already; the blob itself is empty until the job ends. The job follows
			// replace, which decides the item and the lease that putJob looks at.
			b.Copy.Status = record.CopyPending
			b.Length = 0
			b.Blocks = 0
			if err := c.replace(&b); err != nil {
				return err
			}
			return c.putJob(&b, cp.Job)
		}
		b.Copy.Status = record.CopySuccess
		b.Copy.Copied = b.Length
		b.Copy.Completed = c.at
		return c.replace(&b)
	})
	out.Result = result
	return out, err
}

// divide divides an uploaded piece into blocks with the IDs and lengths of list, unless that is nil.
func divide(whole, list []content.Piece) []content.Piece {
	if list == nil {
		return whole
	}
	// An upload is one piece with the bytes of all blocks, one behind the other; each block is a window of it.
	out, at := make([]content.Piece, len(list)), int64(0)
	for i := range list {
		out[i] = whole[0].Window(at, at+list[i].Length)
		out[i].Block = list[i].Block
		at += list[i].Length
	}
	return out
}

// refer gives b the properties of from, and a reference to its content.
func (c *change) refer(b, from *record.Blob, cp *Copy) error {
	if cp.Tags {
		b.Tags = from.Tags
	}
	if err := c.sameEncryption(cp.Source, b, from); err != nil {
		return err
	}
	if from.Tier == record.ArchiveTier {
		if err := c.rehydrateCopy(b, cp); err != nil {
			return err
		}
	}
	b.Adopt(from)
	var err error
	b.Content, err = from.Content.Duplicate(c.tx, from)
	return err
}

// sameEncryption decides how a copy b of from is encrypted, and fails with errOtherEncryption if from is encrypted in
// another way. Scopes of two accounts are different, whatever their names.
func (c *change) sameEncryption(src *Source, b, from *record.Blob) (err error) {
	if from.Encryption.KeySHA256 != "" {
		return &SourceError{encryption.ErrKeyMissing}
	}
	if b.Encryption, err = c.encryption(false); err != nil {
		return err
	}
	if b.Encryption == from.Encryption && (from.Encryption.Scope == "" || src.Account == c.Account) {
		return nil
	}
	if from.Kind != record.BlockBlob {
		return ErrCopyEncryption
	}
	return errOtherEncryption
}

// rehydrateCopy prepares b, a copy of a blob in the archive, which stays there: the copy is on its way to the tier that
// the request names. Such a copy is another blob, and has a tier other than the archive.
// https://learn.microsoft.com/azure/storage/blobs/archive-rehydrate-overview#copy-an-archived-blob-to-an-online-tier
func (c *change) rehydrateCopy(b *record.Blob, cp *Copy) error {
	src := cp.Source
	if b.Tier == "" || b.Tier == record.ArchiveTier || src.Account != c.Account ||
		src.Container == c.Container && src.Blob == c.Blob && src.At.IsBase() {
		return &SourceError{ErrArchived}
	}
	// The copy refers to the bytes at once; its tier alone says that it cannot be read yet.
	b.RehydrateTo = b.Tier
	b.RehydrateHigh = cp.RehydrateHigh
	b.Tier = record.ArchiveTier
	b.TierChanged = c.now
	return nil
}

// accepts checks that the copy can be made from a source.
func (cp *Copy) accepts(from *record.Blob) error {
	switch {
	case cp.Of != 0 && from.Changed != cp.Of:
		return ErrSourceChanged
	case !cp.Sync:
		return nil
	case from.Length > MaxSyncCopy:
		return ErrSourceTooLarge
	case from.Kind != record.BlockBlob:
		return ErrSyncSourceType
	case cp.MD5 != "" && from.Headers.MD5 != cp.MD5:
		return &SourceMD5Error{cp.MD5, from.Headers.MD5}
	}
	return nil
}

// shape checks the tier that b is to have, and seals it or not as the request asks.
func (cp *Copy) shape(b *record.Blob) error {
	if b.Kind != record.BlockBlob {
		if b.Tier != "" && b.Tier != record.DefaultTier { // the tier that such blobs are in
			return ErrTier
		}
		b.Tier = ""
	}
	// After the properties of the source were taken over, of which Sealed is one.
	if cp.Unseal {
		b.Sealed = false
	}
	if cp.Seal {
		if b.Kind != record.AppendBlob {
			return ErrBlobType
		}
		b.Sealed = true
	}
	return nil
}

// sameType refuses to copy over a blob of another type.
func (c *change) sameType(kind record.Kind) error {
	if err := c.enter(); err != nil {
		return err
	}
	var old record.Blob
	switch err := c.base(&old); {
	case errors.Is(err, record.ErrBlobNotFound):
		return nil
	case err != nil:
		return err
	case old.Kind != kind:
		return ErrBlobType
	}
	return nil
}
