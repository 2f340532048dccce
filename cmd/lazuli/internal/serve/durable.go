package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/console"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/workerproc"
	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	taskhub "github.com/lazuli-storage/lazuli/internal/durable/hub"
	"github.com/lazuli-storage/lazuli/internal/durable/sidecar"
	"github.com/lazuli-storage/lazuli/internal/sdk/hostrow"
	"github.com/lazuli-storage/lazuli/internal/server"
	"github.com/lazuli-storage/lazuli/internal/server/config"
	"github.com/lazuli-storage/lazuli/workers"
)

// Durable is the gRPC endpoint for workflows.
type Durable struct {
	options sidecar.Options
	hub     string
	account string                // of the server; "" for another one's
	metrics prometheus.Registerer // may be nil
	log     *slog.Logger
	traces  func() // sends the last traces

	// Of the server that is open. A reset replaces it while the dashboard asks it.
	server    atomic.Pointer[sidecar.Server]
	Address   string
	listener  *keptListener
	served    chan error // nil while no server is open
	collector prometheus.Collector
}

// keptListener keeps its address while one server has ended and the next one has not begun. Without it, another program
// could get the port during a reset, and the endpoint would not come back.
type keptListener struct{ *net.TCPListener }

// Close ends the calls of Accept. gRPC calls it when a server stops.
func (l *keptListener) Close() error { return l.SetDeadline(time.Now()) }

// startDurable serves workflows that are kept in an account of the stack, which is reached without a network.
func startDurable(s *server.Server, c *config.Config, sec *Security, metrics prometheus.Registerer, clock workers.Clock,
	log *slog.Logger) (*Durable, error) {
	account := c.Durable.Account
	if account == "" {
		account = sec.first
	}
	if sec.accounts.Get(account) == nil {
		return nil, console.Usagef("durable-account: unknown account %q", account)
	}
	storage, err := inProcessStorage(s, account)
	if err != nil {
		return nil, err
	}
	d, err := OpenDurable(storage, c, sec, metrics, clock, log, true)
	if d != nil {
		d.account = account
	}
	return d, err
}

// OpenDurable opens the endpoint. A nil clock is the system's. checked says that the storage is the configuration's,
// so that its rule for addresses beyond loopback has decided about the endpoint.
func OpenDurable(storage *workers.Storage, c *config.Config, sec *Security, metrics prometheus.Registerer,
	clock workers.Clock, log *slog.Logger, checked bool) (*Durable, error) {
	d := &Durable{metrics: metrics, log: log, hub: c.Durable.Hub, options: sidecar.Options{
		Durable: taskhub.Options{Storage: storage, Hub: c.Durable.Hub, Clock: clock}, Token: c.Durable.Token, TLS: sec.TLS,
		Logger: log, Hubs: c.Durable.Hubs, Open: checked, Heartbeat: hostrow.Every}}
	if sec.oauth != nil {
		d.options.Verify = func(ctx context.Context, token string) error {
			return sec.oauth.VerifyFor(ctx, token, auth.SchedulerAudience, time.Now())
		}
	}
	var err error
	if d.traces, err = workerproc.StartTraces(context.Background(), "lazuli", log); err == nil {
		if err = d.open(c.Durable.Listen); err != nil {
			d.traces()
		}
	}
	return d, err
}

// open serves at an address.
func (d *Durable) open(address string) error {
	server, err := sidecar.New(d.options)
	if err != nil {
		return console.Usage(err)
	}
	if d.listener == nil {
		l, err := server.Listen(address)
		if err != nil {
			return fmt.Errorf("durable-listen: %w", err)
		}
		d.listener = &keptListener{l.(*net.TCPListener)}
	} else if err := d.listener.SetDeadline(time.Time{}); err != nil { // its Close has set one
		return fmt.Errorf("durable-listen: %w", err)
	}
	l := d.listener
	served := make(chan error, 1)
	d.Address, d.served, d.collector = l.Addr().String(), served, server.Collector()
	d.server.Store(server)
	if d.metrics != nil {
		d.metrics.MustRegister(d.collector)
	}
	go func() { served <- server.Serve(l) }()
	d.log.Info("workflows are served", "address", d.Address, "hub", d.hub)
	return nil
}

// restart closes the endpoint while do replaces the state, and opens it at the same address. Clients connect again, and
// wait until it is open; hubs are created when they do.
func (d *Durable) restart(do func() error) error {
	err := d.close()
	if err == nil {
		err = do()
	}
	return errors.Join(err, d.open(d.Address))
}

// close ends the connections.
func (d *Durable) close() error {
	served := d.served
	if d.served = nil; served == nil {
		return nil // a restart could not open it again
	}
	d.server.Load().Stop()
	if d.metrics != nil {
		d.metrics.Unregister(d.collector)
	}
	return <-served
}

func (d *Durable) stop() error {
	err := errors.Join(d.close(), d.listener.TCPListener.Close())
	d.traces()
	return err
}

// Wait serves until ctx is done.
func (d *Durable) Wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return d.stop()
	case err := <-d.served:
		d.served <- nil
		_ = d.stop()
		return err
	}
}
