package httpserver

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lazuli-storage/lazuli/internal/httpserver/headercase"
)

// conn is a connection as net/http gets it: the bytes of HTTP/1, decrypted if they came over TLS. What net/http loses
// of a request or cannot say in an answer is done here, once for http and https: the case of metadata names, the
// refusal of requests whose length is ambiguous, the reason phrase, Azure's answer to a head that is too long, and
// small answers in one system call.
type conn struct {
	tcp    tcpConn
	stream stream // tcp, or TLS over it
	// unused is set until the first request has arrived.
	unused atomic.Bool
	// shared has the connection; nil if it does not give way to others. idleSince is the time from which on it is idle, in
	// nanoseconds since started, or inUse, or givenUp.
	shared    *Conns
	idleSince atomic.Int64

	names    headercase.Names
	requests requestScanner
	held     heldWrite

	// The fields below are those of the answer under way. They belong to the goroutine that serves the connection.
	answer answer
	// serving is set from the beginning of a request until the connection is idle: what is written meanwhile is the answer
	// of a handler, at other times an answer of net/http itself.
	serving bool
	// headDue is set until the head of the handler's answer is written. Only then can a write begin with a status line.
	headDue bool
	reason  reason
	// ends is set when the answer begins before so much of its request has arrived that the connection ends with it.
	ends bool

	ending *lingering // of the server; nil for a connection that does not linger
}

// stream is the side of a connection that carries HTTP.
type stream interface {
	io.ReadWriteCloser
	CloseWrite() error
}

// plainConn is a connection without TLS. The kernel sends files over it.
type plainConn struct{ *conn }

// secureConn is a connection over TLS.
type secureConn struct {
	*conn
	tls *tls.Conn
	log *log.Logger
}

// newConn returns the connection over c: with TLS if config is not nil.
func newConn(c *net.TCPConn, limit *Limiter, shared *Conns, config *tls.Config, log *log.Logger) net.Conn {
	own := &conn{shared: shared, tcp: tcpConn{TCPConn: c, limit: limit, reading: deadline{arm: c.SetReadDeadline},
		writing: deadline{arm: c.SetWriteDeadline}}}
	own.requests.names = &own.names
	own.answer.conn = own
	shared.add(own)
	if config == nil {
		own.stream = &own.tcp
		return plainConn{own}
	}
	secure := tls.Server(&own.tcp, config)
	own.stream = secure
	return secureConn{own, secure, log}
}

// ownConn returns the connection that the listener made, nil if it is not over TCP.
func ownConn(c net.Conn) *conn {
	switch c := c.(type) {
	case plainConn:
		return c.conn
	case secureConn:
		return c.conn
	}
	return nil
}

// Read implements net.Conn.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.stream.Read(p)
	if n > 0 {
		if since := c.idleSince.Load(); since > 0 { // once a request
			c.idleSince.CompareAndSwap(since, inUse)
		}
		c.requests.scan(p[:n])
	}
	return n, err
}

// headTooLong begins the answer of net/http to a request whose head is longer than maxHeader. requestTooLong is the
// answer of Azure, which refuses such a request before its services see it: with the status 400, which client libraries
// do not retry, and a page in HTML.
const (
	headTooLong = "HTTP/1.1 431 "
	tooLongPage = "<!DOCTYPE html><html><head><title>Bad Request</title></head><body><h2>Bad Request - Request Too " +
		"Long</h2><p>HTTP Error 400. The size of the request headers is too long.</p></body></html>\r\n"
	ambiguousLength = "<!DOCTYPE html><html><head><title>Bad Request</title></head><body><h2>Bad Request - Invalid " +
		"Header</h2><p>HTTP Error 400. The request has a Content-Length and a Transfer-Encoding.</p></body></html>\r\n"
)

var requestTooLong = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/html; charset=us-ascii\r\nConnection: " +
	"close\r\nContent-Length: " +
	strconv.Itoa(len(tooLongPage)) + "\r\n\r\n" + tooLongPage

