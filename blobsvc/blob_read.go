package blobsvc

import (
	"crypto/md5"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"io"
	"net"
	"net/http"
	"strconv"

	"github.com/minio/crc64nvme"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/content"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// viewBlob reads the blob that the request names and checks the preconditions of a read. more, if not nil, goes on in
// the same transaction.
func (s *Service) viewBlob(c *call, b *Blob, more func(tx *store.Tx, gen, slot uint64) error) (slot uint64, err error) {
	p, err := c.preconditions()
	if err != nil {
		return 0, err
	}
	at, err := c.address()
	if err != nil {
		return 0, err
	}
	err = s.db.View(func(tx *store.Tx) error {
		gen, err := containerGen(tx, c.Account, c.container)
		if err != nil {
			return err
		}
		if slot, err = at.get(tx, gen, c.blob, b); err != nil {
			return err
		}
		if err := p.checkRead(b, c.now()); err != nil {
			return err
		}
		if more == nil {
			return nil
		}
		return more(tx, gen, slot)
	})
	return slot, err
}

// rangeHashLimit is the size in bytes of the largest range of which a hash is computed.
const rangeHashLimit = 4 * mib

// rangeHash reads x-ms-range-get-content-md5 and -crc64.
func (c *call) rangeHash() (name string, err error) {
	for _, h := range [...][2]string{
		{"X-Ms-Range-Get-Content-Md5", "x-ms-range-get-content-md5"},
		{"X-Ms-Range-Get-Content-Crc64", "x-ms-range-get-content-crc64"},
	} {
		switch s := c.Header(h[0]); s {
		case "", "false", "False":
		case "true", "True":
			if name != "" {
				return "", wire.InvalidHeader(h[1], s)
			}
			name = h[1]
		default:
			return "", wire.InvalidHeader(h[1], s)
		}
	}
	return name, nil
}

// getBlob: https://learn.microsoft.com/rest/api/storageservices/get-blob
func (s *Service) getBlob(c *call) error {
	rng, partial, err := c.requestRange()
	if err != nil {
		return err
	}
	hashName, err := c.rangeHash()
	if err != nil {
		return err
	}
	if hashName != "" && !partial {
		return errRangeHashNeedsRange
	}
	structured, err := c.structured()
	if err != nil {
		return err
	}
	if structured && hashName != "" {
		return wire.InvalidHeader(hashName, "true") // two checksums of one answer
	}
	var b Blob
	var body *content.Reader
	var off, n int64
	var gen uint64
	slot, err := s.viewBlob(c, &b, func(tx *store.Tx, in, at uint64) error {
		if err := s.unlock(c.Account, &b, c.key); err != nil {
			return err
		}
		if b.Tier == ArchiveTier {
			return errBlobArchived
		}
		if b.isIncremental(at) {
			return errIncrementalDestination
		}
		gen = in
		off, n = 0, b.Length
		if partial {
			var err error
			if off, n, err = rng.within(b.Length); err != nil {
				return err
			}
		}
		if hashName != "" && n > rangeHashLimit {
			return errRangeHashTooLarge
		}
		var err error
		body, err = s.openRange(tx, &b, off, n)
		return err
	})
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	s.wasRead(c, &b, gen, slot)
	if hashName != "" {
		value, err := hashRange(body, hashName)
		if err != nil {
			return err
		}
		if hashName == "x-ms-range-get-content-md5" {
			c.Set("Content-MD5", value)
		} else {
			c.Set("x-ms-content-crc64", value)
		}
	}
	c.sendBlob(&b, slot)
	s.sendAccess(c, &b)
	c.SetInt("Content-Length", n)
	status := http.StatusOK
	if partial {
		status = http.StatusPartialContent
		c.Set("Content-Range", "bytes "+strconv.FormatInt(off, 10)+"-"+strconv.FormatInt(off+n-1, 10)+"/"+strconv.FormatInt(b.Length, 10))
		if b.Headers.MD5 != "" {
			c.Set("x-ms-blob-content-md5", base64MD5(b.Headers.MD5))
		}
	} else if b.Headers.MD5 != "" {
		c.Set("Content-MD5", base64MD5(b.Headers.MD5))
	}
	if structured {
		if err := body.Check(); err != nil {
			return err
		}
		c.Set("x-ms-structured-body", structuredForm)
		c.SetInt("x-ms-structured-content-length", n)
		c.SetInt("Content-Length", structuredSize(n))
		c.Out.WriteHeader(status)
		if err := writeStructured(c.Out, body, n); err != nil {
			return broken(err)
		}
		return nil
	}
	return c.sendContent(status, body)
}

// getBlobProperties: https://learn.microsoft.com/rest/api/storageservices/get-blob-properties
func (s *Service) getBlobProperties(c *call) error {
	var b Blob
	slot, err := s.viewBlob(c, &b, func(*store.Tx, uint64, uint64) error { return s.unlock(c.Account, &b, c.key) })
	if err != nil {
		return err
	}
	c.sendBlob(&b, slot)
	s.sendAccess(c, &b)
	c.sendTier(&b, slot)
	if b.Headers.MD5 != "" {
		c.Set("Content-MD5", base64MD5(b.Headers.MD5))
	}
	c.SetInt("Content-Length", b.Length)
	c.Out.WriteHeader(http.StatusOK)
	return nil
}

// getBlobMetadata: https://learn.microsoft.com/rest/api/storageservices/get-blob-metadata
func (s *Service) getBlobMetadata(c *call) error {
	var b Blob
	if _, err := s.viewBlob(c, &b, func(*store.Tx, uint64, uint64) error { return s.unlock(c.Account, &b, c.key) }); err != nil {
		return err
	}
	c.sendVersion(b.Changed)
	c.SetMetadata(b.Metadata)
	return c.Status(http.StatusOK)
}

// openRange opens n bytes from off of b, which was unlocked. The caller closes the reader.
func (s *Service) openRange(tx *store.Tx, b *Blob, off, n int64) (*content.Reader, error) {
	x, err := b.content.extract(tx, off, n, b.Length)
	if err != nil {
		return nil, err
	}
	return x.Open(s.extents, b.Encryption, b.opened)
}

// smallBody is the size in bytes up to which a body is read into memory and sent in one write with its head, which
// is quicker than handing the file to the kernel.
const smallBody = 64 << 10

// sendContent answers with the content that r reads.
func (c *call) sendContent(status int, r *content.Reader) error {
	if r.Size() > smallBody || !r.Contiguous() {
		if err := r.Check(); err != nil {
			return err
		}
		c.Out.WriteHeader(status)
		if err := r.CopyTo(c.Out); err != nil {
			return broken(err)
		}
		return nil
	}
	chunk := content.TakeChunk()
	defer content.FreeChunk(chunk)
	// Read before the head is sent: a damaged extent is still an error that can be answered.
	if _, err := io.ReadFull(r, chunk[:r.Size()]); err != nil {
		return err
	}
	c.Out.WriteHeader(status)
	_, _ = c.Out.Write(chunk[:r.Size()])
	return nil
}

// broken is what becomes of an answer that could not be sent whole. A client that went away is nobody's mistake: the
// connection ends without a word. Anything else, such as a damaged extent, is an error that somebody should see.
func broken(err error) error {
	var gone *net.OpError
	if errors.As(err, &gone) {
		panic(http.ErrAbortHandler)
	}
	return fmt.Errorf("send content: %w", err)
}

// hashRange computes the hash of a range of at most 4 MiB and makes r ready to be read again.
func hashRange(r *content.Reader, name string) (string, error) {
	var h hash.Hash
	if name == "x-ms-range-get-content-md5" {
		h = md5.New()
	} else {
		h = crc64nvme.New()
	}
	if err := r.CopyTo(h); err != nil {
		return "", err
	}
	if err := r.Rewind(); err != nil {
		return "", err
	}
	sum := h.Sum(nil)
	if len(sum) == 8 { // hash/crc64 sums are big-endian, the header is not
		for i := range 4 {
			sum[i], sum[7-i] = sum[7-i], sum[i]
		}
	}
	return base64.StdEncoding.EncodeToString(sum), nil
}
