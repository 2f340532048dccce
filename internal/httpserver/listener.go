package httpserver

import (
	"io"
	"net"
	"sync"
	"time"
)

// listener accepts connections within a limit.
type listener struct {
	net.Listener
	limit     *Limiter
	encrypted bool // the bytes are TLS's
}

// Accept implements net.Listener.
func (l listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if !l.limit.Enter() {
			refuse(c, l.encrypted)
			continue
		}
		if tcp, ok := c.(*net.TCPConn); ok {
			return newConn(tcp, l.limit, l.encrypted), nil
		}
		return &countedConn{Conn: c, limit: l.limit}, nil
	}
}

// refusals is the maximum number of connections that are being answered with 503 at once. Further ones are closed without an answer.
var refusals = NewLimiter(64)

// busyResponse has the error code of Azure Storage, so that its clients try again later.
const busyResponse = "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 1\r\nx-ms-error-code: ServerBusy\r\n" +
	"Content-Length: 0\r\n\r\n"

// refuse answers a connection beyond the limit before anything is read from it, and closes it.
func refuse(c net.Conn, encrypted bool) {
	if encrypted || !refusals.Enter() {
		_ = c.Close()
		return
	}
	go func() {
		defer refusals.Leave()
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(time.Second))
		if _, err := io.WriteString(c, busyResponse); err != nil {
			return
		}
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.CloseWrite()
		}
		// Closing the connection with a request unread would reset it, and the client might not see the answer.
		_, _ = io.CopyN(io.Discard, c, 64<<10)
	}()
}

// countedConn is a connection within a limit, other than over TCP.
type countedConn struct {
	net.Conn
	limit *Limiter
	once  sync.Once
}

// Close implements net.Conn.
func (c *countedConn) Close() error {
	c.once.Do(c.limit.Leave)
	return c.Conn.Close()
}
