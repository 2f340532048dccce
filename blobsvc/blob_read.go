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

	"github.com/lazuli-storage/lazuli/blobsvc/internal/encryption"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/storage/extent"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// viewBlob reads the blob that the request names and checks the preconditions of a read. more, if not nil, goes on in
// the same transaction.
func (s *Service) viewBlob(c *call, b *blobRecord, more func(tx *store.Tx, gen, slot uint64) error) (slot uint64, err error) {
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
	var b blobRecord
	var body blobReader
	var off, n int64
	var gen uint64
	slot, err := s.viewBlob(c, &b, func(tx *store.Tx, in, at uint64) error {
		if err := s.unlock(c.Account, &b, c.key); err != nil {
			return err
		}
		if b.tier == archiveTier {
			return errBlobArchived
		}
		if b.isDestination(at) {
			return errIncrementalDestination
		}
		gen = in
		off, n = 0, b.length
		if partial {
			var err error
			if off, n, err = rng.within(b.length); err != nil {
				return err
			}
		}
		if hashName != "" && n > rangeHashLimit {
			return errRangeHashTooLarge
		}
		return body.open(s, tx, &b, off, n)
	})
	if err != nil {
		return err
	}
	defer body.close()
	s.wasRead(c, &b, gen, slot)
	if hashName != "" {
		value, err := hashRange(&body, hashName)
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
		c.Set("Content-Range", "bytes "+strconv.FormatInt(off, 10)+"-"+strconv.FormatInt(off+n-1, 10)+"/"+strconv.FormatInt(b.length, 10))
		if b.headers.md5 != "" {
			c.Set("x-ms-blob-content-md5", base64MD5(b.headers.md5))
		}
	} else if b.headers.md5 != "" {
		c.Set("Content-MD5", base64MD5(b.headers.md5))
	}
	if structured {
		c.Set("x-ms-structured-body", structuredForm)
		c.SetInt("x-ms-structured-content-length", n)
		c.SetInt("Content-Length", structuredSize(n))
		c.Out.WriteHeader(status)
		if err := writeStructured(c.Out, &body, n); err != nil {
			return broken(err)
		}
		return nil
	}
	return body.send(c, status)
}

// getBlobProperties: https://learn.microsoft.com/rest/api/storageservices/get-blob-properties
func (s *Service) getBlobProperties(c *call) error {
	var b blobRecord
	slot, err := s.viewBlob(c, &b, func(*store.Tx, uint64, uint64) error { return s.unlock(c.Account, &b, c.key) })
	if err != nil {
		return err
	}
	c.sendBlob(&b, slot)
	s.sendAccess(c, &b)
	c.sendTier(&b, slot)
	if b.headers.md5 != "" {
		c.Set("Content-MD5", base64MD5(b.headers.md5))
	}
	c.SetInt("Content-Length", b.length)
	c.Out.WriteHeader(http.StatusOK)
	return nil
}

// getBlobMetadata: https://learn.microsoft.com/rest/api/storageservices/get-blob-metadata
func (s *Service) getBlobMetadata(c *call) error {
	var b blobRecord
	if _, err := s.viewBlob(c, &b, func(*store.Tx, uint64, uint64) error { return s.unlock(c.Account, &b, c.key) }); err != nil {
		return err
	}
	c.sendVersion(b.changed)
	c.SetMetadata(b.metadata)
	return c.Status(http.StatusOK)
}

// blobReader reads a range of a blob.
type blobReader struct {
	s *Service
	n int64 // bytes in all
	x extract
	// content is nil if the range has none. It is opened while the metadata is read, so that a blob that is deleted then
	// can still be sent.
	content *extent.Reader
	// opener stands before content if it is encrypted.
	opener *encryption.Opener
	// at and done are where Read is: the run, and the bytes of it that were read.
	at   int
	done int64
}

// open prepares reading n bytes from off of b.
func (r *blobReader) open(s *Service, tx *store.Tx, b *blobRecord, off, n int64) (err error) {
	r.s, r.n = s, n
	if r.x, err = b.content.extract(tx, off, n, b.length); err != nil {
		return err
	}
	if b.encryption != (encryption.ID{}) {
		if b.opened == nil {
			return encryption.ErrKeyMissing
		}
		r.opener = encryption.NewOpener(b.opened, r.x.seals)
	}
	return r.rewind()
}

