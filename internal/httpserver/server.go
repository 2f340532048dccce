package httpserver

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Limits of one connection.
const (
	// maxHeader is the maximum length of a request's head in bytes; longer ones are answered 400 with a page in HTML. It
	// is far above the services' limits, so that they can refuse a large head with Azure's error.
	maxHeader = 256 << 10
	// headerTimeout is the time limit for a request's head.
	headerTimeout = 30 * time.Second
	// DefaultIdleTimeout is the time that an idle connection is kept.
	DefaultIdleTimeout = 2 * time.Minute
)

// New returns a server that passes every path and method to h: paths are percent-encoded names of resources, which the
// services parse themselves, so there is nothing to route. idle is how long idle connections are kept; 0 is
// [DefaultIdleTimeout].
func New(h http.Handler, log *slog.Logger, idle time.Duration) *http.Server {
	return newServer(h, log, idle, &defaultLinger)
}

func newServer(h http.Handler, log *slog.Logger, idle time.Duration, limits *lingerLimits) *http.Server {
	if idle <= 0 {
		idle = DefaultIdleTimeout
	}
	unused := unusedConns{conns: make(map[*conn]struct{})}
	ending := &lingering{limits: limits, conns: make(map[*conn]struct{})}
	server := &http.Server{
		Handler:           answering(h),
		MaxHeaderBytes:    maxHeader,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idle,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		Protocols:         new(http.Protocols),
		ConnState: func(c net.Conn, state http.ConnState) {
			if own := ownConn(c); own != nil && state == http.StateIdle {
				own.idle()
			}
			unused.connState(c, state)
		},
		ConnContext: func(ctx context.Context, c net.Conn) context.Context { return connContext(ctx, c, ending) },
	}
	server.Protocols.SetHTTP1(true) // as Azure Storage, which does not offer HTTP/2
	server.RegisterOnShutdown(unused.close)
	server.RegisterOnShutdown(ending.stop)
	return server
}

// Options configure the connections of a server.
type Options struct {
	// MaxConns bounds the open connections. A connection beyond it is answered 503 and closed. 0 is no limit.
	MaxConns int
	// Conns are the connections that give way to those of this server, and the other way around; nil: none does.
	Conns *Conns
	// TLS serves https; nil serves http. Both are HTTP/1.1.
	TLS *tls.Config
}

// Serve serves on l, a listener of TCP, until the server is shut down; see [http.Server.Serve] for what it returns.
func Serve(server *http.Server, l net.Listener, o Options) error {
	wrapped := listener{Listener: l, limit: NewLimiter(o.MaxConns), conns: o.Conns, log: server.ErrorLog}
	if o.TLS != nil {
		wrapped.tls = o.TLS.Clone()
		wrapped.tls.NextProtos = nil // Azure Storage does not negotiate a protocol
	}
	return server.Serve(wrapped)
}
