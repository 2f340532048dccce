package blobsvc

import (
	"encoding/base64"
	"net/http"

	"github.com/lazuli-storage/lazuli/internal/store"
	"github.com/lazuli-storage/lazuli/internal/wire"
)

// sourceMD5 reads x-ms-source-content-md5; nil if absent.
func (c *call) sourceMD5() ([]byte, error) {
	if s := c.Header("X-Ms-Source-Content-Md5"); s != "" {
		return parseMD5(s)
	}
	return nil, nil
}

// fetch makes the source's range durable as new content and checks x-ms-source-content-md5 and -crc64. It serves the
// operations that take a part of a source. The caller closes the upload.
func (s *Service) fetch(c *call, src *copySource, limit int64) (up *upload, err error) {
	want, err := c.sourceMD5()
	if err != nil {
		return nil, err
	}
	var wantCRC []byte
	if text := c.Header("X-Ms-Source-Content-Crc64"); text != "" {
		if wantCRC, err = base64.StdEncoding.DecodeString(text); err != nil || len(wantCRC) != 8 {
			return nil, wire.InvalidHeader("x-ms-source-content-crc64", text)
		}
	}
	rng := byteRange{0, openEnd}
	if text := c.Header("X-Ms-Source-Range"); text != "" {
		var ok bool
		if rng, ok = parseRange(text); !ok {
			return nil, wire.InvalidHeader("x-ms-source-range", text)
		}
	}
	var body blobReader
	var n int64
	err = s.db.View(func(tx *store.Tx) error {
		var b blobRecord
		if err := src.read(tx, c.now(), &b); err != nil {
			return err
		}
		var off int64
		if b.length > 0 || rng.start > 0 {
			var err error
			if off, n, err = rng.within(b.length); err != nil {
				return err
			}
		}
		if n > limit {
			return wire.ErrRequestBodyTooLarge
		}
		return body.open(s, tx, &b, off, n)
	})
	if err != nil {
		return nil, syncCopyError(err)
	}
	defer body.close()
	up = &upload{hasCRC: c.version() >= v20190202 || wantCRC != nil}
	if err := s.store(up, &body, n, true); err != nil {
		return nil, err
	}
	if want != nil && string(want) != string(up.md5) {
		up.close()
		return nil, wire.ErrMD5Mismatch.With("UserSpecifiedMd5", base64.StdEncoding.EncodeToString(want)).
			With("ServerCalculatedMd5", base64.StdEncoding.EncodeToString(up.md5))
	}
	if wantCRC != nil && base64.StdEncoding.EncodeToString(wantCRC) != formatCRC(up.crc) {
		up.close()
		return nil, wire.ErrCRC64Mismatch
	}
	return up, nil
}

// noBody refuses a body where the content comes from elsewhere.
func (c *call) noBody() error {
	if n, err := c.contentLength(0); err != nil || n != 0 {
		return wire.InvalidHeader("Content-Length", c.Header("Content-Length"))
	}
	return nil
}

// putBlockFromURL: https://learn.microsoft.com/rest/api/storageservices/put-block-from-url
func (s *Service) putBlockFromURL(c *call) error {
	if err := c.noBody(); err != nil {
		return err
	}
	id, err := c.blockID()
	if err != nil {
		return err
	}
	lease, err := c.leaseID("X-Ms-Lease-Id")
	if err != nil {
		return err
	}
	src, err := s.copySource(c)
	if err != nil {
		return err
	}
	up, err := s.fetch(c, &src, c.byVersion(4000*mib, 100*mib, 100*mib))
	if err != nil {
		return err
	}
	defer up.close()
	if up.length == 0 {
		return errInvalidRange
	}
	if err := s.stage(c, lease, id, up); err != nil {
		return err
	}
	c.sendFetched(up)
	c.sendEncrypted()
	return c.Status(http.StatusCreated)
}

// sendFetched sends the hash of content that came from a source: the MD5 if the client named it or its version knows no
// CRC64, otherwise the CRC64.
func (c *call) sendFetched(up *upload) {
	if up.hasCRC && !c.HasHeader("X-Ms-Source-Content-Md5") {
		c.Set("x-ms-content-crc64", formatCRC(up.crc))
		return
	}
	c.Set("Content-MD5", base64.StdEncoding.EncodeToString(up.md5))
}

