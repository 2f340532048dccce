package frontend

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// listener makes connections that remember metadata header names as they were written: Azure keeps their case, and
// net/http does not.
type listener struct {
	net.Listener
	limit *Limiter // of connections
	raw   bool     // what is read is TLS's: there is nothing to see in it
}

func (l listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if !l.limit.Enter() {
			turnAway(c, l.raw)
			continue
		}
		if tcp, ok := c.(*net.TCPConn); ok {
			return newConn(tcp, l.limit, l.raw), nil
		}
		return &plainConn{Conn: c, limit: l.limit}, nil
	}
}

// turningAway bounds how many connections are being answered 503 at once; beyond that they are closed without a word.
var turningAway = NewLimiter(64)

const busy = "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 1\r\nx-ms-error-code: ServerBusy\r\n" +
	"Content-Length: 0\r\n\r\n"

// turnAway answers a connection that is one too many, before anything is read of it, and closes it.
func turnAway(c net.Conn, raw bool) {
	if raw || !turningAway.Enter() {
		_ = c.Close()
		return
	}
	go func() {
		defer turningAway.Leave()
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(time.Second))
		if _, err := io.WriteString(c, busy); err != nil {
			return
		}
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.CloseWrite()
		}
		// Closed with a request unread, the connection would be reset and the answer perhaps lost.
		_, _ = io.CopyN(io.Discard, c, 64<<10)
	}()
}

// plainConn is a connection that is counted.
type plainConn struct {
	net.Conn
	limit *Limiter
	once  sync.Once
}

// Close implements net.Conn.
func (c *plainConn) Close() error {
	c.once.Do(c.limit.Leave)
	return c.Conn.Close()
}

// maxNames bounds what one connection remembers. A client that uses more names loses their case, nothing else.
const maxNames = 256

// conn watches the bytes that are read for metadata headers. What looks like one inside a body is remembered too, and
// is harmless: only the case of a name is ever taken from here.
type conn struct {
	*net.TCPConn
	limit *Limiter
	raw   bool
	once  sync.Once
	// reading and writing are the deadlines of the two directions.
	reading, writing deadline
	// unused is set until the first request has come.
	unused atomic.Bool

	mu    sync.Mutex
	names map[string]string // lower case to original
	tail  []byte            // the last line of the read before, if it was cut
}

func newConn(c *net.TCPConn, limit *Limiter, raw bool) *conn {
	return &conn{TCPConn: c, limit: limit, raw: raw, reading: deadline{arm: c.SetReadDeadline}, writing: deadline{arm: c.SetWriteDeadline}}
}

// headerRead is net/http's buffer size: header reads ask for no more, while body reads of any weight do.
const headerRead = 4096

// Read implements net.Conn.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.TCPConn.Read(p)
	for n == 0 && c.reading.early(err) {
		n, err = c.TCPConn.Read(p)
	}
	if n > 0 && len(p) <= headerRead && !c.raw {
		c.scan(p[:n], n == len(p))
	}
	return n, err
}

// Write implements net.Conn.
func (c *conn) Write(p []byte) (int, error) {
	n, err := c.TCPConn.Write(p)
	for c.writing.early(err) {
		var more int
		more, err = c.TCPConn.Write(p[n:])
		n += more
	}
	return n, err
}

// ReadFrom implements io.ReaderFrom, so that files are sent by the kernel.
func (c *conn) ReadFrom(r io.Reader) (int64, error) {
	if err := c.writing.exact(); err != nil {
		return 0, err
	}
	return c.TCPConn.ReadFrom(r)
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.once.Do(c.limit.Leave)
	return c.TCPConn.Close()
}

// SetReadDeadline implements net.Conn.
func (c *conn) SetReadDeadline(t time.Time) error { return c.reading.want(t) }

// SetWriteDeadline implements net.Conn.
func (c *conn) SetWriteDeadline(t time.Time) error { return c.writing.want(t) }

// SetDeadline implements net.Conn.
func (c *conn) SetDeadline(t time.Time) error {
	return errors.Join(c.reading.want(t), c.writing.want(t))
}

func (c *conn) scan(p []byte, cut bool) {
	if len(c.tail) > 0 {
		p = append(c.tail, p...)
		c.tail = c.tail[:0]
	}
	for rest := p; ; {
		i := bytes.Index(rest, []byte("eta-")) // of "-meta-" and "-Meta-"
		if i < 0 {
			break
		}
		c.note(rest, i)
		rest = rest[i+4:]
	}
	if cut {
		if i := bytes.LastIndexByte(p, '\n'); len(p)-i <= 1024 {
			c.tail = append([]byte(nil), p[i+1:]...)
		}
	}
}

// note remembers the header name around p[i:], if there is one.
func (c *conn) note(p []byte, i int) {
	const before = len("x-ms-m")
	if i < before || i > before && p[i-before-1] != '\n' {
		return
	}
	end := bytes.IndexByte(p[i:], ':')
	if end < 0 || end > 256 {
		return
	}
	name := string(p[i-before : i+end])
	lower := strings.ToLower(name)
	if !strings.HasPrefix(lower, "x-ms-meta-") || name == lower && c.names == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.names == nil {
		c.names = make(map[string]string)
	}
	if len(c.names) < maxNames || c.names[lower] != "" {
		c.names[lower] = name
	}
}

// OriginalName implements wire.HeaderNames.
func (c *conn) OriginalName(lower string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if name, ok := c.names[lower]; ok {
		return name
	}
	return lower
}
