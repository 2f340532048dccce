package blobsvc

import (
	"bytes"
	"crypto/md5"
	"encoding/base64"
	"encoding/binary"
	"io"
	"strconv"
	"sync"

	"github.com/minio/crc64nvme"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/encryption"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/storage/extent"
)

// upload is a request body that has become durable content, not yet part of any blob. close must be called once the
// metadata that refers to it was written, or will not be.
type upload struct {
	w      *extent.Writer
	slices []extent.Slice
	length int64
	// sealer encrypts the content; nil for none. sealed is its buffer.
	sealer *encryption.Sealer
	sealed *[chunkSize]byte
	// md5 is nil unless it was asked for.
	md5 []byte
	// crc is Azure's CRC64 (the NVMe polynomial), valid if hasCRC.
	crc    uint64
	hasCRC bool
}

func (u *upload) close() {
	if u.sealed != nil {
		chunks.Put(u.sealed)
		u.sealed = nil
	}
	if u.w != nil {
		_ = u.w.Close()
		u.w = nil
	}
}

// pieces returns the content as one piece; none if it is empty.
func (u *upload) pieces() []piece {
	if u.length == 0 {
		return nil
	}
	return []piece{{length: u.length, slices: u.slices, seal: u.sealer.Seal(), by: u.sealer.ID()}}
}

// blocks returns the content as blocks of the ids and lengths of list; as one piece if that is not what it is made of.
func (u *upload) blocks(list []piece) []piece {
	var sum int64
	for i := range list {
		sum += list[i].length
	}
	whole := u.pieces()
	if len(whole) == 0 || sum != u.length {
		return whole
	}
	out, at := make([]piece, len(list)), int64(0)
	for i := range list {
		out[i] = whole[0].window(at, at+list[i].length)
		out[i].block = list[i].block
		at += list[i].length
	}
	return out
}

// Versions at which bodies and hashes change.
// https://learn.microsoft.com/rest/api/storageservices/put-blob
// https://learn.microsoft.com/rest/api/storageservices/put-block
const (
	v20160531 wire.Version = 20160531 // blocks of 100 MiB, blobs of 256 MiB in one request
	v20190202 wire.Version = 20190202 // CRC64
	v20191212 wire.Version = 20191212 // blocks of 4000 MiB, blobs of 5000 MiB in one request; tags; versions
	v20221102 wire.Version = 20221102 // append blocks of 100 MiB
)

const mib = 1 << 20

// version is the version whose behaviour the caller asked for. One that names none gets the latest.
func (c *call) version() wire.Version {
	if c.Version == 0 {
		return wire.LatestVersion()
	}
	return c.Version
}

// byVersion picks the limit in bytes that the caller's version has.
func (c *call) byVersion(v2019, v2016, before int64) int64 {
	switch v := c.version(); {
	case v >= v20191212:
		return v2019
	case v >= v20160531:
		return v2016
	}
	return before
}

// contentLength returns the length of the body, which must have been announced and be within limit bytes.
func (c *call) contentLength(limit int64) (int64, error) {
	n := c.HTTP.ContentLength
	if n < 0 {
		return 0, wire.ErrMissingContentLength
	}
	if structured, err := c.structured(); err != nil {
		return 0, err
	} else if structured {
		if n, err = c.structuredContent(); err != nil {
			return 0, err
		}
	}
	if n > limit {
		return 0, c.unread(wire.ErrRequestBodyTooLarge.With("MaxLimit", strconv.FormatInt(limit, 10)))
	}
	return n, nil
}

// unread returns err, the answer to a request whose body is too long to be read for nothing: the connection ends with it,
// for otherwise the server would wait for the body before it answers.
func (c *call) unread(err error) error {
	if err != nil {
		c.Set("Connection", "close")
	}
	return err
}

// transportHashes are the hashes that a client sent to protect the body on its way.
type transportHashes struct {
	md5    []byte
	crc    uint64
	hasCRC bool
}

