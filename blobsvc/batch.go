package blobsvc

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"mime/multipart"
	"net/http"
	"sort"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/endpoint"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// Limits of a batch.
const (
	maxBatchBody = 4 * endpoint.MiB
	maxBatchSize = 256
)

// errInvalidBatch: the batch's parts are malformed, or not allowed in a batch.
var errInvalidBatch = wire.ErrInvalidInput.WithMessage("The batch request body is not valid.")

// subRequest is one request of a batch.
type subRequest struct {
	id string // Content-ID, "" if absent
	hr *http.Request
}

// blobBatch: https://learn.microsoft.com/rest/api/storageservices/blob-batch
// Each request in it is authorised and served separately, in order; the batch as a whole succeeds regardless of their
// answers.
func (s *Service) blobBatch(c *call) error {
	parts, ok := wire.Boundary(c.Header("Content-Type"))
	if !ok { // the reference requires the header with a boundary; the code is the one for a header whose form is wrong
		return wire.InvalidHeader("Content-Type", c.Header("Content-Type"))
	}
	body, err := c.ReadBody(maxBatchBody)
	if err != nil {
		return err
	}
	list, err := parseBatch(body, parts)
	if err != nil {
		return err
	}
	if len(list) > maxBatchSize {
		return refuseBatch(c, errBatchSize)
	}
	// All requests are checked before the first is served: a batch that is refused has changed nothing.
	for _, sub := range list {
		if err := s.mayBatch(c, sub.hr); err != nil {
			return err
		}
		if sub.hr.Method != list[0].hr.Method { // mayBatch lets one operation of each method through
			return refuseBatch(c, errMixedBatch)
		}
	}
	out := newBatchAnswer()
	for _, sub := range list {
		out.begin(sub.id)
		s.serveSub(c, sub.hr, &out.Buffer)
	}
	return out.send(c)
}

// errBatchSize: the batch has more requests than a batch may have.
var errBatchSize = endpoint.Fail(http.StatusBadRequest, "ExceedsMaxBatchRequestCount",
	"The batch operation exceeds maximum number of allowed subrequests.")

// errMixedBatch: the batch has requests of both operations.
// https://github.com/Azure/azure-sdk-for-cpp/blob/main/sdk/storage/azure-storage-blobs/test/ut/blob_batch_client_test.cpp
// has the code; the message is Azurite's.
var errMixedBatch = endpoint.Fail(http.StatusBadRequest, "AllBatchSubRequestsShouldBeSameApi",
	"All batch subrequests should be the same api.")

// refuseBatch answers a batch that is refused as a whole with one part, which is of no request (recorded: Batch_Limit
// of the SDK for .NET).
func refuseBatch(c *call, e *wire.Error) error {
	out := newBatchAnswer()
	out.begin("")
	w := subAnswer{header: http.Header{"x-ms-version": {c.VersionHeader}}}
	r := *c.Request
	r.Out = &w
	r.SetReason(e)
	wire.RenderXML(&r, e)
	w.writeTo(&out.Buffer)
	return out.send(c)
}

// batchAnswer is the body of the answer to a batch.
type batchAnswer struct {
	bytes.Buffer
	boundary string
}

func newBatchAnswer() *batchAnswer {
	return &batchAnswer{boundary: "batchresponse_" + uuid.NewString()}
}

// begin begins the part of the request with a Content-ID, "" for none.
func (a *batchAnswer) begin(id string) {
	a.WriteString("--" + a.boundary + "\r\nContent-Type: application/http\r\n")
	if id != "" {
		a.WriteString("Content-ID: " + id + "\r\n")
	}
	a.WriteString("\r\n")
}

// send ends the body and answers with it.
func (a *batchAnswer) send(c *call) error {
	a.WriteString("--" + a.boundary + "--\r\n")
	return c.Body(http.StatusAccepted, "multipart/mixed; boundary="+a.boundary, a.Bytes())
}

