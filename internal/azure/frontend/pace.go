package frontend

import (
	"io"
	"time"
)

// A client that stops in the middle of a request or of an answer is cut off: it holds a connection, and perhaps an
// extent that cannot be cleaned up. What counts is progress, not the time of the whole, so that large transfers last
// as long as they need.

const (
	// DefaultProgress is how long a connection may take for the next [progressUnit] of a request's body, and for the
	// next [sendUnit] of an answer's.
	DefaultProgress = time.Minute
	// progressUnit is how much of a body must come within that time, in bytes; fewer are enough at its end.
	progressUnit = 4 << 10
	// sendUnit is how much of an answer is sent under one deadline, in bytes. It bounds the slowest reader: 17 KiB/s
	// with the default.
	sendUnit = 1 << 20
)

// deadlines is what net/http's response writers can do, for HTTP/1 and HTTP/2.
type deadlines interface {
	SetReadDeadline(time.Time) error
	SetWriteDeadline(time.Time) error
}

// pacedBody is a request's body that must make progress.
type pacedBody struct {
	io.ReadCloser
	d     deadlines
	every time.Duration
	left  int  // bytes until the deadline is moved; 0 before the first read
	ended bool // the whole body was read
}

// Read implements io.Reader.
func (b *pacedBody) Read(p []byte) (int, error) {
	if b.left <= 0 && !b.ended {
		_ = b.d.SetReadDeadline(time.Now().Add(b.every)) // the connection's clock, whatever the service's is
		b.left = progressUnit
	}
	n, err := b.ReadCloser.Read(p)
	b.left -= n
	if err == io.EOF {
		// From here on net/http watches the connection for the client's leaving: a deadline would look like that.
		_ = b.d.SetReadDeadline(time.Time{})
		b.ended = true
	}
	return n, err
}

// finish gives what is left of a body that the operation did not want, and that net/http reads to keep the
// connection, its own deadline. One that has passed stays: there is nothing more to wait for.
func (b *pacedBody) finish() {
	if !b.ended && b.left == 0 {
		_ = b.d.SetReadDeadline(time.Now().Add(b.every))
	}
}

// pace puts the next part of the answer under a deadline. The last one stays until the connection is idle, so that it
// covers what net/http has still in its buffer; [NewServer] takes it away then.
func (w *recorder) pace() {
	if w.d != nil {
		_ = w.d.SetWriteDeadline(time.Now().Add(w.every))
	}
}

// readFrom sends src in parts, each under its deadline. A file, or part of one, is still sent by the kernel.
func (w *recorder) readFrom(src io.Reader) (n int64, err error) {
	rest := &io.LimitedReader{R: src, N: 1<<63 - 1}
	if l, ok := src.(*io.LimitedReader); ok { // a reader of its own inside another would hide the file
		rest = l
	}
	for rest.N > 0 {
		w.pace()
		part := io.LimitedReader{R: rest.R, N: min(rest.N, sendUnit)}
		m, err := io.Copy(w.ResponseWriter, &part)
		n += m
		rest.N -= m
		if err != nil || part.N > 0 { // the source has ended
			return n, err
		}
	}
	return n, nil
}
