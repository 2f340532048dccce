package serve

import (
	"errors"
	"log/slog"
	"net"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/server/config"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/workers"
)

// The address of the endpoint for workflows stays taken while a reset replaces the state: another program that got the
// port would keep the endpoint closed. Where it stays closed for another reason, the server ends all the same.
func TestDurableKeepsItsAddress(t *testing.T) {
	t.Parallel()
	storage := check.Must(workers.OpenStorage("UseDevelopmentStorage=true"))(t) // nothing is asked for
	c := &config.Config{}
	c.Durable.Listen, c.Durable.Hub = "127.0.0.1:0", "hub"
	d := check.Must(OpenDurable(storage, c, &Security{accounts: auth.Development()}, nil, nil,
		slog.New(slog.DiscardHandler), true))(t)
	address := d.Address
	check.OK(t, d.restart(func() error {
		if l, err := net.Listen("tcp", address); err == nil {
			l.Close()
			t.Error("another listener got the address")
		}
		return nil
	}))
	conn := check.Must(net.Dial("tcp", address))(t)
	if _, err := conn.Read(make([]byte, 1)); err != nil { // gRPC's settings come first
		t.Errorf("after a restart: %v", err)
	}
	check.OK(t, conn.Close())
	if err := d.restart(func() error { return d.listener.TCPListener.Close() }); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a restart without an address: %v", err)
	}
	if err := d.stop(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("stopped: %v", err)
	}
}
