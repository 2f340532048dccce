package blobsvc

import (
	"bytes"
	"crypto/md5"
	"encoding/base64"
	"encoding/binary"
	"io"
	"strconv"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/content"
	"github.com/lazuli-storage/lazuli/blobsvc/internal/encryption"
	"github.com/lazuli-storage/lazuli/blobsvc/internal/state"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

const mib = 1 << 20

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

// unread returns err, the answer to a request whose body is too long to be read for nothing: the connection ends with
// it, for otherwise the server would wait for the body before it answers.
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
	// The MD5 for the properties of a blob takes precedence in Put Blob, which compares the content with it as well.
	// https://learn.microsoft.com/rest/api/storageservices/put-blob#request-headers-all-blob-types
	if s := c.Header("Content-Md5"); s != "" && !(c.Operation == "PutBlob" && c.HasHeader("X-Ms-Blob-Content-Md5")) {
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

func parseMD5(s string) ([]byte, error) {
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil || len(b) != md5.Size {
		return nil, wire.ErrInvalidMD5
	}
	return b, nil
}

// check compares the received content with the announced length and hashes.
func (h transportHashes) check(u *content.Upload) error {
	if h.md5 != nil && !bytes.Equal(h.md5, u.MD5) {
		return wire.ErrMD5Mismatch.With("UserSpecifiedMd5", base64.StdEncoding.EncodeToString(h.md5)).
			With("ServerCalculatedMd5", base64.StdEncoding.EncodeToString(u.MD5))
	}
	if h.hasCRC && h.crc != u.CRC64 {
		return wire.ErrCRC64Mismatch.With("UserSpecifiedCrc", formatCRC(h.crc)).
			With("ServerCalculatedCrc", formatCRC(u.CRC64))
	}
	return nil
}

func formatCRC(crc uint64) string {
	return base64.StdEncoding.EncodeToString(binary.LittleEndian.AppendUint64(nil, crc))
}

// receive makes the body durable and checks its hashes. wantMD5 asks for the MD5 even if the client sent none. On error
// there is nothing to close.
func (s *Service) receive(c *call, w *state.Write, n int64, wantMD5 bool) (*content.Upload, error) {
	return s.receiveBody(c, w, n, false, func(*encryption.Sealer) bool { return wantMD5 })
}

// receiveFor is receive for content that is added to a blob that exists.
func (s *Service) receiveFor(c *call, w *state.Write, n int64) (*content.Upload, error) {
	return s.receiveBody(c, w, n, true, func(*encryption.Sealer) bool { return false })
}

// receivePages is receiveFor for Put Page, which has the MD5, and no CRC64, if the blob is in an encryption scope
// (recorded).
func (s *Service) receivePages(c *call, w *state.Write, n int64) (*content.Upload, error) {
	return s.receiveBody(c, w, n, true, func(by *encryption.Sealer) bool { return by.ID().Scope != "" })
}

func (s *Service) receiveBody(c *call, w *state.Write, n int64, existing bool,
	wantMD5 func(*encryption.Sealer) bool) (*content.Upload, error) {
	sent, err := c.transportHashes()
	if err != nil {
		return nil, err
	}
	o := content.Options{CRC64: sent.hasCRC || c.version() >= v20190202}
	if o.Sealer, err = s.state.Blobs.Sealer(w, existing); err != nil {
		return nil, c.unread(err)
	}
	o.MD5 = wantMD5(o.Sealer) || sent.md5 != nil || !o.CRC64
	var u *content.Upload
	if c.HasHeader(structuredHeader) {
		u, err = s.receiveStructured(c, n, o)
	} else {
		u, err = content.Store(s.state.Extents(), c.HTTP.Body, n, o)
	}
	if err != nil {
		return nil, err
	}
	if err := sent.check(u); err != nil {
		u.Close()
		return nil, err
	}
	return u, nil
}

// receiveStructured makes a structured body durable.
func (s *Service) receiveStructured(c *call, n int64, o content.Options) (*content.Upload, error) {
	m := newStructuredReader(c.HTTP.Body, c.HTTP.ContentLength)
	u, err := content.Store(s.state.Extents(), m, n, o)
	switch {
	case err == nil:
		if err = m.finish(); err != nil {
			u.Close()
			return nil, err
		}
	case m.err == io.EOF:
		return nil, errStructuredBody
	case m.err != nil:
		return nil, m.err
	default:
		return nil, err
	}
	c.Set("x-ms-structured-body", structuredForm)
	return u, nil
}

// sendHashes sets the response headers with the hashes of the received content: the MD5 if the client sent one or its
// version knows no CRC64, otherwise the CRC64. From version 2026-10-06 on the CRC64 is there in either case.
func (c *call) sendHashes(u *content.Upload) {
	if u.MD5 != nil {
		c.Set("Content-MD5", base64.StdEncoding.EncodeToString(u.MD5))
	}
	if u.HasCRC64 && (u.MD5 == nil || c.HasHeader("X-Ms-Content-Crc64") || c.version() >= v20261006) {
		c.Set("x-ms-content-crc64", formatCRC(u.CRC64))
	}
}

// defaultType is the content type of a blob that was given none.
const defaultType = "application/octet-stream"

// earlyCheck is the size in bytes from which on a body is received only after the preconditions were found to hold.
const earlyCheck = 1 * mib
