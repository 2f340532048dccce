package blobsvc

import (
	"errors"
	"net/http"

	"github.com/google/uuid"

	"github.com/lazuli-storage/lazuli/internal/store"
	"github.com/lazuli-storage/lazuli/internal/wire"
)

// clone takes over content, type and properties of a source into b. Metadata, tags and tier of b stay where the request
// named them.
func (b *blobRecord) clone(tx *store.Tx, from *blobRecord, metadata []wire.Meta) (err error) {
	b.kind, b.length, b.sequence, b.blocks = from.kind, from.length, from.sequence, from.blocks
	b.headers = from.headers
	if b.metadata = metadata; metadata == nil {
		b.metadata = from.metadata
	}
	b.content, err = from.content.duplicate(tx, from)
	return err
}

// duplicate returns b's content for a blob that may change independently.
func (c content) duplicate(tx *store.Tx, b *blobRecord) (content, error) {
	if b.kind == blockBlob || c.id == 0 {
		return c.share(tx), nil
	}
	var list []piece
	err := c.walk(tx, 0, b.length, b.length, func(p *piece) error {
		list = append(list, *p)
		return nil
	})
	if err != nil {
		return c, err
	}
	return storePages(tx, list), nil
}

// copyBlob: https://learn.microsoft.com/rest/api/storageservices/copy-blob
// The copy refers to the source's bytes and is complete when it is answered.
func (s *Service) copyBlob(c *call) error {
	src, err := s.copySource(c)
	if err != nil {
		return err
	}
	b, p, err := c.newBlob(blockBlob, false)
	if err != nil {
		return err
	}
	id := uuid.NewString()
	changed := s.ticks.next(c.Now)
	err = s.update(c, func(tx *store.Tx) error {
		b := b
		return s.copyTo(tx, c, &src, &p, &b, id, changed)
	})
	if err != nil {
		return copyError(err)
	}
	c.sendVersion(changed)
	c.Set("x-ms-copy-id", id)
	c.Set("x-ms-copy-status", "success")
	return c.Status(http.StatusAccepted)
}

// copyTo puts a copy of src in place. b carries what the request said about the new blob.
func (s *Service) copyTo(tx *store.Tx, c *call, src *copySource, p *preconditions, b *blobRecord, id string, changed ticks) error {
	var from blobRecord
	if err := src.read(tx, c.now(), &from); err != nil {
		return err
	}
	if b.tier != "" && from.kind != blockBlob {
		return errInvalidBlobTier
	}
	if err := s.sameKind(tx, c, from.kind); err != nil {
		return err
	}
	if err := b.clone(tx, &from, b.metadata); err != nil {
		return err
	}
	b.created, b.changed = changed, changed
	if b.tier != "" {
		b.tierChanged = changed
	}
	if c.Header("X-Ms-Seal-Blob") == "true" {
		if b.kind != appendBlob {
			return errInvalidBlobType
		}
		b.sealed = true
	}
	b.copy = copyRecord{id: id, source: src.url, status: "success", copied: from.length, of: from.length, completed: changed}
	return s.replace(tx, c, p, b)
}

// sameKind refuses to copy over a blob of another type.
func (s *Service) sameKind(tx *store.Tx, c *call, kind blobKind) error {
	gen, err := containerGen(tx, c.Account, c.container)
	if err != nil {
		return err
	}
	var old blobRecord
	switch err := getBlob(tx, gen, c.blob, baseSlot, &old); {
	case err == errBlobNotFound:
		return nil
	case err != nil:
		return err
	case old.kind != kind:
		return errInvalidBlobType
	}
	return nil
}

// maxSyncCopy is the size in bytes of the largest source of Copy Blob From URL.
const maxSyncCopy = 256 * mib

// copyBlobFromURL: https://learn.microsoft.com/rest/api/storageservices/copy-blob-from-url
func (s *Service) copyBlobFromURL(c *call) error {
	if c.Header("X-Ms-Requires-Sync") != "true" {
		return wire.InvalidHeader("x-ms-requires-sync", c.Header("X-Ms-Requires-Sync"))
	}
	src, err := s.copySource(c)
	if err != nil {
		return err
	}
	b, p, err := c.newBlob(blockBlob, false)
	if err != nil {
		return err
	}
	want, err := c.sourceMD5()
	if err != nil {
		return err
	}
	switch option := c.Header("X-Ms-Copy-Source-Tag-Option"); option {
	case "", "REPLACE":
	case "COPY":
		if b.tags != nil {
			return wire.InvalidHeader("x-ms-copy-source-tag-option", option)
		}
	default:
		return wire.InvalidHeader("x-ms-copy-source-tag-option", option)
	}
	copyTags := c.Header("X-Ms-Copy-Source-Tag-Option") == "COPY"
	id := uuid.NewString()
	changed := s.ticks.next(c.Now)
	var md5 string
	err = s.update(c, func(tx *store.Tx) error {
		b := b
		var from blobRecord
		if err := src.read(tx, c.now(), &from); err != nil {
			return err
		}
		if from.length > maxSyncCopy {
			return errSourceTooLarge
		}
		if from.kind != blockBlob {
			return errInvalidSourceBlobType
		}
		if md5 = from.headers.md5; want != nil && md5 != string(want) {
			return wire.ErrMD5Mismatch
		}
		if copyTags {
			b.tags = from.tags
		}
		return s.copyTo(tx, c, &src, &p, &b, id, changed)
	})
	if err != nil {
		return syncCopyError(err)
	}
	c.sendVersion(changed)
	c.Set("x-ms-copy-id", id)
	c.Set("x-ms-copy-status", "success")
	if md5 != "" {
		c.Set("Content-MD5", base64MD5(md5))
	}
	return c.Status(http.StatusAccepted)
}

// errSourceTooLarge: the source is over the limit of a synchronous copy.
var errSourceTooLarge = fail(http.StatusConflict, "CopySourceSizeExceeded", "The source of a synchronous copy is larger than 256 MiB.")

// syncCopyError is what the operations answer that read their source before they answer: a failing source is its own code.
func syncCopyError(err error) error {
	var src errSource
	var e *wire.Error
	switch {
	case errors.As(err, &src) && errors.As(err, &e):
		return fail(e.Status, "CannotVerifyCopySource", errCannotVerifyCopySource.Message)
	}
	return err
}

// abortCopy: https://learn.microsoft.com/rest/api/storageservices/abort-copy-blob
// Copies are complete when they are answered: there is never one to abort.
func (s *Service) abortCopy(c *call) error {
	if c.Header("X-Ms-Copy-Action") != "abort" {
		return wire.InvalidHeader("x-ms-copy-action", c.Header("X-Ms-Copy-Action"))
	}
	if _, err := uuid.Parse(c.Query.Get("copyid")); err != nil {
		return invalidQuery("copyid", c.Query.Get("copyid"))
	}
	return s.updateBlob(c, func(*store.Tx, uint64, *blobRecord) error { return errNoPendingCopy })
}