// serve calls h with the next request of the connection.
func (c *conn) serve(h http.Handler, w http.ResponseWriter, r *http.Request) {
	c.serving = true
	c.headDue = true
	c.reason = reason{}
	c.ends = false
	// A proxy in front may have taken the other length, and what is body to it would be a second request here.
	if c.requests.ambiguous() {
		w.Header().Set("Content-Type", "text/html; charset=us-ascii")
		w.Header().Set("Connection", "close")
		w.WriteHeader(http.StatusBadRequest)
		if r.Method != http.MethodHead {
			_, _ = io.WriteString(w, ambiguousLength)
		}
		return
	}
	c.answer.ResponseWriter, c.answer.request = w, r
	h.ServeHTTP(&c.answer, r)
	c.endsUnread(w, r) // an answer that begins only now
	c.answer.request = nil
	if c.ends {
		// net/http would wait for up to 256 KiB of the body before it ends the connection.
		_ = c.SetReadDeadline(interrupted)
	}
}

// idle is called when the answer of a handler is written and the connection waits for another request.
func (c *conn) idle() {
	c.serving = false
	_ = c.sendHeld() // the next read finds a broken connection
	c.idleSince.Store(idleNow())
}

// Write implements net.Conn.
func (c *conn) Write(p []byte) (int, error) {
	switch {
	case !c.serving:
		if bytes.HasPrefix(p, []byte(headTooLong)) {
			return c.writeInstead(p, []byte(requestTooLong))
		}
	case c.headDue && !interim(p):
		// This write begins with the head of the handler's answer, and has what is in the buffer of net/http of the body.
		c.headDue = false
		if c.reason.phrase != "" {
			return c.writeInstead(p, c.reason.in(p))
		}
		if c.held.hold(p) {
			return len(p), nil
		}
	default:
		// The second write of the answer: the first one, if it was held, goes with it.
		if held := c.held.take(); held != nil {
			return c.writeHeld(held, p)
		}
	}
	return c.stream.Write(p)
}

// writeInstead sends q in place of p.
func (c *conn) writeInstead(p, q []byte) (int, error) {
	if _, err := c.stream.Write(q); err != nil {
		return 0, err
	}
	return len(p), nil
}

// interim reports whether p, which begins an answer, has a status below 200, and so another head follows.
func interim(p []byte) bool { return len(p) > len("HTTP/1.1 ") && p[len("HTTP/1.1 ")] == '1' }

// reason is the reason phrase of an answer.
type reason struct {
	status int
	phrase string
}

// in returns a copy of the head at the beginning of p with the phrase; p itself if the head has another status.
func (r reason) in(p []byte) []byte {
	const version = len("HTTP/1.1 ")
	end := bytes.Index(p, []byte("\r\n"))
	status := strconv.Itoa(r.status)
	if end < version || !bytes.HasPrefix(p[version:end], []byte(status)) {
		return p
	}
	q := make([]byte, 0, len(p)+len(r.phrase))
	q = append(q, p[:version+len(status)+1]...)
	q = append(q, r.phrase...)
	return append(q, p[end:]...)
}

// ReadFrom implements io.ReaderFrom, so that the kernel sends files.
func (c plainConn) ReadFrom(r io.Reader) (int64, error) {
	if err := c.sendHeld(); err != nil {
		return 0, err
	}
	return c.tcp.ReadFrom(r)
}

// ConnectionState returns what the handshake agreed on. net/http calls it before it reads, and makes it the TLS field
// of the requests; so the handshake, within the time for a request's head, is done here. After a failure the connection
// is closed.
func (c secureConn) ConnectionState() tls.ConnectionState {
	_ = c.SetDeadline(time.Now().Add(headerTimeout))
	if err := c.tls.Handshake(); err != nil {
		if e, ok := err.(tls.RecordHeaderError); ok && e.Conn != nil && looksLikeHTTP(e.RecordHeader) {
			_, _ = io.WriteString(e.Conn, "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n")
		}
		c.log.Printf("TLS handshake error from %s: %v", c.RemoteAddr(), err)
		_ = c.Close()
	}
	_ = c.SetDeadline(time.Time{})
	return c.tls.ConnectionState()
}

