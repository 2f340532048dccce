package bench

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// Limits of a server's response, except its body.
const (
	maxHead      = 64 << 10
	maxChunkLine = 256
	// maxKeep bounds a body that is kept, in bytes.
	maxKeep = 64 << 20
)

var (
	errHead    = errors.New("malformed response head")
	errChunk   = errors.New("malformed chunk")
	errTooLong = errors.New("response head or body too long")
)

// Response is one answer. Its slices stay valid until the next request on the same connection.
type Response struct {
	Status int
	Head   []byte // status line and headers
	Body   []byte // only when the request asked to keep it, or the status was not the wanted one
	Size   int64  // length of the body, kept or not
}

// Header returns the trimmed value of the named header, nil when absent. Names compare without regard to case.
func (r *Response) Header(name string) []byte { return headerValue(r.Head, name) }

func headerValue(head []byte, name string) []byte {
	_, rest, _ := bytes.Cut(head, crlf) // the status line
	for len(rest) > 0 {
		var line []byte
		line, rest, _ = bytes.Cut(rest, crlf)
		if len(line) > len(name) && line[len(name)] == ':' && foldEqual(line[:len(name)], name) {
			return bytes.TrimSpace(line[len(name)+1:])
		}
	}
	return nil
}

// foldEqual compares ASCII without regard to case; name is expected in any case.
func foldEqual(b []byte, name string) bool {
	for i := range b {
		if lower(b[i]) != lower(name[i]) {
			return false
		}
	}
	return true
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}

var (
	crlf    = []byte("\r\n")
	headEnd = []byte("\r\n\r\n")
)

// framing says how the body of a response is delimited.
type framing struct {
	status  int
	length  int64 // -1: chunked, or until the connection closes
	chunked bool
	close   bool
}

// parseHead reads a response head (without the final empty line).
func parseHead(head []byte) (framing, error) {
	f := framing{length: -1}
	// "HTTP/1.1 200 ..."
	if len(head) < 12 || !bytes.HasPrefix(head, []byte("HTTP/1.")) || head[8] != ' ' {
		return f, errHead
	}
	for _, c := range head[9:12] {
		if c < '0' || c > '9' {
			return f, errHead
		}
		f.status = f.status*10 + int(c-'0')
	}
	if f.status < 100 || len(head) > 12 && head[12] != ' ' && head[12] != '\r' {
		return f, errHead
	}
	f.close = head[7] == '0'
	if v := headerValue(head, "Connection"); v != nil {
		f.close = len(v) == 5 && foldEqual(v, "close")
	}
	if v := headerValue(head, "Transfer-Encoding"); v != nil {
		if len(v) != 7 || !foldEqual(v, "chunked") {
			return f, errHead
		}
		f.chunked = true
		return f, nil
	}
	if v := headerValue(head, "Content-Length"); v != nil {
		n, ok := parseDecimal(v)
		if !ok {
			return f, errHead
		}
		f.length = n
	}
	return f, nil
}

func parseDecimal(b []byte) (int64, bool) {
	if len(b) == 0 || len(b) > 18 {
		return 0, false
	}
	var n int64
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, true
}

// reader reads responses from a connection through one buffer.
type reader struct {
	src  io.Reader
	buf  []byte
	r, w int // unread bytes are buf[r:w]
	head []byte
	body []byte
}

func newReader(src io.Reader) *reader { return &reader{src: src, buf: make([]byte, 128<<10)} }

// fill reads more bytes after the unread ones, moving those to the front first when the buffer's end is reached.
func (d *reader) fill() error {
	if d.r == d.w {
		d.r, d.w = 0, 0
	}
	if d.w == len(d.buf) {
		if d.r == 0 {
			return errTooLong
		}
		d.w = copy(d.buf, d.buf[d.r:d.w])
		d.r = 0
	}
	n, err := d.src.Read(d.buf[d.w:])
	d.w += n
	if n > 0 {
		return nil
	}
	if err == nil {
		return io.ErrNoProgress
	}
	return err
}

// until returns the bytes before sep and consumes both; the result is valid until the next call.
func (d *reader) until(sep []byte, limit int) ([]byte, error) {
	scanned := 0
	for {
		pending := d.buf[d.r:d.w]
		if i := bytes.Index(pending[scanned:], sep); i >= 0 {
			line := pending[:scanned+i]
			d.r += scanned + i + len(sep)
			if len(line) > limit {
				return nil, errTooLong
			}
			return line, nil
		}
		if len(pending) > limit+len(sep) {
			return nil, errTooLong
		}
		scanned = max(0, len(pending)-len(sep)+1)
		if err := d.fill(); err != nil {
			if err == io.EOF && d.w > d.r {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
}

// read reads the answer to req into res. reusable says whether the connection may carry another request.
func (d *reader) read(req *Request, res *Response) (reusable bool, err error) {
	var f framing
	for {
		head, err := d.until(headEnd, maxHead)
		if err != nil {
			return false, err
		}
		if f, err = parseHead(head); err != nil {
			return false, err
		}
		if f.status >= 200 { // 1xx answers are only announcements
			d.head = append(d.head[:0], head...)
			break
		}
	}
	keep := req.Keep || f.status != req.Want
	d.body = d.body[:0]
	*res = Response{Status: f.status, Head: d.head}
	switch {
	case req.Method == "HEAD", f.status == 204, f.status == 304:
	case f.chunked:
		res.Size, err = d.chunks(keep)
	case f.length >= 0:
		res.Size, err = f.length, d.take(f.length, keep)
	default:
		f.close = true
		res.Size, err = d.rest(keep)
	}
	res.Body = d.body
	return !f.close, err
}

// take consumes n bytes of body.
func (d *reader) take(n int64, keep bool) error {
	if keep && int64(len(d.body))+n > maxKeep {
		return errTooLong
	}
	for n > 0 {
		if d.r == d.w {
			if err := d.fill(); err != nil {
				return unexpected(err)
			}
		}
		part := int(min(n, int64(d.w-d.r)))
		if keep {
			d.body = append(d.body, d.buf[d.r:d.r+part]...)
		}
		d.r += part
		n -= int64(part)
	}
	return nil
}

// chunks consumes a chunked body with its trailer and returns its length.
func (d *reader) chunks(keep bool) (int64, error) {
	var total int64
	for {
		line, err := d.until(crlf, maxChunkLine)
		if err != nil {
			return total, unexpected(err)
		}
		size, _, _ := bytes.Cut(line, []byte{';'})
		n, err := strconv.ParseUint(string(bytes.TrimSpace(size)), 16, 62)
		if err != nil {
			return total, fmt.Errorf("%w: size %q", errChunk, size)
		}
		if n == 0 {
			break
		}
		if err := d.take(int64(n), keep); err != nil {
			return total, err
		}
		total += int64(n)
		if end, err := d.until(crlf, 0); err != nil || len(end) != 0 {
			return total, errChunk
		}
	}
	for { // trailer
		line, err := d.until(crlf, maxHead)
		if err != nil {
			return total, unexpected(err)
		}
		if len(line) == 0 {
			return total, nil
		}
	}
}

// rest consumes everything until the server closes the connection.
func (d *reader) rest(keep bool) (int64, error) {
	var total int64
	for {
		n := d.w - d.r
		if err := d.take(int64(n), keep); err != nil {
			return total, err
		}
		total += int64(n)
		switch err := d.fill(); err {
		case nil:
		case io.EOF:
			return total, nil
		default:
			return total, err
		}
	}
}

func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
