package killrig

import (
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// TestLink covers what a link does with connections.
func TestLink(t *testing.T) {
	t.Parallel()
	target := check.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer target.Close()
	go func() { // echoes
		for {
			c, err := target.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c); c.Close() }()
		}
	}()
	l := check.Must(newLink(target.Addr().String()))(t)
	defer l.listener.Close()
	c := check.Must(net.Dial("tcp", l.listener.Addr().String()))(t)
	defer c.Close()
	echo := func(limit time.Duration) error {
		_ = c.SetDeadline(time.Now().Add(limit))
		if _, err := c.Write([]byte("x")); err != nil {
			return err
		}
		_, err := io.ReadFull(c, make([]byte, 1))
		return err
	}
	check.OK(t, echo(check.Patience))
	l.set(linkHeld)
	var timeout net.Error
	if err := echo(50 * time.Millisecond); !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("a held link: %v, want a timeout", err)
	}
	l.set(linkOpen)
	_ = c.SetDeadline(time.Now().Add(check.Patience))
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		t.Errorf("what was held does not come when the link is open again: %v", err)
	}
	l.set(linkCut)
	if err := echo(check.Patience); err == nil || errors.As(err, &timeout) && timeout.Timeout() {
		t.Errorf("a cut link: %v, want a closed connection", err)
	}
}
