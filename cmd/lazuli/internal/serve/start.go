package serve

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/nats/natsserver"
	"github.com/lazuli-storage/lazuli/internal/server"
	"github.com/lazuli-storage/lazuli/internal/server/config"
	"github.com/lazuli-storage/lazuli/internal/server/observe"
)

// startStack starts the services that the configuration describes.
func startStack(ctx context.Context, c *config.Config, sec *Security, o Options) (Backend, error) {
	log, metrics := o.log, o.metrics
	sc := server.Config{
		InMemory:       c.InMemory,
		Shards:         c.Shards,
		Relaxed:        c.Durability == config.Relaxed,
		Blob:           c.Blob.Address(),
		Queue:          c.Queue.Address(),
		Table:          c.Table.Address(),
		BlobKeepAlive:  c.Blob.KeepAlive,
		QueueKeepAlive: c.Queue.KeepAlive,
		TableKeepAlive: c.Table.KeepAlive,
		Services:       servedServices(c),
		Accounts:       sec.accounts,

		ManagedAccounts: c.ManagedAccounts,

		OAuth:          sec.oauth,
		TLS:            sec.TLS,
		RequireHTTPS:   c.RequireHTTPS,
		MaxConnections: c.MaxConnections,
		MaxRequests:    c.MaxRequests,
		StrictVersion:  c.StrictVersion,
		PathStyle:      c.PathStyle,
		CopySources:    c.CopySources,
		NATS: natsserver.Config{Listen: c.NATS.Listen, URL: c.NATS.URL, Credentials: c.NATS.Credentials,
			CAFile: c.NATS.CA, CertFile: c.NATS.Cert, KeyFile: c.NATS.Key, Replicas: c.NATS.Replicas,
			// A NATS server of others may acknowledge before it syncs. With durability "sync" it has to prove that it does
			// not, unless the user takes the risk.
			Monitors: c.NATS.Monitors, Prove: c.NATS.URL != "" && !c.NATS.Unproven && c.Durability == config.Sync},
		NATSTables: c.NATS.Tables(),
		NATSBlobs:  c.NATS.Blobs(),
		Log:        log,
		Observe:    observers(observe.RequestLog(log), o.observe),
		Metrics:    metrics,
		Faults:     c.Faults,
		Events:     c.Events, EventHosts: c.EventHosts, EventURL: sec.eventURL,
		Waiting: o.waiting, Archive: o.archive, Standby: o.standby, Tier: o.tier,
	}
	if c.ServeDataLake || slices.ContainsFunc(sec.accounts.Names(),
		func(name string) bool { return sec.accounts.Blob(name).Hierarchical }) {
		sc.DataLake = c.DataLake.Address()
	}
	// Two clocks: the services run on the test's, while signatures are checked by the real one, as clients sign by
	// theirs.
	if o.clock != nil {
		sc.Now, sc.ClientsNow = o.clock.Now, time.Now
	}
	if c.Cluster.Enabled() {
		sc.Cluster = c.Cluster.Peering()
	}
	if c.Cluster.Front {
		s, err := server.StartFront(ctx, sc)
		if err != nil {
			return nil, err
		}
		return s, nil
	}
	if !c.InMemory {
		sc.Location = c.Location
	}
	// Without workers there is nothing to stop before the server.
	if len(c.Roles.Enabled) == 0 && !c.Durable.Enabled {
		s, err := server.StartContext(ctx, sc)
		if err != nil {
			return nil, err
		}
		return s, nil
	}
	b := &workerBackend{}
	var err error
	if len(c.Roles.Enabled) > 0 {
		if b.roles, err = newServerRoles(c, sec); err != nil {
			return nil, err
		}
		// Set before the start: the observer must see the first request.
		sc.Observe = observers(sc.Observe, b.roles.observe)
	}
	if b.Server, err = server.StartContext(ctx, sc); err != nil {
		return nil, err
	}
	if b.roles != nil {
		if err := b.roles.start(b.Server, c, metrics, o.clock.ofWorkers(), log); err != nil {
			// The ports are open by now, so a failure has to close them.
			return nil, errors.Join(err, b.Server.Stop(context.Background()))
		}
	}
	if c.Durable.Enabled {
		if b.durable, err = startDurable(b.Server, c, sec, metrics, o.clock.ofWorkers(), log); err != nil {
			// Stops roles and server, in that order.
			return nil, errors.Join(err, b.Stop(context.Background()))
		}
	}
	return b, nil
}

// observer sees every request after its response was written; see [frontend.Common.Observe].
type observer = func(*wire.Request, frontend.Outcome)

// observers returns an observer that calls each observer of the list that is not nil, or nil if all are nil.
func observers(list ...observer) observer {
	list = slices.DeleteFunc(list, func(o observer) bool { return o == nil })
	switch len(list) {
	case 0:
		return nil
	case 1:
		return list[0]
	}
	return func(r *wire.Request, o frontend.Outcome) {
		for _, observe := range list {
			observe(r, o)
		}
	}
}

// servedServices are the services that the configuration names; nil is all of them.
func servedServices(c *config.Config) []wire.Service {
	if len(c.Services) == 0 {
		return nil
	}
	served := []wire.Service{}
	for _, svc := range Services {
		if c.Serves(svc.Service.String()) {
			served = append(served, svc.Service)
		}
	}
	return served
}
