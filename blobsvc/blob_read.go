package blobsvc

import (
	"errors"
	"net/http"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/endpoint"
	"github.com/lazuli-storage/lazuli/blobsvc/internal/query"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
)

// record.GetBlob: https://learn.microsoft.com/rest/api/storageservices/get-blob
func (s *Service) getBlob(c *call) error {
	q, err := endpoint.ContentRequest(c.Headers())
	if err != nil {
		return err
	}
	structured, err := endpoint.Structured(c.Headers())
	if err != nil {
		return err
	}
	if structured && q.HashName != "" {
		return wire.InvalidHeader(q.HashName, "true") // two checksums of one answer
	}
	var b record.Blob
	body, err := c.OpenContent(&q, &b)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	sendBlob(c, &b)
	c.SendAccessTime(&b)
	if c.EffectiveVersion() >= endpoint.V20261006 {
		sendTier(c, &b)
	}
	status := c.SendRange(&q, &b, &body, "x-ms-blob-content-md5")
	if structured {
		// Damaged content is found before the head is sent, when an error can still be the answer.
		if err := body.Check(); err != nil {
			return err
		}
		c.Set("x-ms-structured-body", endpoint.StructuredForm)
		n := body.Length
		c.SetInt("x-ms-structured-content-length", n)
		c.SetInt("Content-Length", endpoint.StructuredSize(n))
		c.Out.WriteHeader(status)
		if err := endpoint.WriteStructured(c.Out, body.Reader, n); err != nil {
			return endpoint.Broken(err)
		}
		return nil
	}
	return c.SendContent(status, body.Reader)
}

// getBlobProperties: https://learn.microsoft.com/rest/api/storageservices/get-blob-properties
func (s *Service) getBlobProperties(c *call) error {
	r, err := c.NewRead()
	if err != nil {
		return err
	}
	var b record.Blob
	if err := s.state.Blobs.Get(&r, &b); err != nil {
		if errors.Is(err, record.ErrSoftDeleted) && c.EffectiveVersion() >= endpoint.V20201002 {
			c.Set("x-ms-is-soft-deleted", "true")
		}
		return err
	}
	sendBlob(c, &b)
	c.SendAccessTime(&b)
	sendTier(c, &b)
	if b.Headers.MD5 != "" {
		c.Set("Content-MD5", b.Headers.Base64MD5())
	}
	c.SetInt("Content-Length", b.Length)
	c.Out.WriteHeader(http.StatusOK)
	return nil
}

// getBlobMetadata: https://learn.microsoft.com/rest/api/storageservices/get-blob-metadata
func (s *Service) getBlobMetadata(c *call) error {
	r, err := c.NewRead()
	if err != nil {
		return err
	}
	var b record.Blob
	if err := s.state.Blobs.Get(&r, &b); err != nil {
		return err
	}
	c.SendChanged(b.Changed)
	sendBlobMetadata(c, &b)
	return c.Status(http.StatusOK)
}

// maxQueryBody is the length in bytes of the longest request of Query Blob Contents.
const maxQueryBody = 1 * endpoint.MiB

// queryBlobContents: https://learn.microsoft.com/rest/api/storageservices/query-blob-contents
func (s *Service) queryBlobContents(c *call) error {
	body, err := c.ReadBody(maxQueryBody)
	if err != nil {
		return err
	}
	request, err := query.ParseRequest(body, c.Now)
	if err != nil {
		return queryError(err)
	}
	r, err := c.NewRead()
	if err != nil {
		return err
	}
	var b record.Blob
	blob, err := s.state.Blobs.Open(&r, record.BlockBlob, nil, &b)
	if err != nil {
		return err
	}
	defer func() { _ = blob.Close() }()
	// Open fails for a query that does not fit the content, before the head is sent. Errors after that are records of
	// the answer.
	q, err := request.Open(c.Work(), query.Content{Reader: blob.Reader, ReaderAt: blob.Reader, Size: b.Length})
	if err != nil {
		return queryError(err)
	}
	b.Node = nil // recorded: a query says nothing of the owner
	sendBlob(c, &b)
	c.Set("Content-Type", "avro/binary")
	if s.storage.Hierarchical(c.Account) && c.EffectiveVersion() < endpoint.V20200612 { // as recorded
		c.Set("x-ms-server-encrypted", "false")
	}
	// The answer is not encoded as the content may be; without the header, clients take it as it is.
	c.Out.Header().Del("Content-Encoding")
	c.Out.WriteHeader(http.StatusOK)
	if err := q.Run(c.Out); err != nil {
		return endpoint.Broken(err)
	}
	return nil
}

// queryError is the answer to a query that was refused.
func queryError(err error) error {
	var e *query.Error
	if errors.As(err, &e) {
		return endpoint.Fail(http.StatusBadRequest, e.Code, e.Message)
	}
	return err
}
