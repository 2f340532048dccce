package blobsvc

import (
	"encoding/base64"
	"errors"
	"io"
	"net/http"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/content"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// sourceMD5 reads x-ms-source-content-md5; nil if absent.
func (c *call) sourceMD5() ([]byte, error) {
	if s := c.Header("X-Ms-Source-Content-Md5"); s != "" {
		return parseMD5(s)
	}
	return nil, nil
}

// sourceHashes are the hashes that a client expects of what it copies; nil for none.
type sourceHashes struct{ md5, crc []byte }

func (c *call) sourceHashes() (h sourceHashes, err error) {
	if h.md5, err = c.sourceMD5(); err != nil {
		return h, err
	}
	if text := c.Header("X-Ms-Source-Content-Crc64"); text != "" {
		if h.crc, err = base64.StdEncoding.DecodeString(text); err != nil || len(h.crc) != 8 {
			return h, wire.InvalidHeader("x-ms-source-content-crc64", text)
		}
	}
	return h, nil
}

func (h sourceHashes) check(up *content.Upload) error {
	if h.md5 != nil && string(h.md5) != string(up.MD5) {
		return wire.ErrMD5Mismatch.With("UserSpecifiedMd5", base64.StdEncoding.EncodeToString(h.md5)).
			With("ServerCalculatedMd5", base64.StdEncoding.EncodeToString(up.MD5))
	}
	if h.crc != nil && base64.StdEncoding.EncodeToString(h.crc) != formatCRC(up.CRC64) {
		return wire.ErrCRC64Mismatch
	}
	return nil
}

// fetch makes the source's range durable as new content, of at most limit bytes, and checks x-ms-source-content-md5 and
// -crc64. It serves the operations that take a source's bytes before they answer. from is the source, without its content.
// The caller closes the upload.
func (s *Service) fetch(c *call, src *copySource, limit int64) (up *content.Upload, from Blob, err error) {
	want, err := c.sourceHashes()
	if err != nil {
		return nil, from, err
	}
	rng := Range{0, OpenEnd}
	if text := c.Header("X-Ms-Source-Range"); text != "" {
		var ok bool
		if rng, ok = parseRange(text); !ok {
			return nil, from, wire.InvalidHeader("x-ms-source-range", text)
		}
	}
	body, n, err := s.openSource(c, src, rng, &from)
	if err != nil {
		return nil, from, syncCopyError(err)
	}
	defer func() { _ = body.Close() }()
	if n > limit {
		return nil, from, wire.ErrRequestBodyTooLarge
	}
	sealer, err := s.sealerFor(c)
	if err != nil {
		return nil, from, err
	}
	up, err = content.Store(s.extents, body, n, content.Options{MD5: true, CRC64: c.version() >= v20190202 || want.crc != nil, Sealer: sealer})
	if err != nil {
		if src.remote != nil {
			err = sourceBroken(err)
		}
		return nil, from, err
	}
	if err := want.check(up); err != nil {
		up.Close()
		return nil, from, err
	}
	return up, from, nil
}

// sourceBroken is what becomes of a source outside that stopped halfway.
func sourceBroken(err error) error {
	var body *content.BodyError
	if errors.As(err, &body) {
		return errCannotVerifyCopySource
	}
	return err
}

// openSource opens a range of a source, of n bytes. from gets what is known of it.
func (s *Service) openSource(c *call, src *copySource, rng Range, from *Blob) (body io.ReadCloser, n int64, err error) {
	if src.remote != nil {
		b, err := s.getRemote(c.HTTP.Context(), src, rng, "")
		if err != nil {
			return nil, 0, err
		}
		*from = b.of
		return b, b.n, nil
	}
	var r *content.Reader
	err = s.db.View(func(tx *store.Tx) error {
		if err := src.read(tx, c.now(), from); err != nil {
			return err
		}
		if err := s.unlock(src.account, from, c.sourceKey); err != nil {
			return errSource{err}
		}
		var off int64
		if from.Length > 0 || rng.Start > 0 {
			var err error
			if off, n, err = rng.within(from.Length); err != nil {
				return err
			}
		}
		if src.withBlocks {
			src.blocks = nil
			err := from.content.walk(tx, 0, from.Length, from.Length, func(p *content.Piece) error {
				src.blocks = append(src.blocks, content.Piece{Length: p.Length, Block: p.Block})
				return nil
			})
			if err != nil {
				return err
			}
		}
		var err error
		r, err = s.openRange(tx, from, off, n)
		return err
	})
	return r, n, err
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
	up, _, err := s.fetch(c, &src, c.byVersion(4000*mib, 100*mib, 100*mib))
	if err != nil {
		return err
	}
	defer up.Close()
	if up.Length == 0 {
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
func (c *call) sendFetched(up *content.Upload) {
	if up.HasCRC64 && !c.HasHeader("X-Ms-Source-Content-Md5") {
		c.Set("x-ms-content-crc64", formatCRC(up.CRC64))
		return
	}
	c.Set("Content-MD5", base64.StdEncoding.EncodeToString(up.MD5))
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
	up, _, err := s.fetch(c, &src, limit)
	if err != nil {
		return err
	}
	defer up.Close()
	if up.Length == 0 {
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
	up, _, err := s.fetch(c, &src, maxPageWrite)
	if err != nil {
		return err
	}
	defer up.Close()
	if up.Length != end-start {
		return wire.InvalidHeader("x-ms-source-range", c.Header("X-Ms-Source-Range"))
	}
	return s.writePages(c, start, end, seq, up, func() {
		c.sendFetched(up)
		c.sendEncrypted()
	})
}

// putBlobFromURL: https://learn.microsoft.com/rest/api/storageservices/put-blob-from-url
func (s *Service) putBlobFromURL(c *call) error {
	if kind := c.Header("X-Ms-Blob-Type"); kind != BlockBlob.String() {
		return wire.InvalidHeader("x-ms-blob-type", kind)
	}
	if err := c.noBody(); err != nil {
		return err
	}
	src, err := s.copySource(c)
	if err != nil {
		return err
	}
	b, p, err := c.newBlob(BlockBlob, false)
	if err != nil {
		return err
	}
	copyTags, err := c.copyTags(&src, &b)
	if err != nil {
		return err
	}
	inherit := c.Header("X-Ms-Copy-Source-Blob-Properties") != "false"
	up, from, err := s.fetch(c, &src, 5000*mib)
	if err != nil {
		return err
	}
	defer up.Close()
	if inherit {
		b.inherit(c, &from)
	}
	if copyTags {
		b.Tags = from.Tags
	}
	if err := s.commitWhole(c, &p, b, up); err != nil {
		return err
	}
	return c.Status(http.StatusCreated)
}

// inherit takes over the headers of a source that the request did not set.
func (b *Blob) inherit(c *call, from *Blob) {
	h := &b.Headers
	for _, f := range [...]struct {
		name     string
		own, his *string
	}{
		{"X-Ms-Blob-Content-Type", &h.ContentType, &from.Headers.ContentType},
		{"X-Ms-Blob-Content-Encoding", &h.Encoding, &from.Headers.Encoding},
		{"X-Ms-Blob-Content-Language", &h.Language, &from.Headers.Language},
		{"X-Ms-Blob-Cache-Control", &h.CacheControl, &from.Headers.CacheControl},
	} {
		if !c.HasHeader(f.name) {
			*f.own = *f.his
		}
	}
	if !h.DispositionSet {
		h.Disposition, h.DispositionSet = from.Headers.Disposition, from.Headers.DispositionSet
	}
}
