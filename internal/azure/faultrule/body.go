package faultrule

import (
	"context"
	"io"
	"net"
	"net/http"
	"time"
)

// cut breaks the connection so that the client sees a reset where the protocol allows it, and ends the request.
func cut(w http.ResponseWriter) {
	if conn, _, err := http.NewResponseController(w).Hijack(); err == nil { // HTTP/1
		inner := conn
		if t, ok := conn.(interface{ NetConn() net.Conn }); ok {
			inner = t.NetConn()
		}
		if l, ok := inner.(interface{ SetLinger(seconds int) error }); ok {
			_ = l.SetLinger(0)
		}
		_ = conn.Close()
	}
	panic(http.ErrAbortHandler)
}

// finish sends what was written so far and ends the connection without a reset.
func finish(w http.ResponseWriter) {
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

// discard is a ResponseWriter that discards the response.
type discard struct{ header http.Header }

// Header implements http.ResponseWriter.
func (d *discard) Header() http.Header { return d.header }

// WriteHeader implements http.ResponseWriter.
func (d *discard) WriteHeader(int) {}

// Write implements http.ResponseWriter.
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }

// truncated passes on the head and left bytes of the body, and calls end for the next byte.
type truncated struct {
	http.ResponseWriter
	left int64
	end  func(http.ResponseWriter)
}

// WriteHeader implements http.ResponseWriter.
func (w *truncated) WriteHeader(status int) {
	w.ResponseWriter.WriteHeader(status)
	if h := w.Header(); w.left == 0 || h.Get("Content-Length") == "0" || status == http.StatusNoContent {
		w.end(w.ResponseWriter)
	}
}

// Write implements http.ResponseWriter.
func (w *truncated) Write(p []byte) (int, error) {
	n := min(int64(len(p)), w.left)
	if _, err := w.ResponseWriter.Write(p[:n]); err != nil {
		return 0, err
	}
	if w.left -= n; n < int64(len(p)) || w.left == 0 {
		_ = http.NewResponseController(w.ResponseWriter).Flush()
		w.end(w.ResponseWriter)
	}
	return len(p), nil
}

// Unwrap lets the reason phrase reach the connection.
func (w *truncated) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// corruptWriter changes a bit of the byte at an offset of the response's body.
type corruptWriter struct {
	http.ResponseWriter
	at int64
}

// Write implements http.ResponseWriter.
func (w *corruptWriter) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(corrupt(p, w.at))
	w.at -= int64(n)
	return n, err
}

// Unwrap lets the reason phrase reach the connection.
func (w *corruptWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// corruptBody changes a bit of the byte at an offset of the request's body.
type corruptBody struct {
	io.ReadCloser
	at int64
}

// Read implements io.Reader.
func (b *corruptBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.at >= 0 && b.at < int64(n) {
		p[b.at] ^= 1
	}
	b.at -= int64(n)
	return n, err
}

// corrupt returns p with the lowest bit of the byte at offset at changed, where p has one.
func corrupt(p []byte, at int64) []byte {
	if at < 0 || at >= int64(len(p)) {
		return p
	}
	p = append([]byte(nil), p...)
	p[at] ^= 1
	return p
}

// slowPart is the part of a second's bytes that are sent at once.
const slowPart = 10

// slowWriter writes the response's body at rate bytes per second.
type slowWriter struct {
	http.ResponseWriter
	ctx  context.Context
	rate int
}

// Write implements http.ResponseWriter.
func (w *slowWriter) Write(p []byte) (n int, err error) {
	for len(p) > 0 {
		part := p[:min(len(p), max(1, w.rate/slowPart))]
		if err := sleep(w.ctx, duration(len(part), w.rate)); err != nil {
			return n, err
		}
		m, err := w.ResponseWriter.Write(part)
		n += m
		if err == nil {
			err = http.NewResponseController(w.ResponseWriter).Flush()
		}
		if err != nil {
			return n, err
		}
		p = p[m:]
	}
	return n, nil
}

// Unwrap lets the reason phrase reach the connection.
func (w *slowWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// slowBody reads the request's body at rate bytes per second.
type slowBody struct {
	io.ReadCloser
	ctx  context.Context
	rate int
}

// Read implements io.Reader.
func (b *slowBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p[:min(len(p), max(1, b.rate/slowPart))])
	if wait := sleep(b.ctx, duration(n, b.rate)); wait != nil {
		return n, wait
	}
	return n, err
}

// duration is the time that n bytes take at rate bytes per second.
func duration(n, rate int) time.Duration {
	return time.Duration(float64(n) / float64(rate) * float64(time.Second))
}
