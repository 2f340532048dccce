package httpserver

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/test/check"
)

func TestProtocolMuxSplitsByTheFirstByte(t *testing.T) {
	t.Parallel()
	root, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m := newProtocolMux(root, time.Hour)
	for sent, l := range map[string]net.Listener{"GET / HTTP/1.1": m.Plain(), "\x16\x03\x01": m.TLS()} {
		c := dial(t, l.Addr().String())
		if _, err := io.WriteString(c, sent); err != nil {
			t.Fatal(err)
		}
		got, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer got.Close()
		b := make([]byte, len(sent))
		if _, err := io.ReadFull(got, b); err != nil || string(b) != sent {
			t.Errorf("read %q, %v; want %q", b, err, sent)
		}
	}

	silent := dial(t, root.Addr().String())
	if err := m.Plain().Close(); err != nil {
		t.Error(err)
	}
	if err := m.Close(); err != nil {
		t.Errorf("the second Close: %v", err)
	}
	done := make(chan struct{})
	go func() { m.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(check.Patience):
		t.Fatal("a connection that sent nothing delays the end of the mux")
	}
	for _, l := range []net.Listener{m.Plain(), m.TLS()} {
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Accept after Close: %v, want %v", err, net.ErrClosed)
		}
	}
	_ = silent.SetReadDeadline(time.Now().Add(2 * time.Minute))
	if _, err := silent.Read(make([]byte, 1)); err == nil || os.IsTimeout(err) {
		t.Errorf("a connection that sent nothing is still open after Close: %v", err)
	}
}