func (c *call) transportHashes() (h transportHashes, err error) {
	if s := c.Header("Content-Md5"); s != "" {
		if h.md5, err = parseMD5(s); err != nil {
			return h, err
		}
	}
	if s := c.Header("X-Ms-Content-Crc64"); s != "" {
		b, err := base64.StdEncoding.DecodeString(s)
		if err != nil || len(b) != 8 {
			return h, wire.InvalidHeader("x-ms-content-crc64", s)
		}
		if h.md5 != nil {
			return h, errBothHashes
		}
		h.crc, h.hasCRC = binary.LittleEndian.Uint64(b), true
	}
	return h, nil
}

// errBothHashes: a request may carry an MD5 or a CRC64, not both.
var errBothHashes = fail(400, "InvalidHeaderValue", "The value for one of the HTTP headers is not in the correct format.").
	With("HeaderName", "x-ms-content-crc64")

func parseMD5(s string) ([]byte, error) {
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil || len(b) != md5.Size {
		return nil, wire.ErrInvalidMD5
	}
	return b, nil
}

// check compares what was announced with what came.
func (h transportHashes) check(u *upload) error {
	if h.md5 != nil && !bytes.Equal(h.md5, u.md5) {
		return wire.ErrMD5Mismatch.With("UserSpecifiedMd5", base64.StdEncoding.EncodeToString(h.md5)).
			With("ServerCalculatedMd5", base64.StdEncoding.EncodeToString(u.md5))
	}
	if h.hasCRC && h.crc != u.crc {
		return wire.ErrCRC64Mismatch.With("UserSpecifiedCrc", formatCRC(h.crc)).
			With("ServerCalculatedCrc", formatCRC(u.crc))
	}
	return nil
}

func formatCRC(crc uint64) string {
	return base64.StdEncoding.EncodeToString(binary.LittleEndian.AppendUint64(nil, crc))
}

// receive makes the body durable and checks its hashes. wantMD5 asks for the MD5 even if the client sent none. On error
// there is nothing to close.
func (s *Service) receive(c *call, n int64, wantMD5 bool) (*upload, error) {
	sent, err := c.transportHashes()
	if err != nil {
		return nil, err
	}
	u := &upload{hasCRC: sent.hasCRC || c.version() >= v20190202}
	if u.sealer, err = s.sealerFor(c); err != nil {
		return nil, c.unread(err)
	}
	wantMD5 = wantMD5 || sent.md5 != nil || !u.hasCRC
	if c.HasHeader(structuredHeader) {
		err = s.storeStructured(c, u, n, wantMD5)
	} else {
		err = s.store(u, c.HTTP.Body, n, wantMD5)
	}
	if err != nil {
		return nil, err
	}
	if err := sent.check(u); err != nil {
		u.close()
		return nil, err
	}
	return u, nil
}

// storeStructured is store for a structured body.
func (s *Service) storeStructured(c *call, u *upload, n int64, wantMD5 bool) error {
	m := newStructuredReader(c.HTTP.Body, c.HTTP.ContentLength)
	err := s.store(u, m, n, wantMD5)
	switch {
	case err == nil:
		if err = m.finish(); err != nil {
			u.close()
			return err
		}
	case m.err == io.EOF:
		return errStructuredBody
	case m.err != nil:
		return m.err
	default:
		return err
	}
	c.Set("x-ms-structured-body", structuredForm)
	return nil
}

// store copies n bytes of body into the extents. On error there is nothing to close.
func (s *Service) store(u *upload, body io.Reader, n int64, wantMD5 bool) (err error) {
	defer func() {
		if err != nil {
			u.close()
		}
	}()
	u.length = n
	if n == 0 {
		if wantMD5 {
			sum := md5.Sum(nil)
			u.md5 = sum[:]
		}
		return nil
	}
	u.w = s.extents.NewWriter(n)
	if n <= chunkSize {
		err = u.copySmall(body, wantMD5)
	} else {
		err = u.copyLarge(body, wantMD5)
	}
	if err != nil {
		return err
	}
	u.slices, err = u.w.Commit()
	return err
}