// appendBlockFromURL: https://learn.microsoft.com/rest/api/storageservices/append-block-from-url
func (s *Service) appendBlockFromURL(c *call) error {
	if err := c.noBody(); err != nil {
		return err
	}
	conditions, err := c.appendConditions()
	if err != nil {
		return err
	}
	src, err := s.copySource(c)
	if err != nil {
		return err
	}
	limit := int64(4 * mib)
	if c.version() >= v20221102 {
		limit = 100 * mib
	}
	up, err := s.fetch(c, &src, limit)
	if err != nil {
		return err
	}
	defer up.close()
	if up.length == 0 {
		return errInvalidRange
	}
	return s.append(c, conditions, up, func() { c.sendFetched(up) })
}

// putPageFromURL: https://learn.microsoft.com/rest/api/storageservices/put-page-from-url
func (s *Service) putPageFromURL(c *call) error {
	if err := c.noBody(); err != nil {
		return err
	}
	if action := c.Header("X-Ms-Page-Write"); action != "update" && action != "Update" {
		return wire.InvalidHeader("x-ms-page-write", action)
	}
	start, end, err := c.pageRange()
	if err != nil {
		return err
	}
	seq, err := c.sequenceConditions()
	if err != nil {
		return err
	}
	if c.Header("X-Ms-Source-Range") == "" {
		return wire.MissingHeader("x-ms-source-range")
	}
	src, err := s.copySource(c)
	if err != nil {
		return err
	}
	up, err := s.fetch(c, &src, maxPageWrite)
	if err != nil {
		return err
	}
	defer up.close()
	if up.length != end-start {
		return wire.InvalidHeader("x-ms-source-range", c.Header("X-Ms-Source-Range"))
	}
	return s.writePages(c, start, end, seq, up.slices, func() {
		c.sendFetched(up)
		c.sendEncrypted()
	})
}

// putBlobFromURL: https://learn.microsoft.com/rest/api/storageservices/put-blob-from-url
func (s *Service) putBlobFromURL(c *call) error {
	if kind := c.Header("X-Ms-Blob-Type"); kind != blockBlob.String() {
		return wire.InvalidHeader("x-ms-blob-type", kind)
	}
	if err := c.noBody(); err != nil {
		return err
	}
	src, err := s.copySource(c)
	if err != nil {
		return err
	}
	b, p, err := c.newBlob(blockBlob, false)
	if err != nil {
		return err
	}
	if c.HasHeader("X-Ms-Copy-Source-Tag-Option") {
		return wire.ErrNotImplemented
	}
	inherit := c.Header("X-Ms-Copy-Source-Blob-Properties") != "false"
	up, err := s.fetch(c, &src, 5000*mib)
	if err != nil {
		return err
	}
	defer up.close()
	changed := s.ticks.next(c.Now)
	err = s.update(c, func(tx *store.Tx) error {
		b := b
		if inherit {
			var from blobRecord
			if err := src.read(tx, c.now(), &from); err != nil {
				return err
			}
			b.inherit(c, &from)
		}
		if b.headers.md5 == "" {
			b.headers.md5 = string(up.md5)
		}
		b.created, b.changed = changed, changed
		if b.tier != "" {
			b.tierChanged = changed
		}
		b.content, b.length = layOut(tx, up.pieces())
		return s.replace(tx, c, &p, &b)
	})
	if err != nil {
		return syncCopyError(err)
	}
	c.sendVersion(changed)
	c.sendEncrypted()
	c.Set("Content-MD5", base64.StdEncoding.EncodeToString(up.md5))
	return c.Status(http.StatusCreated)
}

// inherit takes over the headers of a source that the request did not set.
func (b *blobRecord) inherit(c *call, from *blobRecord) {
	h := &b.headers
	for _, f := range [...]struct {
		name     string
		own, his *string
	}{
		{"X-Ms-Blob-Content-Type", &h.contentType, &from.headers.contentType},
		{"X-Ms-Blob-Content-Encoding", &h.encoding, &from.headers.encoding},
		{"X-Ms-Blob-Content-Language", &h.language, &from.headers.language},
		{"X-Ms-Blob-Cache-Control", &h.cacheControl, &from.headers.cacheControl},
	} {
		if !c.HasHeader(f.name) {
			*f.own = *f.his
		}
	}
	if !h.dispositionSet {
		h.disposition, h.dispositionSet = from.headers.disposition, from.headers.dispositionSet
	}
}