// rewind goes back to the first byte. The extents stay open: what compaction moves away meanwhile is still there.
func (r *blobReader) rewind() (err error) { return r.seek(0) }

// seek goes to an offset within the range.
func (r *blobReader) seek(off int64) (err error) {
	var content int64 // of the runs before off
	for r.at = 0; r.at < len(r.x.runs) && off > r.x.runs[r.at]; r.at++ {
		off -= r.x.runs[r.at]
		if r.at%2 == 0 {
			content += r.x.runs[r.at]
		}
	}
	if r.done = off; r.at%2 == 0 {
		content += off
	}
	switch skip, n := r.x.skip+content, r.x.content-content; {
	case r.content != nil:
		err = r.content.Reset(r.x.slices, skip, n)
	case n > 0:
		r.content, err = r.s.extents.NewReader(r.x.slices, skip, n)
	}
	if r.opener != nil {
		r.opener.Reset(r.content, content)
	}
	return err
}

func (r *blobReader) close() {
	if r.content != nil {
		_ = r.content.Close()
		r.content = nil
	}
}

// Close implements io.Closer.
func (r *blobReader) Close() error {
	r.close()
	return nil
}

// copyTo writes what is left to w.
func (r *blobReader) copyTo(w io.Writer) error {
	if r.opener != nil {
		chunk := chunks.Get().(*[chunkSize]byte)
		defer chunks.Put(chunk)
		_, err := io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{r}, chunk[:])
		return err
	}
	if len(r.x.runs) == 1 && r.content != nil {
		n, err := io.Copy(w, r.content) // hands files to the kernel
		if err == nil && n != r.x.content {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	for i, n := range r.x.runs {
		var err error
		switch {
		case n == 0:
		case i%2 == 0:
			_, err = io.CopyN(w, r.content, n)
		default:
			err = writeZeros(w, n)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Read implements io.Reader, for copies of parts.
func (r *blobReader) Read(p []byte) (int, error) {
	for r.at < len(r.x.runs) {
		left := r.x.runs[r.at] - r.done
		if left == 0 {
			r.at, r.done = r.at+1, 0
			continue
		}
		p = p[:min(int64(len(p)), left)]
		n, err := len(p), error(nil)
		if r.at%2 == 0 {
			if n, err = r.read(p); err == io.EOF && n > 0 {
				err = nil
			} else if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
		} else {
			clear(p)
		}
		r.done += int64(n)
		return n, err
	}
	return 0, io.EOF
}

// read reads content, in the clear.
func (r *blobReader) read(p []byte) (int, error) {
	if r.opener != nil {
		return r.opener.Read(p)
	}
	return r.content.Read(p)
}

var zeros [64 << 10]byte

func writeZeros(w io.Writer, n int64) error {
	for n > 0 {
		k, err := w.Write(zeros[:min(n, int64(len(zeros)))])
		if err != nil {
			return err
		}
		n -= int64(k)
	}
	return nil
}

// smallBody is the size in bytes up to which a body is read into memory and sent in one write with its head, which
// is quicker than handing the file to the kernel.
const smallBody = 64 << 10

// send answers with the content.
func (r *blobReader) send(c *call, status int) error {
	if r.n > smallBody || len(r.x.runs) != 1 || r.content == nil {
		c.Out.WriteHeader(status)
		if err := r.copyTo(c.Out); err != nil {
			return broken(err)
		}
		return nil
	}
	chunk := chunks.Get().(*[chunkSize]byte)
	defer chunks.Put(chunk)
	// Read before the head is sent: a damaged extent is still an error that can be answered.
	if _, err := io.ReadFull(r, chunk[:r.n]); err != nil {
		return err
	}
	c.Out.WriteHeader(status)
	_, _ = c.Out.Write(chunk[:r.n])
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
func hashRange(r *blobReader, name string) (string, error) {
	var h hash.Hash
	if name == "x-ms-range-get-content-md5" {
		h = md5.New()
	} else {
		h = crc64nvme.New()
	}
	if err := r.copyTo(h); err != nil {
		return "", err
	}
	if err := r.rewind(); err != nil {
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