// chunkSize is how much of a body is in hand at once. Small bodies fit whole.
const chunkSize = 256 << 10

// chunks are buffers for bodies.
var chunks = sync.Pool{New: func() any { return new([chunkSize]byte) }}

func (u *upload) copySmall(body io.Reader, wantMD5 bool) error {
	chunk := chunks.Get().(*[chunkSize]byte)
	defer chunks.Put(chunk)
	b := chunk[:u.length]
	if _, err := io.ReadFull(body, b); err != nil {
		return wire.BodyError(err)
	}
	if wantMD5 {
		sum := md5.Sum(b)
		u.md5 = sum[:]
	}
	if u.hasCRC {
		u.crc = crc64nvme.Checksum(b)
	}
	return u.write(b)
}

// write stores the next bytes of the content, at most chunkSize, encrypted if they are to be. It leaves b as it is.
func (u *upload) write(b []byte) error {
	if u.sealer != nil {
		if u.sealed == nil {
			u.sealed = chunks.Get().(*[chunkSize]byte)
		}
		out := u.sealed[:len(b)]
		u.sealer.Encrypt(out, b)
		b = out
	}
	_, err := u.w.Write(b)
	return err
}

// by identifies the key that the content is encrypted with.
func (u *upload) by() encryption.ID { return u.sealer.ID() }

// copyLarge reads and writes in this goroutine while another computes the MD5, which is the slowest of the steps. Four
// chunks are under way at most.
func (u *upload) copyLarge(body io.Reader, wantMD5 bool) error {
	type filled struct {
		chunk *[chunkSize]byte
		n     int
	}
	var hashing chan filled
	var free chan *[chunkSize]byte
	hashed := make(chan []byte, 1)
	const ring = 4
	if wantMD5 {
		hashing, free = make(chan filled, ring), make(chan *[chunkSize]byte, ring)
		for range ring {
			free <- chunks.Get().(*[chunkSize]byte)
		}
		go func() {
			h := md5.New()
			for f := range hashing {
				h.Write(f.chunk[:f.n])
				free <- f.chunk
			}
			hashed <- h.Sum(nil)
		}()
		defer func() {
			for range ring {
				chunks.Put(<-free)
			}
		}()
	}
	var chunk *[chunkSize]byte
	if !wantMD5 {
		chunk = chunks.Get().(*[chunkSize]byte)
		defer chunks.Put(chunk)
	}
	err := func() error {
		for left := u.length; left > 0; {
			if wantMD5 {
				chunk = <-free
			}
			b := chunk[:min(left, chunkSize)]
			n, err := io.ReadFull(body, b)
			if err == nil {
				left -= int64(n)
				if u.hasCRC {
					u.crc = crc64nvme.Update(u.crc, b)
				}
				err = u.write(b)
			} else {
				err = wire.BodyError(err)
			}
			if wantMD5 {
				hashing <- filled{chunk, n}
			}
			if err != nil {
				return err
			}
		}
		return nil
	}()
	if wantMD5 {
		close(hashing)
		u.md5 = <-hashed
	}
	return err
}

// sendHashes sets the response headers that tell what was received: the MD5 if the client sent one or its version knows
// no CRC64, otherwise the CRC64.
func (c *call) sendHashes(u *upload) {
	if u.md5 != nil {
		c.Set("Content-MD5", base64.StdEncoding.EncodeToString(u.md5))
	}
	if u.hasCRC && (u.md5 == nil || c.HasHeader("X-Ms-Content-Crc64")) {
		c.Set("x-ms-content-crc64", formatCRC(u.crc))
	}
}

// hash fills in the hashes of a body that is in hand whole.
func (u *upload) hash(b []byte, wantMD5 bool) {
	u.length = int64(len(b))
	if wantMD5 {
		sum := md5.Sum(b)
		u.md5 = sum[:]
	}
	if u.hasCRC {
		u.crc = crc64nvme.Checksum(b)
	}
}
