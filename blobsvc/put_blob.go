package blobsvc

import (
	"net/http"
	"strconv"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/endpoint"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	state "github.com/lazuli-storage/lazuli/internal/state/blob"
	"github.com/lazuli-storage/lazuli/internal/state/blob/content"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
)

// putBlob: https://learn.microsoft.com/rest/api/storageservices/put-blob
func (s *Service) putBlob(c *call) error {
	word, err := c.Headers().NeedWord(blobTypeHeader, "BlockBlob", "PageBlob", "AppendBlob")
	if err != nil {
		return err
	}
	return putKinds[word](s, c)
}

// putKinds are the operations that Put Blob is, by x-ms-blob-type.
var putKinds = map[string]func(*Service, *call) error{
	"BlockBlob":  (*Service).putBlockBlob,
	"PageBlob":   (*Service).createPageBlob,
	"AppendBlob": (*Service).createAppendBlob,
}

// putBlockBlob is Put Blob for a block blob.
func (s *Service) putBlockBlob(c *call) error {
	limit := endpoint.ByVersion(c.EffectiveVersion(), 5000*endpoint.MiB, 256*endpoint.MiB, 64*endpoint.MiB)
	n, err := c.ContentLength(limit)
	if err != nil {
		return err
	}
	b, w, err := s.newBlob(c, record.BlockBlob, true)
	if err != nil {
		return err
	}
	// Put makes the same checks in its transaction. This one spares the client a long upload that would be refused.
	if n >= endpoint.EarlyCheck {
		if err := s.state.Blobs.CheckPut(&w); err != nil {
			return err
		}
	}
	up, err := c.Receive(&w, n, endpoint.Reception{MD5: true})
	if err != nil {
		return err
	}
	defer up.Close()
	// The MD5 of the blob is that of the body here, so that it is verified. Put Block List only keeps what it is given.
	if err := (endpoint.TransportHashes{MD5: []byte(b.Headers.MD5)}).Check(up); b.Headers.MD5 != "" && err != nil {
		return err
	}
	if err := s.putContent(c, &w, &b, up); err != nil {
		return err
	}
	c.Set("Content-MD5", endpoint.FormatMD5(up.MD5))
	if up.HasCRC64 {
		c.Set("x-ms-content-crc64", endpoint.FormatCRC(up.CRC64))
	}
	return c.Status(http.StatusCreated)
}

// putContent writes b with all that was received as its content, and sets the headers of the response but those with
// hashes.
func (s *Service) putContent(c *call, w *state.Write, b *record.Blob, up *content.Upload) error {
	if b.Headers.MD5 == "" {
		b.Headers.MD5 = string(up.MD5)
	}
	result, err := s.state.Blobs.Put(w, b, up)
	if err != nil {
		return err
	}
	sendWritten(c, &result)
	return nil
}

// createPageBlob is Put Blob for a page blob: all zeros, sparse.
func (s *Service) createPageBlob(c *call) error {
	n, err := c.ContentLength(maxPageBlob)
	if err != nil {
		return err
	}
	if n != 0 {
		return wire.InvalidHeader("Content-Length", strconv.FormatInt(n, 10))
	}
	if !c.HasHeader("X-Ms-Blob-Content-Length") {
		return wire.MissingHeader("x-ms-blob-content-length")
	}
	size, err := parsePageBlobSize(c.Header("X-Ms-Blob-Content-Length"))
	if err != nil {
		return err
	}
	b, w, err := s.newBlob(c, record.PageBlob, true)
	if err != nil {
		return err
	}
	b.Length = size
	if text := c.Header("X-Ms-Blob-Sequence-Number"); text != "" {
		var ok bool
		if b.Sequence, ok = endpoint.ParseOffset(text); !ok {
			return wire.InvalidHeader("x-ms-blob-sequence-number", text)
		}
	}
	return s.createEmpty(c, &w, &b)
}

// createAppendBlob is Put Blob for an append blob.
func (s *Service) createAppendBlob(c *call) error {
	n, err := c.ContentLength(0)
	if err != nil {
		if n == 0 && c.HTTP.ContentLength > 0 {
			return wire.InvalidHeader("Content-Length", strconv.FormatInt(c.HTTP.ContentLength, 10))
		}
		return err
	}
	b, w, err := s.newBlob(c, record.AppendBlob, true)
	if err != nil {
		return err
	}
	return s.createEmpty(c, &w, &b)
}

// createEmpty creates a blob without content and answers.
func (s *Service) createEmpty(c *call, w *state.Write, b *record.Blob) error {
	result, err := s.state.Blobs.Put(w, b, nil)
	if err != nil {
		return err
	}
	sendWritten(c, &result)
	return c.Status(http.StatusCreated)
}
