package httpserver

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lazuli-storage/lazuli/internal/httpserver/headercase"
)

// conn is a connection over TCP. It keeps the case of metadata names, sets the system's deadlines rarely, and sends small answers by one system call.
type conn struct {
	*net.TCPConn
	limit     *Limiter
	encrypted bool
	once      sync.Once
	// reading and writing are the deadlines of the two directions.
	reading, writing deadline
	// unused is set until the first request has arrived.
	unused atomic.Bool
	names  headercase.Names
	held   heldWrite
}

func newConn(c *net.TCPConn, limit *Limiter, encrypted bool) *conn {
	return &conn{TCPConn: c, limit: limit, encrypted: encrypted, reading: deadline{arm: c.SetReadDeadline}, writing: deadline{arm: c.SetWriteDeadline}}
}

// headerRead is the size of net/http's buffer: reads of a head ask for at most as much, large reads of a body for more.
const headerRead = 4096

// Read implements net.Conn.
func (c *conn) Read(p []byte) (int, error) {
	if err := c.reading.begin(); err != nil {
		return 0, err
	}
	defer c.reading.end()
	n, err := c.TCPConn.Read(p)
	for n == 0 && c.reading.firedEarly(err) {
		n, err = c.TCPConn.Read(p)
	}
	if n > 0 && len(p) <= headerRead && !c.encrypted {
		c.names.Scan(p[:n], n == len(p))
	}
	return n, err
}

// headTooLong begins the answer of net/http to a request whose head is longer than maxHeader. requestTooLong is the answer of Azure, which
// refuses such a request before its services see it: with the status 400, which client libraries do not retry, and a page in HTML.
const (
	headTooLong    = "HTTP/1.1 431 "
	tooLongPage    = "<!DOCTYPE html><html><head><title>Bad Request</title></head><body><h2>Bad Request - Request Too Long</h2><p>HTTP Error 400. The size of the request headers is too long.</p></body></html>\r\n"
	requestTooLong = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/html; charset=us-ascii\r\nConnection: close\r\n\r\n" + tooLongPage
)

// Write implements net.Conn. It replaces the answer of net/http to a head that is too long.
func (c *conn) Write(p []byte) (int, error) {
	if bytes.HasPrefix(p, []byte(headTooLong)) && !c.encrypted {
		if _, err := c.TCPConn.Write([]byte(requestTooLong)); err != nil {
			return 0, err
		}
		return len(p), nil
	}
	held := c.held.take()
	if held == nil && !c.encrypted && c.held.hold(p) {
		return len(p), nil
	}
	if err := c.writing.begin(); err != nil {
		return 0, err
	}
	defer c.writing.end()
	if held != nil {
		return c.writeHeld(held, p)
	}
	return c.send(p)
}

// ReadFrom implements io.ReaderFrom, so that the kernel sends files.
func (c *conn) ReadFrom(r io.Reader) (int64, error) {
	if err := c.sendHeld(); err != nil {
		return 0, err
	}
	if err := c.writing.begin(); err != nil {
		return 0, err
	}
	defer c.writing.end()
	if err := c.writing.armExactly(); err != nil {
		return 0, err
	}
	return c.TCPConn.ReadFrom(r)
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.once.Do(c.limit.Leave)
	_ = c.sendHeld() // an answer that ends early
	return c.TCPConn.Close()
}

// SetReadDeadline implements net.Conn.
func (c *conn) SetReadDeadline(t time.Time) error { return c.reading.set(t) }

// SetWriteDeadline implements net.Conn.
func (c *conn) SetWriteDeadline(t time.Time) error { return c.writing.set(t) }

// SetDeadline implements net.Conn.
func (c *conn) SetDeadline(t time.Time) error {
	return errors.Join(c.reading.set(t), c.writing.set(t))
}
