package httpserver

import (
	"errors"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Conns are the open connections of several servers that share the files which a process may open. Where these become
// scarce, the connections that have been idle for longest are closed: a client that keeps more of them than it uses
// must not keep others out. Clients expect an idle connection to be closed at any time, and open another one
// (https://www.rfc-editor.org/rfc/rfc9112#section-9.5).
type Conns struct {
	max int

	mu   sync.Mutex
	open map[*conn]struct{} // guarded by mu
}

// NewConns returns a set of connections of which idle ones are closed when there are more than max. Connections that
// are in use are not bounded by it.
func NewConns(max int) *Conns { return &Conns{max: max, open: make(map[*conn]struct{})} }

// Values of conn.idleSince besides times, which are positive.
const (
	inUse   = 0
	givenUp = -1
)

// started is the beginning of the times of idleSince, which the steps of the system's clock do not change.
var started = time.Now()

func idleNow() int64 { return int64(time.Since(started)) + 1 }

// add notes a new connection, and makes room for it.
func (s *Conns) add(c *conn) {
	if s == nil {
		return
	}
	c.idleSince.Store(idleNow())
	s.mu.Lock()
	s.open[c] = struct{}{}
	tooMany := len(s.open) > s.max
	s.mu.Unlock()
	if tooMany {
		s.giveWay(c)
	}
}

func (s *Conns) remove(c *conn) {
	if s == nil {
		return
	}
	s.mu.Lock()
	delete(s.open, c)
	s.mu.Unlock()
}

// giveWay closes an eighth of the idle connections, at least one, those first that have been idle for longest. It looks
// at all connections, and so is not to be called for each new one. It keeps the connection except, which is new. It
// returns false if no connection is idle.
func (s *Conns) giveWay(except *conn) bool {
	if s == nil {
		return false
	}
	type idle struct {
		*conn
		since int64
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []idle
	for c := range s.open {
		if since := c.idleSince.Load(); since > 0 && c != except {
			list = append(list, idle{c, since})
		}
	}
	slices.SortFunc(list, func(a, b idle) int { return int(min(max(a.since-b.since, -1), 1)) })
	closed := false
	for _, c := range list[:min(len(list), 1+len(list)/8)] {
		// A request that has arrived meanwhile keeps its connection.
		if !c.idleSince.CompareAndSwap(c.since, givenUp) {
			continue
		}
		delete(s.open, c.conn)
		// Below TLS, whose farewell could wait for the client. net/http closes the rest when its read fails.
		_ = c.tcp.Close()
		closed = true
	}
	return closed
}

// noFiles reports whether a connection could not be accepted because no more files may be opened.
func noFiles(err error) bool { return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) }
