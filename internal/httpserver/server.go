package httpserver

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/lazuli-storage/lazuli/internal/httpserver/headercase"
)

// Limits of one connection.
const (
	// maxHeader is the maximum length of a request's head in bytes; longer ones are answered 400 with a page in HTML. It is far above the services' limits,
	// so that they can refuse a large head with Azure's error.
	maxHeader = 256 << 10
	// maxEncryptedHeader is the length at which net/http itself refuses a head over TLS, with 431: its answer cannot be replaced below TLS. Heads between
	// the two limits are answered as the others are.
	maxEncryptedHeader = 4 * maxHeader
	// headerTimeout is the time limit for a request's head.
	headerTimeout = 30 * time.Second
	// DefaultIdleTimeout is how long an idle connection is kept.
	DefaultIdleTimeout = 2 * time.Minute
)

// New returns a server that passes every path and method to h: paths are percent-encoded names of resources, which the
// services parse themselves, so there is nothing to route. idle is how long idle connections are kept; 0 is
// [DefaultIdleTimeout].
func New(h http.Handler, log *slog.Logger, idle time.Duration) *http.Server {
	if idle <= 0 {
		idle = DefaultIdleTimeout
	}
	unused := unusedConns{conns: make(map[*conn]struct{})}
	server := &http.Server{
		Handler:           h,
		MaxHeaderBytes:    maxHeader,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idle,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		ConnState: func(c net.Conn, state http.ConnState) {
			if state == http.StateIdle {
				if own, ok := c.(*conn); ok {
					_ = own.sendHeld() // the next read finds a broken connection
				}
				// The deadline of the last answer is not that of the next.
				_ = c.SetWriteDeadline(time.Time{})
			}
			unused.connState(c, state)
		},
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			if own, ok := c.(*conn); ok { // not over TLS
				return headercase.NewContext(ctx, &own.names)
			}
			return ctx
		},
	}
	server.RegisterOnShutdown(unused.close)
	return server
}

// Options configure the connections of a server.
type Options struct {
	// MaxConns bounds the open connections. A connection beyond it is answered 503 and closed. 0 is no limit.
	MaxConns int
	// TLS serves https, with HTTP/2; nil serves plain HTTP/1.
	TLS *tls.Config
}

// Serve serves on l until the server is shut down; see [http.Server.Serve] for what it returns.
//
// Over TLS the case of metadata names is lost, as it always is with HTTP/2: they arrive in lower case.
func Serve(server *http.Server, l net.Listener, o Options) error {
	wrapped := listener{Listener: l, limit: NewLimiter(o.MaxConns), encrypted: o.TLS != nil}
	if o.TLS == nil {
		return server.Serve(wrapped)
	}
	server.TLSConfig = o.TLS.Clone()
	server.MaxHeaderBytes = maxEncryptedHeader
	server.Handler = boundHead(server.Handler)
	return server.ServeTLS(wrapped, "", "")
}
