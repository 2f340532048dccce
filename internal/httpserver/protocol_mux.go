package httpserver

import (
	"errors"
	"net"
	"sync"
	"time"
)

// firstByteTimeout is the time limit for a connection's first byte, which distinguishes TLS from plain HTTP.
const firstByteTimeout = 10 * time.Second

// tlsHandshake is the first byte of a TLS handshake. No HTTP request begins with it.
const tlsHandshake = 0x16

// ProtocolMux splits the connections of one listener: those that begin with a TLS handshake go to the listener of
// [ProtocolMux.TLS], the others to the listener of [ProtocolMux.Plain].
type ProtocolMux struct {
	listener      net.Listener
	timeout       time.Duration // for the first byte
	plain, secure chan net.Conn
	closed        chan struct{}
	closing       sync.Once
	work          sync.WaitGroup

	mu     sync.Mutex
	unread map[net.Conn]struct{} // connections of which nothing was read yet; nil once closed
}

// NewProtocolMux splits the connections of l. Closing either of its listeners closes l.
func NewProtocolMux(l net.Listener) *ProtocolMux { return newProtocolMux(l, firstByteTimeout) }

func newProtocolMux(l net.Listener, timeout time.Duration) *ProtocolMux {
	m := &ProtocolMux{listener: l, timeout: timeout, plain: make(chan net.Conn), secure: make(chan net.Conn),
		closed: make(chan struct{}), unread: make(map[net.Conn]struct{})}
	m.work.Go(m.accept)
	return m
}

// Plain returns the listener of the connections without TLS.
func (m *ProtocolMux) Plain() net.Listener { return muxListener{m, m.plain} }

// TLS returns the listener of the connections that begin with a TLS handshake.
func (m *ProtocolMux) TLS() net.Listener { return muxListener{m, m.secure} }

// Wait waits until no connection is being sorted, after Close.
func (m *ProtocolMux) Wait() { m.work.Wait() }

func (m *ProtocolMux) accept() {
	for {
		c, err := m.listener.Accept()
		switch {
		case err == nil:
			m.work.Go(func() { m.sort(c) })
		case errors.Is(err, net.ErrClosed):
			_ = m.Close()
			return
		default: // too many open files, or the client has closed the connection
			select {
			case <-time.After(10 * time.Millisecond):
			case <-m.closed:
				return
			}
		}
	}
}

// sort reads the first byte of a connection and passes it to its listener.
func (m *ProtocolMux) sort(c net.Conn) {
	if !m.add(c) {
		_ = c.Close()
		return
	}
	first := make([]byte, 1)
	_ = c.SetReadDeadline(time.Now().Add(m.timeout))
	_, err := c.Read(first)
	m.remove(c)
	if err != nil {
		_ = c.Close()
		return
	}
	_ = c.SetReadDeadline(time.Time{})
	to := m.plain
	if first[0] == tlsHandshake {
		to = m.secure
	}
	select {
	case to <- &unreadConn{Conn: c, first: first}:
	case <-m.closed:
		_ = c.Close()
	}
}

// add notes a connection, which Close has to close. It returns false after Close.
func (m *ProtocolMux) add(c net.Conn) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.unread == nil {
		return false
	}
	m.unread[c] = struct{}{}
	return true
}

func (m *ProtocolMux) remove(c net.Conn) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.unread, c)
}

// Close closes the listener and the connections of which nothing was read yet. It may be called twice.
func (m *ProtocolMux) Close() (err error) {
	m.closing.Do(func() {
		close(m.closed)
		err = m.listener.Close()
		m.mu.Lock()
		defer m.mu.Unlock()
		for c := range m.unread {
			_ = c.Close()
		}
		m.unread = nil
	})
	return err
}

// muxListener is the listener of one protocol.
type muxListener struct {
	mux   *ProtocolMux
	conns chan net.Conn
}

// Accept implements net.Listener.
func (l muxListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.mux.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l muxListener) Close() error { return l.mux.Close() }

// Addr implements net.Listener.
func (l muxListener) Addr() net.Addr { return l.mux.listener.Addr() }

// unreadConn is a connection whose first byte was read, and is read again.
type unreadConn struct {
	net.Conn
	first []byte
}

// Read implements net.Conn.
func (c *unreadConn) Read(p []byte) (int, error) {
	if len(c.first) > 0 && len(p) > 0 {
		n := copy(p, c.first)
		c.first = c.first[n:]
		return n, nil
	}
	return c.Conn.Read(p)
}
