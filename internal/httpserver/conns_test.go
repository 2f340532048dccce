package httpserver

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// client is a connection that sends requests and keeps open.
type client struct {
	net.Conn
	*bufio.Reader
}

func (c client) get(t *testing.T, path string) error {
	t.Helper()
	check.OK(t, c.SetDeadline(time.Now().Add(time.Minute)))
	if _, err := fmt.Fprintf(c.Conn, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path); err != nil {
		return err
	}
	r, err := http.ReadResponse(c.Reader, nil)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, r.Body)
	return err
}

// closed waits until the server has closed the connection.
func (c client) closed(t *testing.T) bool {
	t.Helper()
	check.OK(t, c.SetDeadline(time.Now().Add(time.Minute)))
	_, err := c.ReadByte()
	return err != nil && !os.IsTimeout(err)
}

// Of the connections beyond the bound those that have been idle for longest are closed, of all servers that share it;
// one whose request is under way is not.
func TestIdleConnectionsGiveWay(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]Options{"http": {}, "https": {TLS: &tls.Config{}}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o.Conns = NewConns(4)
			cert, _ := selfSigned(t)
			if o.TLS != nil {
				o.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
			}
			entered, leave := make(chan struct{}), make(chan struct{})
			handler := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/slow" {
					close(entered)
					<-leave
				}
			})
			var addresses []string
			for range 2 {
				server := New(handler, slog.New(slog.DiscardHandler), 0)
				l, err := net.Listen("tcp", "127.0.0.1:0")
				check.OK(t, err)
				done := make(chan error, 1)
				go func() { done <- Serve(server, l, o) }()
				t.Cleanup(func() { _ = server.Close(); <-done })
				addresses = append(addresses, l.Addr().String())
			}
			open := func(i int) client {
				t.Helper()
				c := dial(t, addresses[i%2])
				if o.TLS != nil {
					c = tls.Client(c, &tls.Config{InsecureSkipVerify: true})
				}
				return client{c, bufio.NewReader(c)}
			}
			slow := open(0)
			result := make(chan error, 1)
			go func() { result <- slow.get(t, "/slow") }()
			<-entered
			var idle []client
			for i := range 6 {
				c := open(i)
				if err := c.get(t, "/"); err != nil {
					t.Fatalf("connection %d: %v", i, err)
				}
				// The server notes that the connection is idle after its client has the answer.
				check.Eventually(t, func() bool { return o.Conns.idle() == min(i+1, 3) }, "connection %d is idle", i)
				idle = append(idle, c)
			}
			for i, c := range idle {
				if i < 3 {
					if !c.closed(t) {
						t.Errorf("connection %d, the longest idle one, is open", i)
					}
				} else if err := c.get(t, "/"); err != nil {
					t.Errorf("connection %d: %v", i, err)
				}
			}
			close(leave)
			if err := <-result; err != nil {
				t.Errorf("the request that was under way: %v", err)
			}
		})
	}
}

// idle is the number of connections that could give way.
func (s *Conns) idle() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.open {
		if c.idleSince.Load() > 0 {
			n++
		}
	}
	return n
}

// short is a listener that once may open no more files.
type short struct {
	net.Listener
	due atomic.Bool
}

// Accept implements net.Listener.
func (l *short) Accept() (net.Conn, error) {
	if l.due.Swap(false) {
		return nil, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	}
	return l.Listener.Accept()
}

// If no more files may be opened, an idle connection is closed, and the new one is accepted without a wait.
func TestNoFilesForANewConnection(t *testing.T) {
	t.Parallel()
	server := New(http.NotFoundHandler(), slog.New(slog.DiscardHandler), 0)
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	check.OK(t, err)
	l := &short{Listener: tcp}
	o := Options{Conns: NewConns(1000)}
	wrapped := listener{Listener: l, conns: o.Conns}
	done := make(chan error, 1)
	go func() { done <- Serve(server, l, o) }()
	t.Cleanup(func() { _ = server.Close(); <-done })
	idle := client{dial(t, tcp.Addr().String()), nil}
	idle.Reader = bufio.NewReader(idle.Conn)
	check.OK(t, idle.get(t, "/"))
	check.Eventually(t, func() bool { return o.Conns.idle() == 1 }, "the connection is idle")
	l.due.Store(true)
	next := client{dial(t, tcp.Addr().String()), nil} // ends the Accept under way
	next.Reader = bufio.NewReader(next.Conn)
	check.OK(t, next.get(t, "/"))
	if !idle.closed(t) {
		t.Error("the idle connection is open")
	}
	// Without an idle connection the error is net/http's, which waits.
	wrapped.conns = NewConns(1000)
	l.due.Store(true)
	if _, err := wrapped.Accept(); !noFiles(err) {
		t.Errorf("Accept: %v", err)
	}
}
