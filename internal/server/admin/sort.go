package admin

import (
	"errors"
	"net"
	"sync"
	"time"
)

// sortPatience bounds the time for a connection's first byte, which tells TLS from plain HTTP.
const sortPatience = 10 * time.Second

// tlsRecord is the first byte of a TLS handshake, and of no HTTP request.
const tlsRecord = 0x16

// sorter takes the connections of one listener and gives those that begin with TLS to one server, and the others to another: the admin
// address answers to http and https.
type sorter struct {
	net.Listener
	plain, secure chan net.Conn
	closed        chan struct{}
	closing       sync.Once
	work          sync.WaitGroup

	mu   sync.Mutex
	open map[net.Conn]struct{} // connections of which nothing was read yet
}

// newSorter sorts the connections of l. Closing either of its two listeners closes l.
func newSorter(l net.Listener) *sorter {
	s := &sorter{Listener: l, plain: make(chan net.Conn), secure: make(chan net.Conn), closed: make(chan struct{}), open: make(map[net.Conn]struct{})}
	s.work.Go(s.run)
	return s
}

func (s *sorter) run() {
	for {
		c, err := s.Listener.Accept()
		switch {
		case err == nil:
			s.work.Go(func() { s.sort(c) })
		case errors.Is(err, net.ErrClosed):
			_ = s.Close()
			return
		default: // too many files are open, or the client has gone
			select {
			case <-time.After(10 * time.Millisecond):
			case <-s.closed:
				return
			}
		}
	}
}

func (s *sorter) sort(c net.Conn) {
	if !s.hold(c) {
		_ = c.Close()
		return
	}
	first := make([]byte, 1)
	_ = c.SetReadDeadline(time.Now().Add(sortPatience))
	_, err := c.Read(first)
	s.letGo(c)
	if err != nil {
		_ = c.Close()
		return
	}
	_ = c.SetReadDeadline(time.Time{})
	to := s.plain
	if first[0] == tlsRecord {
		to = s.secure
	}
	select {
	case to <- &begun{Conn: c, first: first}:
	case <-s.closed:
		_ = c.Close()
	}
}

// hold notes a connection, to be closed with the listener; false if that is closed already.
func (s *sorter) hold(c net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		return false
	}
	s.open[c] = struct{}{}
	return true
}

func (s *sorter) letGo(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, c)
}

// Close implements net.Listener. Connections that have not shown what they are end with it.
func (s *sorter) Close() (err error) {
	s.closing.Do(func() {
		close(s.closed)
		err = s.Listener.Close()
		s.mu.Lock()
		defer s.mu.Unlock()
		for c := range s.open {
			_ = c.Close()
		}
		s.open = nil
	})
	return err
}

// kind is the listener of one kind of connections.
type kind struct {
	*sorter
	conns chan net.Conn
}

// Accept implements net.Listener.
func (k kind) Accept() (net.Conn, error) {
	select {
	case c := <-k.conns:
		return c, nil
	case <-k.closed:
		return nil, net.ErrClosed
	}
}

// begun is a connection whose first byte was read.
type begun struct {
	net.Conn
	first []byte
}

// Read implements net.Conn.
func (c *begun) Read(p []byte) (int, error) {
	if len(c.first) > 0 && len(p) > 0 {
		n := copy(p, c.first)
		c.first = c.first[n:]
		return n, nil
	}
	return c.Conn.Read(p)
}
