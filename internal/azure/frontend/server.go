package frontend

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// Limits of one connection.
const (
	// maxHeader bounds a request's head in bytes. It is above [wire.MaxHeaderBytes], so that a request that is refused for its headers
	// is answered 400 in Azure's form; what is above this is answered 431 by net/http.
	maxHeader = 4 * wire.MaxHeaderBytes
	// headerTimeout bounds the time for a request's head.
	headerTimeout = 30 * time.Second
	// DefaultIdleTimeout is how long an idle connection is kept.
	DefaultIdleTimeout = 2 * time.Minute
)

// NewServer makes the HTTP server of one service: every path and method goes to h, the service's Frontend. idle is
// how long idle connections are kept; 0 is [DefaultIdleTimeout].
func NewServer(h http.Handler, log *slog.Logger, idle time.Duration) *http.Server {
	if idle <= 0 {
		idle = DefaultIdleTimeout
	}
	e := echo.New()
	serve := func(c echo.Context) error {
		h.ServeHTTP(c.Response().Writer, c.Request())
		return nil
	}
	// One route: paths are percent-encoded resource names, which the services read themselves, and the Table service
	// has methods of its own.
	e.RouteNotFound("/*", serve)
	fresh := unused{conns: make(map[*conn]struct{})}
	server := &http.Server{
		Handler:           e,
		MaxHeaderBytes:    maxHeader,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idle,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		ConnState: func(c net.Conn, state http.ConnState) {
			if state == http.StateIdle { // the last answer's deadline is not the next one's
				_ = c.SetWriteDeadline(time.Time{})
			}
			fresh.connState(c, state)
		},
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			if names, ok := c.(wire.HeaderNames); ok {
				return wire.WithHeaderNames(ctx, names)
			}
			return ctx
		},
	}
	server.RegisterOnShutdown(fresh.close)
	return server
}

// ListenOptions say how a server takes connections.
type ListenOptions struct {
	// MaxConns is how many connections are open at once; what comes beyond is answered 503 and closed. 0 is no limit.
	MaxConns int
	// TLS serves https, with HTTP/2; nil serves plain HTTP/1.
	TLS *tls.Config
}

// Serve serves on l until the server is shut down; see http.Server.Serve for what it returns.
//
// Over TLS the case of metadata names is lost, as it always is with HTTP/2: they arrive in lower case.
func Serve(server *http.Server, l net.Listener, o ListenOptions) error {
	wrapped := listener{Listener: l, limit: NewLimiter(o.MaxConns), raw: o.TLS != nil}
	if o.TLS == nil {
		return server.Serve(wrapped)
	}
	server.TLSConfig = o.TLS.Clone()
	return server.ServeTLS(wrapped, "", "")
}
