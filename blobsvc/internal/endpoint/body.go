package endpoint

import (
	"bytes"
	"crypto/md5"
	"encoding/base64"
	"encoding/binary"
	"io"
	"strconv"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	state "github.com/lazuli-storage/lazuli/internal/state/blob"
	"github.com/lazuli-storage/lazuli/internal/state/blob/content"
)

// MiB is a mebibyte.
const MiB = 1 << 20

// ContentLength returns the length of the body, which must have been announced and be within limit bytes.
func (c *Call) ContentLength(limit int64) (int64, error) {
	n := c.HTTP.ContentLength
	if n < 0 {
		return 0, wire.ErrMissingContentLength
	}
	if structured, err := Structured(c.Headers()); err != nil {
		return 0, err
	} else if structured {
		if n, err = structuredContent(c.Headers(), n); err != nil {
			return 0, err
		}
	}
	if n > limit {
		return 0, wire.ErrRequestBodyTooLarge.With("MaxLimit", strconv.FormatInt(limit, 10))
	}
	return n, nil
}

// TransportHashes are the hashes that a client sent to protect the body on its way.
type TransportHashes struct {
	MD5    []byte
	crc    uint64
	HasCRC bool
}

// ReadTransportHashes reads the hashes of the body of an operation: in Content-MD5, or in x-ms-content-crc64.
func ReadTransportHashes(operation string, sent wire.Headers) (h TransportHashes, err error) {
	// The MD5 for the properties of a blob takes precedence in Put Blob, which compares the content with it as well.
	// https://learn.microsoft.com/rest/api/storageservices/put-blob#request-headers-all-blob-types
	if s := sent.Get("Content-Md5"); s != "" && !(operation == "PutBlob" && sent.Has("X-Ms-Blob-Content-Md5")) {
		if h.MD5, err = ParseMD5(s); err != nil {
			return h, err
		}
	}
	if s := sent.Get("X-Ms-Content-Crc64"); s != "" {
		b, err := base64.StdEncoding.DecodeString(s)
		if err != nil || len(b) != 8 {
			return h, wire.InvalidHeader("x-ms-content-crc64", s)
		}
		if h.MD5 != nil {
			return h, errBothHashes
		}
		h.crc, h.HasCRC = binary.LittleEndian.Uint64(b), true
	}
	return h, nil
}

// ParseMD5 reads an MD5 in base64.
func ParseMD5(s string) ([]byte, error) {
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil || len(b) != md5.Size {
		return nil, wire.ErrInvalidMD5
	}
	return b, nil
}

// Check compares the received content with the announced length and hashes.
func (h TransportHashes) Check(u *content.Upload) error {
	if h.MD5 != nil && !bytes.Equal(h.MD5, u.MD5) {
		return MD5Mismatch(h.MD5, u.MD5)
	}
	if h.HasCRC && h.crc != u.CRC64 {
		return wire.ErrCRC64Mismatch.With("UserSpecifiedCrc", FormatCRC(h.crc)).
			With("ServerCalculatedCrc", FormatCRC(u.CRC64))
	}
	return nil
}

// MD5Mismatch is [wire.ErrMD5Mismatch] with the MD5 that the client expects and the one that the content has.
func MD5Mismatch(want, has []byte) error {
	return wire.ErrMD5Mismatch.With("UserSpecifiedMd5", FormatMD5(want)).With("ServerCalculatedMd5", FormatMD5(has))
}

// FormatMD5 writes an MD5 in base64, as headers have it.
func FormatMD5(sum []byte) string { return base64.StdEncoding.EncodeToString(sum) }

// FormatCRC writes a CRC64 in base64, as headers have it.
func FormatCRC(crc uint64) string {
	return base64.StdEncoding.EncodeToString(binary.LittleEndian.AppendUint64(nil, crc))
}

// Reception is what depends on the operation when a body is received.
type Reception struct {
	// Existing is set for content that is added to a blob that exists.
	Existing bool
	// MD5 asks for the MD5 even if the client sent none, ScopeMD5 does in an encryption scope.
	MD5, ScopeMD5 bool
}

// Receive makes the body, of n bytes of content, durable and checks its hashes. On error there is nothing to close.
func (c *Call) Receive(w *state.Write, n int64, how Reception) (*content.Upload, error) {
	sent, err := ReadTransportHashes(c.Operation, c.Headers())
	if err != nil {
		return nil, err
	}
	var o content.Options
	// Answers of these versions have a CRC64 of the body, so it is computed while the body is stored and not in a second
	// pass.
	o.CRC64 = sent.HasCRC || c.EffectiveVersion() >= V20190202
	if o.Sealer, err = c.State.Blobs.Sealer(w, how.Existing); err != nil {
		return nil, err
	}
	// Computed only if it is asked for or stored: it is slower than the disk.
	o.MD5 = how.MD5 || how.ScopeMD5 && o.Sealer.ID().Scope != "" || sent.MD5 != nil || !o.CRC64
	var u *content.Upload
	if c.Headers().Has(structuredHeader) {
		u, err = c.receiveStructured(n, o)
	} else {
		u, err = content.Store(c.State.Extents(), c.HTTP.Body, n, o)
	}
	if err != nil {
		return nil, err
	}
	// After the body was stored, as its hash is known at its end. Close gives the room back: nothing refers to it yet.
	if err := sent.Check(u); err != nil {
		u.Close()
		return nil, err
	}
	return u, nil
}

// receiveStructured makes a structured body durable.
func (c *Call) receiveStructured(n int64, o content.Options) (*content.Upload, error) {
	m := newStructuredReader(c.HTTP.Body, c.HTTP.ContentLength)
	u, err := content.Store(c.State.Extents(), m, n, o)
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
	c.Set("x-ms-structured-body", StructuredForm)
	return u, nil
}

// SendHashes sets the response headers with the hashes of the received content: the MD5 if the client sent one or its
// version knows no CRC64, otherwise the CRC64. From version 2026-10-06 on the CRC64 is there in either case.
func (c *Call) SendHashes(u *content.Upload) {
	if u.MD5 != nil {
		c.Set("Content-MD5", FormatMD5(u.MD5))
	}
	if u.HasCRC64 && (u.MD5 == nil || c.HasHeader("X-Ms-Content-Crc64") || c.EffectiveVersion() >= V20261006) {
		c.Set("x-ms-content-crc64", FormatCRC(u.CRC64))
	}
}

// DefaultType is the content type of a blob that was given none.
const DefaultType = "application/octet-stream"

// EarlyCheck is the size in bytes from which on a body is received only after the preconditions were found to hold.
const EarlyCheck = 1 * MiB
