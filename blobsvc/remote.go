package blobsvc

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/egress"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// Sources outside this process are fetched as Azure fetches them: with a GET, without following redirects, and only from
// hosts that the configuration allows (internal/azure/egress).

const (
	// remoteTimeout bounds the wait for a source's answer, and for each next remoteUnit of its content, unless the configuration names
	// another time.
	remoteTimeout = 30 * time.Second
	// remoteUnit is how much of a source's content must come within that time, in bytes; fewer are enough at its end. It bounds the
	// slowest source, at 2 KiB/s: a slower one would occupy a request or a copy's slot for as long as it likes.
	remoteUnit = 64 << 10
	// remoteVersion is the version that a source is asked for where a token demands that one is named.
	remoteVersion = "2021-12-02"
)

// remote is a source outside this process.
type remote struct {
	// token is the Authorization header that the source wants, intent its x-ms-file-request-intent; "" for none.
	token, intent string
}

// remoteBody is a source's answer: content as it comes.
type remoteBody struct {
	io.ReadCloser
	// n is how many bytes come.
	n int64
	// of is what the answer tells of the whole source: type, length, headers, metadata, sequence number.
	of Blob
	// etag is the source's entity tag as it was sent, "" for none.
	etag string
}

// getRemote asks for a range of a source, which must still have the entity tag unless that is "". The caller closes what it
// returns. It fails with errSource for conditions of src that do not hold, and otherwise with CannotVerifyCopySource.
func (s *Service) getRemote(ctx context.Context, src *copySource, rng Range, etag string) (*remoteBody, error) {
	header := http.Header{}
	if rng != (Range{0, OpenEnd}) {
		header.Set("Range", rng.header())
	}
	if etag != "" {
		header.Set("If-Match", etag)
	}
	if src.remote.token != "" {
		header.Set("Authorization", src.remote.token)
		header.Set("X-Ms-Version", remoteVersion)
	}
	if src.remote.intent != "" {
		header.Set("X-Ms-File-Request-Intent", src.remote.intent)
	}
	resp, err := s.askRemote(ctx, src.url, header)
	if err != nil {
		return nil, err
	}
	b := &remoteBody{ReadCloser: resp.Body, etag: resp.Header.Get("ETag")}
	if err := b.read(resp, rng); err != nil {
		_ = b.Close()
		return nil, err
	}
	if c := src.conditions.Conditions; !c.Empty() {
		modified, _ := http.ParseTime(resp.Header.Get("Last-Modified"))
		if err := c.CheckRead(strings.Trim(strings.TrimPrefix(b.etag, "W/"), `"`), modified); err != nil {
			_ = b.Close()
			return nil, errSource{err}
		}
	}
	return b, nil
}

// askRemote sends one request to a source. The caller closes the answer's body, which ends by itself when nothing comes any more.
func (s *Service) askRemote(ctx context.Context, address string, header http.Header) (*http.Response, error) {
	ctx, cancel := context.WithCancel(ctx)
	resp, err := s.egress.Fetch(ctx, s.web, address, header)
	if err != nil {
		cancel()
		if errors.Is(err, egress.ErrRefused) {
			return nil, errSourceRefused
		}
		if errors.Is(err, egress.ErrNotPublic) { // the operator may want to know; the client must not, see egress.ErrNotPublic
			s.log.Info("a copy source was refused: the name of its host leads to a private address", "service", "blob", "source", hostOf(address))
		}
		return nil, errCannotVerifyCopySource
	}
	resp.Body = newPaceReader(resp.Body, s.sourceTimeout, cancel)
	return resp, nil
}

func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Host
}

