package blobsvc

import (
	"errors"
	"net/http"
	"strings"

	"github.com/google/uuid"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/content"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// clone takes over content, type and properties of a source into b. Metadata, tags and tier of b stay where the request
// named them.
func (b *Blob) clone(tx *store.Tx, from *Blob) (err error) {
	b.adopt(from)
	b.content, err = from.content.duplicate(tx, from)
	return err
}

// adopt takes over all but the content of a source, and metadata only where the request named none.
func (b *Blob) adopt(from *Blob) {
	b.Kind, b.Length, b.Sequence, b.Blocks = from.Kind, from.Length, from.Sequence, from.Blocks
	b.Headers = from.Headers
	if b.Metadata == nil {
		b.Metadata = from.Metadata
	}
}

// duplicate returns b's content for a blob that may change independently.
func (c pieceList) duplicate(tx *store.Tx, b *Blob) (pieceList, error) {
	if b.Kind == BlockBlob || c.id == 0 {
		return c.share(tx), nil
	}
	var list []content.Piece
	err := c.walk(tx, 0, b.Length, b.Length, func(p *content.Piece) error {
		list = append(list, *p)
		return nil
	})
	if err != nil {
		return c, err
	}
	return storePages(tx, list), nil
}

// copyBlob: https://learn.microsoft.com/rest/api/storageservices/copy-blob
// A copy of a blob of this process refers to its source's bytes and is complete when it is answered. Others are pending.
func (s *Service) copyBlob(c *call) error {
	src, err := s.copySource(c)
	if err != nil {
		return err
	}
	if err := c.noKeys(); err != nil {
		return err
	}
	if src.remote != nil {
		return s.beginCopy(c, &src)
	}
	b, p, err := c.newBlob(BlockBlob, false)
	if err != nil {
		return err
	}
	id := uuid.NewString()
	changed := s.ticks.Next(c.Now)
	err = s.update(c, func(tx *store.Tx) error {
		b := b
		return s.copyTo(tx, c, &src, &p, &b, id, changed)
	})
	if err == errOtherEncryption {
		return s.copyBytes(c, &src, &b, &p, id, maxBlockBlob, false, copyError)
	}
	if err != nil {
		return copyError(err)
	}
	return c.answerCopyNow(changed, id, "")
}

// copyTo puts a copy of src in place. b carries what the request said about the new blob.
func (s *Service) copyTo(tx *store.Tx, c *call, src *copySource, p *Preconditions, b *Blob, id string, changed ticks.Ticks) error {
	var from Blob
	if err := src.read(tx, c.now(), &from); err != nil {
		return err
	}
	if err := s.sameKind(tx, c, from.Kind); err != nil {
		return err
	}
	if err := s.sameEncryption(tx, c, src, b, &from); err != nil {
		return err
	}
	if err := b.clone(tx, &from); err != nil {
		return err
	}
	return s.finishCopyTo(tx, c, src, p, b, id, changed)
}

// finishCopyTo puts b in place, a copy that has its content.
func (s *Service) finishCopyTo(tx *store.Tx, c *call, src *copySource, p *Preconditions, b *Blob, id string, changed ticks.Ticks) error {
	if err := c.shapeCopy(b, changed); err != nil {
		return err
	}
	b.Copy = CopyState{ID: id, Source: src.url, Status: CopySuccess, Copied: b.Length, Total: b.Length, Completed: changed}
	return s.replace(tx, c, p, b)
}

// shapeCopy gives a copy the times, the tier and the seal that the request asks for.
func (c *call) shapeCopy(b *Blob, changed ticks.Ticks) error {
	b.Created, b.Changed = changed, changed
	if b.Tier != "" {
		if b.Kind != BlockBlob {
			return errInvalidBlobTier
		}
		b.TierChanged = changed
	}
	if strings.EqualFold(c.Header("X-Ms-Seal-Blob"), "true") {
		if b.Kind != AppendBlob {
			return errInvalidBlobType
		}
		b.Sealed = true
	}
	return nil
}

// sameKind refuses to copy over a blob of another type.
func (s *Service) sameKind(tx *store.Tx, c *call, kind Kind) error {
	gen, err := containerGen(tx, c.Account, c.container)
	if err != nil {
		return err
	}
	var old Blob
	switch err := getBlob(tx, gen, c.blob, baseSlot, &old); {
	case err == errBlobNotFound:
		return nil
	case err != nil:
		return err
	case old.Kind != kind:
		return errInvalidBlobType
	}
	return nil
}

// maxSyncCopy is the size in bytes of the largest source of Copy Blob From URL.
const maxSyncCopy = 256 * mib

// copyBlobFromURL: https://learn.microsoft.com/rest/api/storageservices/copy-blob-from-url
func (s *Service) copyBlobFromURL(c *call) error {
	if !strings.EqualFold(c.Header("X-Ms-Requires-Sync"), "true") { // the SDK for Python writes True
		return wire.InvalidHeader("x-ms-requires-sync", c.Header("X-Ms-Requires-Sync"))
	}
	src, err := s.copySource(c)
	if err != nil {
		return err
	}
	b, p, err := c.newBlob(BlockBlob, false)
	if err != nil {
		return err
	}
	if err := c.noKeys(); err != nil {
		return err
	}
	want, err := c.sourceMD5()
	if err != nil {
		return err
	}
	copyTags, err := c.copyTags(&src, &b)
	if err != nil {
		return err
	}
	id := uuid.NewString()
	if src.remote != nil {
		return s.copyBytes(c, &src, &b, &p, id, maxSyncCopy, false, func(err error) error { return err })
	}
	changed := s.ticks.Next(c.Now)
	var md5 string
	err = s.update(c, func(tx *store.Tx) error {
		b := b
		var from Blob
		if err := src.read(tx, c.now(), &from); err != nil {
			return err
		}
		if from.Length > maxSyncCopy {
			return errSourceTooLarge
		}
		if from.Kind != BlockBlob {
			return errInvalidSourceBlobType
		}
		if md5 = from.Headers.MD5; want != nil && md5 != string(want) {
			return wire.ErrMD5Mismatch
		}
		if copyTags {
			b.Tags = from.Tags
		}
		return s.copyTo(tx, c, &src, &p, &b, id, changed)
	})
	if err == errOtherEncryption {
		return s.copyBytes(c, &src, &b, &p, id, maxSyncCopy, copyTags, syncCopyError)
	}
	if err != nil {
		return syncCopyError(err)
	}
	return c.answerCopyNow(changed, id, md5)
}

// x-ms-copy-source-tag-option, and its value with which a copy takes over the source's tags.
const (
	sourceTagOption = "X-Ms-Copy-Source-Tag-Option"
	copyTagOption   = "COPY"
)

// copyTags reports whether a copy that is made before the answer has its source's tags: x-ms-copy-source-tag-option. The caller
// needs the permission to set tags; [Service.copySource] has checked the permission to read the source's.
func (c *call) copyTags(src *copySource, b *Blob) (bool, error) {
	switch option := c.Header(sourceTagOption); {
	case option == "" || option == "REPLACE":
		return false, nil
	case option != copyTagOption || b.Tags != nil:
		return false, wire.InvalidHeader("x-ms-copy-source-tag-option", option)
	case src.remote != nil:
		return false, wire.ErrNotImplemented.WithMessage("Taking over the tags of a source outside this service is not implemented.")
	}
	return true, c.holdsTags()
}

func (c *call) answerCopyNow(changed ticks.Ticks, id, md5 string) error {
	c.sendVersion(changed)
	c.sendEncryption(c.under)
	c.Set("x-ms-copy-id", id)
	c.Set("x-ms-copy-status", CopySuccess)
	if md5 != "" {
		c.Set("Content-MD5", base64MD5(md5))
	}
	return c.Status(http.StatusAccepted)
}

// maxBlockBlob is the size in bytes of the largest block blob.
const maxBlockBlob = MaxCommittedBlocks * 4000 * mib

// copyBytes copies a source's bytes, at most limit, into a block blob before it answers: that of a source outside this
// process, or one that is encrypted in another way, whose list of blocks the copy has as well. copyTags takes over its tags, asError is
// what becomes of its errors.
func (s *Service) copyBytes(c *call, src *copySource, b *Blob, p *Preconditions, id string, limit int64, copyTags bool, asError func(error) error) error {
	if err := s.mayWrite(c, p); err != nil {
		return err
	}
	src.withBlocks = true
	up, from, err := s.fetch(c, src, limit)
	if errors.Is(err, wire.ErrRequestBodyTooLarge) {
		return errSourceTooLarge
	}
	if err != nil {
		return asError(err)
	}
	defer up.Close()
	if from.Kind != BlockBlob {
		return errInvalidSourceBlobType
	}
	b.adopt(&from)
	if src.remote != nil {
		b.Headers.MD5 = string(up.MD5)
	}
	if copyTags {
		b.Tags = from.Tags
	}
	changed := s.ticks.Next(c.Now)
	err = s.update(c, func(tx *store.Tx) error {
		b := *b
		if err := s.sameKind(tx, c, b.Kind); err != nil {
			return err
		}
		b.Encryption = up.Encryption()
		b.content, b.Length = layOut(tx, up.Blocks(src.blocks))
		return s.finishCopyTo(tx, c, src, p, &b, id, changed)
	})
	if err != nil {
		return err
	}
	return c.answerCopyNow(changed, id, string(up.MD5))
}

// errSourceTooLarge: the source is over the limit of a synchronous copy.
var errSourceTooLarge = fail(http.StatusConflict, "CopySourceSizeExceeded", "The source of a synchronous copy is larger than 256 MiB.")
