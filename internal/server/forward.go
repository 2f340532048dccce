package server

import (
	"context"

	natsgo "github.com/nats-io/nats.go"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/cluster"
	"github.com/lazuli-storage/lazuli/internal/cluster/forward"
	"github.com/lazuli-storage/lazuli/internal/nats/natsserver"
	"github.com/lazuli-storage/lazuli/internal/storage/replog"
)

// logOf are the names of the logs that the services append to.
var logOf = map[wire.Service]string{wire.Blob: "blobs", wire.DataLake: "blobs", wire.Queue: "queues",
	wire.Table: "tables"}

// newForwarder returns what passes the requests of this node's clients to the homes of the logs, and serves those of
// other nodes.
func (s *Server) newForwarder(nats *natsserver.Server, node *cluster.Node) *forward.Forwarder {
	c := forward.Config{
		Connect: func() (*natsgo.Conn, error) { return nats.Connect("lazuli forward") },
		Node:    node.Name(), Services: map[string]forward.Service{},
		Leader: func(ctx context.Context, log string) (string, error) {
			return node.LeaderOf(ctx, replog.StreamOf(log))
		},
		Mark: wire.WithHere,
		// Where the home cannot write, the node that was asked perhaps can.
		Refuses: func() bool { return s.services.Load() == nil || s.space.Full() || s.space.Failing() != nil },
		Reads: func() bool {
			open := s.services.Load()
			return open != nil && open.nats.Failed() == nil && open.nats.Majority()
		},
		Log: s.config.Log,
	}
	for svc, log := range logOf {
		c.Services[svc.String()] = forward.Service{Log: log, Handler: s.handler(svc)}
	}
	return forward.New(c)
}

// reportOf is what this node of a cluster says about a log.
func (o *services) reportOf(name string, svc replicated) LogReport {
	r := logReport(svc)
	r.Home = o.forward.HomeOf(name)
	return r
}
