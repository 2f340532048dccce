package frontend

import (
	"crypto/tls"
	"net"
	"net/http"
	"sync"
)

// unused holds the connections of a server on which no request has come yet. A server's Shutdown waits five seconds for
// each of them, as a request might be under way; clients open such connections in advance, and would delay every stop.
type unused struct {
	mu    sync.Mutex
	conns map[*conn]struct{}
}

// connState keeps the set. It is called twice for each request, and then does no more than look at a flag.
func (u *unused) connState(c net.Conn, state http.ConnState) {
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

// close closes them, at a shutdown. A request that was just arriving gets no answer, as on any idle connection.
func (u *unused) close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for c := range u.conns {
		_ = c.Close()
	}
}

// ownConn is the connection as the listener made it, nil for one that is not over TCP.
func ownConn(c net.Conn) *conn {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	own, _ := c.(*conn)
	return own
}
