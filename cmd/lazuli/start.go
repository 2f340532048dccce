package main

import (
	"context"
	"errors"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/server"
	"github.com/lazuli-storage/lazuli/internal/server/config"
	"github.com/lazuli-storage/lazuli/internal/server/observe"
	"github.com/lazuli-storage/lazuli/internal/storage/natsserver"
)

// startStack starts the services that the configuration describes.
func startStack(c *config.Config, sec *security, metrics prometheus.Registerer, log *slog.Logger) (backend, error) {
	sc := server.Config{
		InMemory:       c.InMemory,
		Relaxed:        c.Durability == config.Relaxed,
		Blob:           c.Blob.Address(),
		Queue:          c.Queue.Address(),
		Table:          c.Table.Address(),
		BlobKeepAlive:  c.Blob.KeepAlive,
		QueueKeepAlive: c.Queue.KeepAlive,
		TableKeepAlive: c.Table.KeepAlive,
		Accounts:       sec.accounts,
		OAuth:          sec.oauth,
		TLS:            sec.tls,
		RequireHTTPS:   c.RequireHTTPS,
		MaxConnections: c.MaxConnections,
		MaxRequests:    c.MaxRequests,
		StrictVersion:  c.StrictVersion,
		PathStyle:      c.PathStyle,
		CopySources:    c.CopySources,
		NATS: natsserver.Config{Listen: c.NATS.Listen, URL: c.NATS.URL, Credentials: c.NATS.Credentials,
			CAFile: c.NATS.CA, CertFile: c.NATS.Cert, KeyFile: c.NATS.Key, Replicas: c.NATS.Replicas},
		Log:     log,
		Observe: observe.RequestLog(log),
		Metrics: metrics,
		Faults:  c.Faults,
	}
	if !c.InMemory {
		sc.Location = c.Location
	}
	if len(c.Roles.Enabled) == 0 {
		s, err := server.Start(sc)
		if err != nil {
			return nil, err
		}
		return s, nil
	}
	roles, err := newServerRoles(c, sec)
	if err != nil {
		return nil, err
	}
	logRequest := sc.Observe
	sc.Observe = func(r *wire.Request, o frontend.Outcome) {
		roles.observe(r, o)
		if logRequest != nil {
			logRequest(r, o)
		}
	}
	s, err := server.Start(sc)
	if err != nil {
		return nil, err
	}
	if err := roles.start(s, c, metrics, log); err != nil {
		return nil, errors.Join(err, s.Stop(context.Background()))
	}
	return rolesBackend{s, roles}, nil
}