// read takes in the head of a source's answer.
func (b *remoteBody) read(resp *http.Response, rng Range) (err error) {
	switch resp.StatusCode {
	case http.StatusOK:
		b.n, b.of.Length = resp.ContentLength, resp.ContentLength
	case http.StatusPartialContent:
		_, total, _ := strings.Cut(resp.Header.Get("Content-Range"), "/")
		if b.of.Length, err = strconv.ParseInt(total, 10, 64); err != nil {
			return errSourceLength
		}
		b.n = resp.ContentLength
	default:
		return sourceStatus(resp)
	}
	if b.n < 0 || b.of.Length < 0 {
		return errSourceLength
	}
	if resp.StatusCode == http.StatusOK && rng != (Range{0, OpenEnd}) { // it knows no ranges
		off, n, err := rng.within(b.of.Length)
		if err != nil {
			return err
		}
		if _, err := io.CopyN(io.Discard, b, off); err != nil {
			return errCannotVerifyCopySource
		}
		b.n = n
	}
	h := resp.Header
	b.of.Kind, _ = ParseKind(h.Get("X-Ms-Blob-Type"))
	if b.of.Kind == 0 {
		b.of.Kind = BlockBlob
	}
	b.of.Sequence, _ = parseOffset(h.Get("X-Ms-Blob-Sequence-Number"))
	b.of.Headers = Headers{ContentType: h.Get("Content-Type"), Encoding: h.Get("Content-Encoding"),
		Language: h.Get("Content-Language"), CacheControl: h.Get("Cache-Control"), Disposition: h.Get("Content-Disposition")}
	b.of.Headers.DispositionSet = b.of.Headers.Disposition != ""
	md5 := h.Get("X-Ms-Blob-Content-Md5")
	if md5 == "" && resp.StatusCode == http.StatusOK {
		md5 = h.Get("Content-Md5")
	}
	if sum, err := parseMD5(md5); err == nil {
		b.of.Headers.MD5 = string(sum)
	}
	r := wire.Request{HTTP: &http.Request{Header: h}}
	b.of.Metadata, err = r.Metadata()
	return err
}

// header is the range as the Range header has it.
func (r Range) header() string {
	text := "bytes=" + strconv.FormatInt(r.Start, 10) + "-"
	if r.End != OpenEnd {
		text += strconv.FormatInt(r.End, 10)
	}
	return text
}

// sourceStatus is what a source's refusal is answered with: its own status, as Azure does it.
func sourceStatus(resp *http.Response) error {
	code, status := resp.Header.Get("X-Ms-Error-Code"), resp.StatusCode
	message := "The copy source answered " + resp.Status + "."
	if code != "" {
		message = "The copy source answered " + resp.Status + " (" + code + ")."
	}
	if status < 400 && status != http.StatusNotModified { // a redirect, or nothing of use
		status = http.StatusBadRequest
	}
	e := fail(status, "CannotVerifyCopySource", message).
		WithHeader("x-ms-copy-source-status-code", strconv.Itoa(resp.StatusCode))
	if code != "" {
		e = e.WithHeader("x-ms-copy-source-error-code", code)
	}
	return e
}

// paceReader reads a source's content and cancels its request if the content comes too slowly: fewer than remoteUnit bytes
// within the timeout. Time between two reads, in which content is stored, does not count.
type paceReader struct {
	io.ReadCloser
	cancel  context.CancelFunc
	timer   *time.Timer
	timeout time.Duration
	// rest and left are the time and the number of bytes until the next unit is complete.
	rest time.Duration
	left int
}

func newPaceReader(body io.ReadCloser, timeout time.Duration, cancel context.CancelFunc) *paceReader {
	r := &paceReader{ReadCloser: body, cancel: cancel, timer: time.AfterFunc(timeout, cancel), timeout: timeout, rest: timeout, left: remoteUnit}
	r.timer.Stop()
	return r
}

// Read implements io.Reader.
func (r *paceReader) Read(p []byte) (int, error) {
	start := time.Now()
	r.timer.Reset(r.rest)
	n, err := r.ReadCloser.Read(p)
	r.timer.Stop()
	r.rest -= time.Since(start)
	if r.left -= n; r.left <= 0 {
		r.rest, r.left = r.timeout, remoteUnit
	}
	return n, err
}

// Close implements io.Closer.
func (r *paceReader) Close() error {
	r.timer.Stop()
	r.cancel()
	return r.ReadCloser.Close()
}

var (
	// errSourceRefused: the configuration does not allow the source's host.
	errSourceRefused = fail(http.StatusForbidden, "CannotVerifyCopySource",
		"This server may not read copy sources at this host. Its operator can allow it with --allow-copy-source.")
	// errSourceLength: the source does not tell its length.
	errSourceLength = fail(http.StatusBadRequest, "CannotVerifyCopySource", "The copy source does not tell its length.")
)
