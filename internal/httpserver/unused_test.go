package httpserver

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"
)

// A connection that its client opened and never used does not hold up a stop. net/http's own patience is five seconds;
// a machine that is very busy may need three for other reasons, and not five times in a row.
func TestShutdownWithUnusedConnections(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]Options{"http": {}, "https": {TLS: &tls.Config{}}} {
		t.Run(name, func(t *testing.T) {
			var err error
			for range 5 {
				if err = stopWithUnused(t, o, 3*time.Second); err == nil {
					return
				}
				t.Log(err)
			}
			t.Error(err)
		})
	}
}

func stopWithUnused(t *testing.T, o Options, patience time.Duration) error {
	t.Helper()
	server := New(http.NotFoundHandler(), slog.New(slog.DiscardHandler), 0)
	defer server.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	if o.TLS != nil {
		cert, _ := selfSigned(t)
		o.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
	}
	accepted := make(chan struct{}, 1)
	server.ConnState = both(server.ConnState, func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			accepted <- struct{}{}
		}
	})
	go func() { served <- Serve(server, l, o) }()
	unused := dial(t, l.Addr().String())
	<-accepted
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		return err
	}
	if err := <-served; err != http.ErrServerClosed {
		return err
	}
	if _, err := unused.Read(make([]byte, 1)); err != io.EOF {
		return fmt.Errorf("the unused connection: %v, want EOF", err)
	}
	return nil
}

func both(f, g func(net.Conn, http.ConnState)) func(net.Conn, http.ConnState) {
	return func(c net.Conn, s http.ConnState) { f(c, s); g(c, s) }
}
