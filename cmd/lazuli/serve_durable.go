package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lazuli-storage/lazuli/server"
	"github.com/lazuli-storage/lazuli/server/config"
	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/durable"
	"github.com/lazuli-storage/lazuli/workers/durable/sidecar"
)

// durableServer is the gRPC endpoint for workflows.
type durableServer struct {
	server  *sidecar.Server
	address string
	served  chan error
	traces  func() // sends the last traces
}

// startDurable serves workflows that are kept in an account of the stack, which is reached without a network.
func startDurable(s *server.Stack, c *config.Config, sec *security, metrics prometheus.Registerer, log *slog.Logger) (*durableServer, error) {
	account := c.Durable.Account
	if account == "" {
		account = sec.first
	}
	if sec.accounts.Get(account) == nil {
		return nil, usageError{fmt.Errorf("durable-account: unknown account %q", account)}
	}
	storage, err := inProcessStorage(s, account)
	if err != nil {
		return nil, err
	}
	return serveDurable(storage, c, sec, metrics, log)
}

// serveDurable opens the endpoint.
func serveDurable(storage *workers.Storage, c *config.Config, sec *security, metrics prometheus.Registerer, log *slog.Logger) (*durableServer, error) {
	o := sidecar.Options{Durable: durable.Options{Storage: storage, Hub: c.Durable.Hub}, Token: c.Durable.Token, TLS: sec.tls, Logger: log}
	server, err := sidecar.New(o)
	if err != nil {
		return nil, usageError{err}
	}
	var l net.Listener
	if l, err = server.Listen(c.Durable.Listen); err != nil {
		return nil, fmt.Errorf("durable-listen: %w", err)
	}
	traces, err := startTraces(context.Background(), "lazuli", log)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	if metrics != nil {
		metrics.MustRegister(server.Collector())
	}
	d := &durableServer{server: server, address: l.Addr().String(), served: make(chan error, 1), traces: traces}
	go func() { d.served <- server.Serve(l) }()
	log.Info("workflows are served", "address", d.address, "hub", c.Durable.Hub)
	return d, nil
}

func (d *durableServer) stop() error {
	d.server.Stop()
	d.traces()
	return <-d.served
}
