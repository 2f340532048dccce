package blobsvc

import (
	"errors"
	"net/http"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/query"
	"github.com/lazuli-storage/lazuli/blobsvc/internal/state"
)

// maxQueryBody is the length in bytes of the longest request of Query Blob Contents.
const maxQueryBody = 1 * mib

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
	r, err := s.read(c)
	if err != nil {
		return err
	}
	var b state.Blob
	blob, err := s.state.OpenBlob(&r, state.BlockBlob, nil, &b)
	if err != nil {
		return err
	}
	defer func() { _ = blob.Close() }()
	q, err := request.Open(c.Work(), query.Content{Reader: blob.Reader, ReaderAt: blob.Reader, Size: b.Length})
	if err != nil {
		return queryError(err)
	}
	c.sendBlob(&b)
	c.Set("Content-Type", "avro/binary")
	if s.hierarchical(c.Account) { // as recorded
		c.Set("x-ms-server-encrypted", "false")
	}
	// The answer is not encoded as the content may be; without the header, clients take it as it is.
	c.Out.Header().Del("Content-Encoding")
	c.Out.WriteHeader(http.StatusOK)
	if err := q.Run(c.Out); err != nil {
		return broken(err)
	}
	return nil
}

// queryError is the answer to a query that was refused.
func queryError(err error) error {
	var e *query.Error
	if errors.As(err, &e) {
		return fail(http.StatusBadRequest, e.Code, e.Message)
	}
	return err
}