// parseBatch reads the requests of a batch. It fails with errInvalidBatch.
func parseBatch(body []byte, boundary string) ([]subRequest, error) {
	var list []subRequest
	parts := multipart.NewReader(bytes.NewReader(body), boundary)
	for {
		part, err := parts.NextRawPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, errInvalidBatch
		}
		if len(list) > maxBatchSize { // the count suffices
			break
		}
		if media, _ := wire.MediaType(part.Header.Get("Content-Type")); media != "application/http" {
			return nil, errInvalidBatch
		}
		content, err := io.ReadAll(part)
		if err != nil {
			return nil, errInvalidBatch
		}
		// Some clients end the head with the part instead of an empty line.
		content = append(bytes.TrimRight(content, "\r\n"), "\r\n\r\n"...)
		hr, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(content)))
		if err != nil || hr.ContentLength > 0 || len(hr.TransferEncoding) > 0 {
			return nil, errInvalidBatch
		}
		id := part.Header.Get("Content-Id")
		if strings.ContainsAny(id, "\r\n") || len(id) > 128 {
			return nil, errInvalidBatch
		}
		list = append(list, subRequest{id, hr})
	}
	if len(list) == 0 {
		return nil, errInvalidBatch
	}
	return list, nil
}

// mayBatch makes sure that a request is one that a batch may have: Delete Blob or Set Blob Tier, of the container that
// the batch was sent to, if it was sent to one.
//
// A batch that names another container, or has another operation, is refused as a whole, like any other that is
// malformed: the reference says that every request must be of the container and does not say how another is answered.
func (s *Service) mayBatch(c *call, hr *http.Request) error {
	// A request in a batch counts as sent over the connection of the batch, whatever host it names.
	hr.Host = c.HTTP.Host
	hr.RemoteAddr, hr.TLS = c.HTTP.RemoteAddr, c.HTTP.TLS
	r, err := c.Inner(hr, nil)
	if err != nil {
		return errInvalidBatch
	}
	at, level, err := s.resolve(r)
	if err != nil || level != endpoint.OnBlob || r.Account != c.Account || c.Container != "" &&
		at.Container != c.Container {
		return errInvalidBatch
	}
	if hr.Method == http.MethodDelete && r.Comp == "" || hr.Method == http.MethodPut && r.Comp == "tier" {
		return nil
	}
	return errInvalidBatch
}

// serveSub serves one request and writes its answer to out.
func (s *Service) serveSub(c *call, hr *http.Request, out *bytes.Buffer) {
	w := subAnswer{header: http.Header{}}
	hr.Header["Content-Length"] = []string{"0"} // which parts may leave out: they have no content
	ctx := context.WithValue(wire.WithHere(c.HTTP.Context()), endpoint.BatchVersion{}, c.Request)
	s.front.ServeHTTP(&w, hr.WithContext(ctx))
	w.writeTo(out)
}

// writeTo writes the answer as it is in a part.
func (w *subAnswer) writeTo(out *bytes.Buffer) {
	reason := http.StatusText(w.status)
	if w.phrase != "" && w.status >= 300 {
		reason = w.phrase
	}
	out.WriteString("HTTP/1.1 " + strconv.Itoa(w.status) + " " + reason + "\r\n")
	var names []string
	for name := range w.header {
		if name != "Date" && (w.status >= 400 || name != "Content-Length") {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	for _, name := range names {
		for _, value := range w.header[name] {
			out.WriteString(name + ": " + value + "\r\n")
		}
	}
	out.WriteString("\r\n")
	out.Write(w.body.Bytes())
	if w.body.Len() > 0 {
		out.WriteString("\r\n")
	}
}

// subAnswer keeps an answer.
type subAnswer struct {
	header http.Header
	status int
	phrase string
	body   bytes.Buffer
}

// SetReason implements statusline.Reasoner.
func (w *subAnswer) SetReason(_ int, phrase string) { w.phrase = phrase }

func (w *subAnswer) Header() http.Header { return w.header }

func (w *subAnswer) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
}

func (w *subAnswer) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(p)
}
