package frontend

import (
	"bytes"
	"io"
	"net"
	"strings"
	"sync"
)

// Listener wraps l so that its connections remember metadata header names as they were written: Azure keeps their
// case, and net/http does not.
func Listener(l net.Listener) net.Listener { return listener{l} }

type listener struct{ net.Listener }

func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if tcp, ok := c.(*net.TCPConn); ok {
		return &conn{TCPConn: tcp}, nil
	}
	return c, nil
}

// maxNames bounds what one connection remembers. A client that uses more names loses their case, nothing else.
const maxNames = 256

// conn watches the bytes that are read for metadata headers. What looks like one inside a body is remembered too, and
// is harmless: only the case of a name is ever taken from here.
type conn struct {
	*net.TCPConn

	mu    sync.Mutex
	names map[string]string // lower case to original
	tail  []byte            // the last line of the read before, if it was cut
}

// headerRead is net/http's buffer size: header reads ask for no more, while body reads of any weight do.
const headerRead = 4096

// Read implements net.Conn.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.TCPConn.Read(p)
	if n > 0 && len(p) <= headerRead {
		c.scan(p[:n], n == len(p))
	}
	return n, err
}

// ReadFrom implements io.ReaderFrom, so that files are sent by the kernel.
func (c *conn) ReadFrom(r io.Reader) (int64, error) { return c.TCPConn.ReadFrom(r) }

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
