package copysource

import (
	"context"
	"io"
	"time"
)

// stallTimeoutReader reads a source's content and cancels its request if the content comes too slowly: fewer than
// remoteUnit bytes within the timeout. Time between two reads, in which content is stored, does not count.
type stallTimeoutReader struct {
	io.ReadCloser
	cancel  context.CancelFunc
	timer   *time.Timer
	timeout time.Duration
	// rest and left are the time and the number of bytes until the next unit is complete.
	rest time.Duration
	left int
}

func newStallTimeoutReader(body io.ReadCloser, timeout time.Duration, cancel context.CancelFunc) *stallTimeoutReader {
	r := &stallTimeoutReader{ReadCloser: body, cancel: cancel, timer: time.AfterFunc(timeout, cancel), timeout: timeout,
		rest: timeout, left: remoteUnit}
	r.timer.Stop()
	return r
}

// Read implements io.Reader.
func (r *stallTimeoutReader) Read(p []byte) (int, error) {
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
func (r *stallTimeoutReader) Close() error {
	r.timer.Stop()
	r.cancel()
	return r.ReadCloser.Close()
}
