package blobsvc

import (
	"encoding/base64"
	"errors"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/copysource"
	"github.com/lazuli-storage/lazuli/blobsvc/internal/endpoint"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	state "github.com/lazuli-storage/lazuli/internal/state/blob"
	"github.com/lazuli-storage/lazuli/internal/state/blob/content"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
)

// sourceMD5 reads x-ms-source-content-md5; nil if absent.
func sourceMD5(h wire.Headers) ([]byte, error) {
	if s := h.Get("X-Ms-Source-Content-Md5"); s != "" {
		return endpoint.ParseMD5(s)
	}
	return nil, nil
}

// sourceHashes are the hashes that a client expects of the copied content; nil if it sent none.
type sourceHashes struct{ md5, crc []byte }

func readSourceHashes(sent wire.Headers) (h sourceHashes, err error) {
	if h.md5, err = sourceMD5(sent); err != nil {
		return h, err
	}
	if text := sent.Get("X-Ms-Source-Content-Crc64"); text != "" {
		if h.crc, err = base64.StdEncoding.DecodeString(text); err != nil || len(h.crc) != 8 {
			return h, wire.InvalidHeader("x-ms-source-content-crc64", text)
		}
	}
	return h, nil
}

// check compares the content of a source with the hashes. named adds the two values to the error for the MD5.
func (h sourceHashes) check(up *content.Upload, named bool) error {
	switch {
	case h.md5 == nil || string(h.md5) == string(up.MD5):
	case named:
		return endpoint.TransportHashes{MD5: h.md5}.Check(up)
	default:
		return wire.ErrMD5Mismatch
	}
	if h.crc != nil && base64.StdEncoding.EncodeToString(h.crc) != endpoint.FormatCRC(up.CRC64) {
		return wire.ErrCRC64Mismatch
	}
	return nil
}

// fetched is content that was read from a copy source.
type fetched struct {
	up *content.Upload
	// from has the properties of the source.
	from record.Blob
}

// How fetched content is used: as a whole blob or block, added to a blob that exists, or as a copy.
type fetchMode byte

const (
	fetchWhole fetchMode = iota
	fetchExisting
	fetchCopy
)

// fetch makes the source's range durable as new content, of at most limit bytes, and checks x-ms-source-content-md5 and
// -crc64. It serves the operations that read a source before they answer. The caller closes the upload, and maps errors
// of the source.
func (s *Service) fetch(c *call, src *copySource, w *state.Write, limit int64, mode fetchMode) (f fetched, err error) {
	want, err := readSourceHashes(c.Headers())
	if err != nil {
		return f, err
	}
	rng := state.WholeBlob
	if text := c.Headers().Get("X-Ms-Source-Range"); text != "" {
		var ok bool
		if rng, ok = endpoint.ParseRange(text); !ok {
			return f, wire.InvalidHeader("x-ms-source-range", text)
		}
	}
	body, err := s.openSource(c.HTTP.Context(), c.Now, src, rng)
	if err != nil {
		return f, err
	}
	defer func() { _ = body.Close() }()
	f.from = body.Blob
	if body.Length > limit {
		return f, wire.ErrRequestBodyTooLarge
	}
	// The content is encrypted while it is stored. What is added to a blob has the encryption of the blob, which is
	// therefore looked up before.
	sealer, err := s.state.Blobs.Sealer(w, mode == fetchExisting)
	if err != nil {
		return f, err
	}
	withCRC := c.EffectiveVersion() >= endpoint.V20190202 || want.crc != nil
	f.up, err = content.Store(s.state.Extents(), body, body.Length,
		content.Options{MD5: true, CRC64: withCRC, Sealer: sealer})
	if err != nil {
		if src.remote != nil {
			err = copysource.Broken(err)
		}
		return f, err
	}
	// Append Block and Put Page do not name the values (recorded)
	// A caller closes the upload only if there was no error.
	if err := want.check(f.up, mode != fetchExisting); err != nil {
		f.up.Close()
		return f, err
	}
	return f, nil
}

// syncCopyError returns the error of operations that read their source before they respond: a failing source has one
// code, with the status of its own error.
func syncCopyError(err error) error {
	var src *state.SourceError
	var e *wire.Error
	if errors.As(err, &src) && errors.As(endpoint.AzureError(src.Err), &e) {
		return sourceRefusal(e)
	}
	return err
}
