package httpserver

import (
	"crypto/tls"
	"io"
	"log"
	"net"
	"time"
)

// listener accepts connections over TCP within a limit.
type listener struct {
	net.Listener
	limit *Limiter
	conns *Conns
	tls   *tls.Config // nil without TLS
	log   *log.Logger
}

// Accept implements net.Listener.
func (l listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		// net/http would wait before it tries again, up to a second, for a file that nothing frees.
		if noFiles(err) && l.conns.giveWay(nil) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if !l.limit.Enter() {
			refuse(c, l.tls != nil)
			continue
		}
		return newConn(c.(*net.TCPConn), l.limit, l.conns, l.tls, l.log), nil
	}
}

// refusals is the maximum number of connections that are being answered with 503 at once. Further ones are closed
// without an answer.
var refusals = NewLimiter(64)

// busyResponse has the error code of Azure Storage, so that its clients try again later.
const busyResponse = "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 1\r\nx-ms-error-code: " +
	"ServerBusy\r\n" +
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
