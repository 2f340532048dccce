package httpserver

import (
	"io"
	"net"
	"sync"
	"time"
)

// tcpConn is a connection over TCP within a limit. It sets the system's deadlines rarely.
type tcpConn struct {
	*net.TCPConn
	limit *Limiter
	once  sync.Once
	// reading and writing are the deadlines of the two directions.
	reading, writing deadline
}

// Read implements net.Conn.
func (c *tcpConn) Read(p []byte) (int, error) {
	if err := c.reading.begin(); err != nil {
		return 0, err
	}
	defer c.reading.end()
	n, err := c.TCPConn.Read(p)
	for n == 0 && c.reading.firedEarly(err) {
		n, err = c.TCPConn.Read(p)
	}
	return n, err
}

// Write implements net.Conn.
func (c *tcpConn) Write(p []byte) (int, error) {
	if err := c.writing.begin(); err != nil {
		return 0, err
	}
	defer c.writing.end()
	n, err := c.TCPConn.Write(p)
	for c.writing.firedEarly(err) {
		var more int
		more, err = c.TCPConn.Write(p[n:])
		n += more
	}
	return n, err
}

// writeBuffers sends all of b by one system call, if the system takes it.
func (c *tcpConn) writeBuffers(b *net.Buffers) (int64, error) {
	if err := c.writing.begin(); err != nil {
		return 0, err
	}
	defer c.writing.end()
	n, err := b.WriteTo(c.TCPConn)
	for c.writing.firedEarly(err) {
		var more int64
		more, err = b.WriteTo(c.TCPConn)
		n += more
	}
	return n, err
}

// ReadFrom implements io.ReaderFrom, so that the kernel sends files.
func (c *tcpConn) ReadFrom(r io.Reader) (int64, error) {
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
func (c *tcpConn) Close() error {
	c.once.Do(c.limit.Leave)
	return c.TCPConn.Close()
}

// SetReadDeadline implements net.Conn.
func (c *tcpConn) SetReadDeadline(t time.Time) error { return c.reading.set(t) }

// SetWriteDeadline implements net.Conn.
func (c *tcpConn) SetWriteDeadline(t time.Time) error { return c.writing.set(t) }

// SetDeadline implements net.Conn.
func (c *tcpConn) SetDeadline(t time.Time) error {
	if err := c.reading.set(t); err != nil {
		return err
	}
	return c.writing.set(t)
}