// looksLikeHTTP reports whether a client sent a request in place of a TLS handshake.
func looksLikeHTTP(record [5]byte) bool {
	for _, method := range []string{"GET /", "HEAD ", "POST ", "PUT /", "OPTIO", "DELET", "PATCH", "MERGE"} {
		if strings.HasPrefix(method, string(record[:])) {
			return true
		}
	}
	return false
}

// CloseWrite ends the sending direction, and drops what the client still sends, within bounds. net/http calls it before
// it closes a connection on which the client may still send.
func (c *conn) CloseWrite() error {
	_ = c.sendHeld()
	err := c.stream.CloseWrite()
	c.linger()
	return err
}

// Close implements net.Conn.
func (c *conn) Close() error {
	_ = c.sendHeld() // an answer that ends early
	c.shared.remove(c)
	return c.stream.Close()
}

// NetConn returns the connection below HTTP and TLS.
func (c *conn) NetConn() net.Conn { return &c.tcp }

// LocalAddr implements net.Conn.
func (c *conn) LocalAddr() net.Addr { return c.tcp.LocalAddr() }

// RemoteAddr implements net.Conn.
func (c *conn) RemoteAddr() net.Addr { return c.tcp.RemoteAddr() }

// SetReadDeadline implements net.Conn.
func (c *conn) SetReadDeadline(t time.Time) error { return c.tcp.SetReadDeadline(t) }

// SetWriteDeadline implements net.Conn.
func (c *conn) SetWriteDeadline(t time.Time) error { return c.tcp.SetWriteDeadline(t) }

// SetDeadline implements net.Conn.
func (c *conn) SetDeadline(t time.Time) error { return c.tcp.SetDeadline(t) }

// connKey is the key of the connection in the context of its requests.
type connKey struct{}

// connContext returns the context of the requests of a connection.
func connContext(ctx context.Context, c net.Conn, ending *lingering) context.Context {
	if own := ownConn(c); own != nil {
		own.ending = ending
		return context.WithValue(headercase.NewContext(ctx, &own.names), connKey{}, own)
	}
	return ctx
}

// answering calls h with answers that can have a reason phrase.
func answering(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(connKey{}).(*conn); ok {
			c.serve(h, w, r)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// answer is the http.ResponseWriter of a request on a conn.
type answer struct {
	http.ResponseWriter
	conn    *conn
	request *http.Request
}

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) {
	if status >= 200 {
		a.conn.endsUnread(a.ResponseWriter, a.request)
	}
	a.ResponseWriter.WriteHeader(status)
}

// SetReason implements statusline.Reasoner.
func (a *answer) SetReason(status int, phrase string) { a.conn.reason = reason{status, phrase} }

// ReadFrom implements io.ReaderFrom.
func (a *answer) ReadFrom(r io.Reader) (int64, error) {
	return a.ResponseWriter.(io.ReaderFrom).ReadFrom(r)
}

// Flush implements http.Flusher.
func (a *answer) Flush() {
	a.ResponseWriter.(http.Flusher).Flush()
	_ = a.conn.sendHeld()
}

// SetReadDeadline sets the deadline of reads of the request's body.
func (a *answer) SetReadDeadline(t time.Time) error { return a.conn.SetReadDeadline(t) }

// SetWriteDeadline sets the deadline of writes of the answer.
func (a *answer) SetWriteDeadline(t time.Time) error { return a.conn.SetWriteDeadline(t) }

// Unwrap lets http.ResponseController reach the methods of net/http's writer.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
