// Package pacing cuts off a client that stops in the middle of a request or of an answer: it holds a connection, and
// perhaps an extent that cannot be compacted. What counts is progress, not the time of the whole transfer, so that a
// large one may last as long as it needs.
package pacing

import (
	"io"
	"net/http"
	"time"
)

const (
	// DefaultTimeout is the time that a connection may take for the next receiveUnit of a request's body, and for the next
	// sendUnit of an answer's.
	DefaultTimeout = time.Minute
	// receiveUnit is the part of a body that must arrive within the timeout, in bytes; less is enough at its end.
	receiveUnit = 4 << 10
	// sendUnit is the number of bytes of a response that are sent under one deadline. It sets the minimum rate of a
	// reader: 17 KiB/s with the default timeout.
	sendUnit = 1 << 20
)

// Deadlines is implemented by the response writers of package httpserver and of net/http.
type Deadlines interface {
	SetReadDeadline(time.Time) error
	SetWriteDeadline(time.Time) error
}

// Body is the body of a request whose reads fail if it makes no progress within the timeout.
type Body struct {
	io.ReadCloser
	conn    Deadlines
	timeout time.Duration
	left    int  // bytes until the deadline is moved; 0 before the first read
	ended   bool // the whole body was read
}

// NewBody wraps the body of a request on a connection.
func NewBody(body io.ReadCloser, conn Deadlines, timeout time.Duration) *Body {
	return &Body{ReadCloser: body, conn: conn, timeout: timeout}
}

// Read implements io.Reader.
func (b *Body) Read(p []byte) (int, error) {
	if b.left <= 0 && !b.ended {
		_ = b.conn.SetReadDeadline(time.Now().Add(b.timeout)) // the clock of the connection, whatever that of the service is
		b.left = receiveUnit
	}
	n, err := b.ReadCloser.Read(p)
	b.left -= n
	if err == io.EOF {
		// From here on net/http reads from the connection to notice that the client has closed it: a deadline would look
		// like that.
		_ = b.conn.SetReadDeadline(time.Time{})
		b.ended = true
	}
	return n, err
}

// Finish gives the rest of a body that the handler did not read, and that net/http reads to keep the connection, a
// deadline of its own. A deadline that has passed stays.
func (b *Body) Finish() {
	if !b.ended && b.left == 0 {
		_ = b.conn.SetReadDeadline(time.Now().Add(b.timeout))
	}
}

// Writer moves the write deadline of a connection while an answer makes progress. The zero value sets no deadlines.
type Writer struct {
	conn    Deadlines
	timeout time.Duration
	sent    int64 // bytes since the deadline was moved
}

// NewWriter returns a Writer for the answer on a connection.
func NewWriter(conn Deadlines, timeout time.Duration) Writer {
	return Writer{conn: conn, timeout: timeout}
}

// Next puts the next part of the answer under a deadline. The last deadline stays until the connection is idle, so that
// it covers what net/http still has in its buffer; net/http removes it then.
func (w *Writer) Next() {
	if w.conn != nil {
		_ = w.conn.SetWriteDeadline(time.Now().Add(w.timeout))
	}
}

// Sending is called before n bytes are written. It moves the deadline now and then.
func (w *Writer) Sending(n int) {
	if w.sent += int64(n); w.sent > sendUnit/4 {
		w.sent = 0
		w.Next()
	}
}

// Copy sends src to out in parts, each under a deadline. The kernel still sends a file, or part of one.
func (w *Writer) Copy(out http.ResponseWriter, src io.Reader) (n int64, err error) {
	rest := &io.LimitedReader{R: src, N: 1<<63 - 1}
	if l, ok := src.(*io.LimitedReader); ok { // one limited reader inside another would hide the file
		rest = l
	}
	for rest.N > 0 {
		w.Next()
		part := io.LimitedReader{R: rest.R, N: min(rest.N, sendUnit)}
		m, err := io.Copy(out, &part)
		n += m
		rest.N -= m
		if err != nil || part.N > 0 { // the source has ended
			return n, err
		}
	}
	return n, nil
}
