package httpserver

import (
	"net"
	"net/http"
	"sync"
)

// unusedConns holds the connections of a server on which no request has arrived yet. [http.Server.Shutdown] waits five
// seconds for each of them, since a request might be under way; clients open such connections in advance, and would
// delay every stop.
type unusedConns struct {
	mu    sync.Mutex
	conns map[*conn]struct{}
}

// connState keeps the set. net/http calls it twice for each request; it then only reads a flag.
func (u *unusedConns) connState(c net.Conn, state http.ConnState) {
	own := ownConn(c)
	switch {
	case own == nil:
	case state == http.StateNew:
		own.unused.Store(true)
		u.mu.Lock()
		u.conns[own] = struct{}{}
		u.mu.Unlock()
	case own.unused.Load():
		own.unused.Store(false)
		u.mu.Lock()
		delete(u.conns, own)
		u.mu.Unlock()
	}
}

// close closes the connections at a shutdown. A request that is just arriving gets no answer, as on any idle
// connection.
func (u *unusedConns) close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for c := range u.conns {
		_ = c.Close()
	}
}
