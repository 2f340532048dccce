package endpoint

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

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	state "github.com/lazuli-storage/lazuli/internal/state/blob"
	"github.com/lazuli-storage/lazuli/internal/state/blob/content"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
)

// rangeHashLimit is the size in bytes of the largest range of which a hash is computed.
const rangeHashLimit = 4 * MiB

// contentRequest is what a read asks for: the whole content or a range of it, and the header by which it asked for a
// hash of the range, "" for none.
type contentRequest struct {
	rng      state.Range
	partial  bool
	HashName string
}

// ContentRequest reads the range, and x-ms-range-get-content-md5 and -crc64.
func ContentRequest(sent wire.Headers) (q contentRequest, err error) {
	q.rng, q.partial = RequestRange(sent)
	for _, h := range [...][2]string{
		{"X-Ms-Range-Get-Content-Md5", "x-ms-range-get-content-md5"},
		{"X-Ms-Range-Get-Content-Crc64", "x-ms-range-get-content-crc64"},
	} {
		wanted, _, err := sent.Flag(h[0])
		switch {
		case err != nil:
			return q, err
		case wanted && q.HashName != "":
			return q, errBothRangeHashes
		case wanted:
			q.HashName = h[1]
		}
	}
	// The length that is asked for counts, not that of the blob: https://github.com/Azure/azure-sdk-for-net/issues/31561
	if q.HashName != "" && (!q.partial || q.rng.End != state.OpenEnd && q.rng.End-q.rng.Start >= rangeHashLimit) {
		return q, q.refuseHash()
	}
	return q, nil
}

// refuseHash returns the error for the hash of content that is not a range, or of a range that is too long.
// https://github.com/Azure/azure-sdk-for-net/issues/37150, https://github.com/Azure/azure-sdk-for-rust/issues/930
func (q *contentRequest) refuseHash() error { return wire.InvalidHeader(q.HashName, "true") }

// OpenContent opens the content that a read asks for, sets b to its blob, and sends the hash of the range. Close the
// content.
func (c *Call) OpenContent(q *contentRequest, b *record.Blob) (body state.Content, err error) {
	r, err := c.NewRead()
	if err != nil {
		return body, err
	}
	r.TrackAccess = c.Accounts.Blob(c.Account).AccessTimes
	var within *state.Range
	if q.partial {
		within = &q.rng
	}
	if body, err = c.State.Blobs.Open(&r, 0, within, b); err != nil || q.HashName == "" {
		return body, err
	}
	var value string
	// The hash is sent before the content, so the range is read twice; Azure has the limit for the same reason, 4 MiB.
	if body.Length > rangeHashLimit {
		err = q.refuseHash()
	} else {
		value, err = hashRange(body.Reader, q.HashName)
	}
	// The caller gets an open content only without an error.
	if err != nil {
		return body, errors.Join(err, body.Close())
	}
	if q.HashName == "x-ms-range-get-content-md5" {
		c.Set("Content-MD5", value)
	} else {
		c.Set("x-ms-content-crc64", value)
	}
	return body, nil
}

// SendRange sets the headers with the length of the content, its place in the blob, and the MD5 of the whole, which an
// answer with a part of it has in the header whole. It returns the status.
func (c *Call) SendRange(q *contentRequest, b *record.Blob, body *state.Content, whole string) int {
	c.SetInt("Content-Length", body.Length)
	status := http.StatusOK
	if q.partial {
		status = http.StatusPartialContent
		c.Set("Content-Range", "bytes "+strconv.FormatInt(body.Offset, 10)+"-"+
			strconv.FormatInt(body.Offset+body.Length-1, 10)+"/"+strconv.FormatInt(b.Length, 10))
	} else {
		whole = "Content-MD5"
	}
	if b.Headers.MD5 != "" && (!q.partial || c.EffectiveVersion() >= V20160531) {
		c.Set(whole, b.Headers.Base64MD5())
	}
	return status
}

// smallBody is the size in bytes up to which a body is read into memory and sent in one write with its head, which
// is quicker than handing the file to the kernel.
const smallBody = 64 << 10

// SendContent answers with the content that r reads.
func (c *Call) SendContent(status int, r *content.Reader) error {
	// Content without a type is sent without one (recorded: test_storage_blob_upload_midsize_file of azure-cli); net/http
	// would guess.
	if len(c.Out.Header()["Content-Type"]) == 0 {
		c.SetShared("Content-Type", nil)
	}
	if r.Size() > smallBody || !r.Contiguous() {
		if err := r.Check(); err != nil {
			return err
		}
		c.Out.WriteHeader(status)
		if err := r.CopyTo(c.Out); err != nil {
			return Broken(err)
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

// Broken maps the error of a response that could not be sent as a whole. If the client closed the connection it aborts
// the handler, which logs nothing. Any other error, such as a damaged extent, it returns.
func Broken(err error) error {
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
