package server

import (
	"context"
	"net/http"

	natsgo "github.com/nats-io/nats.go"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/cluster"
	"github.com/lazuli-storage/lazuli/internal/cluster/forward"
	"github.com/lazuli-storage/lazuli/internal/nats/natsserver"
	"github.com/lazuli-storage/lazuli/internal/storage/datadir"
	"github.com/lazuli-storage/lazuli/internal/storage/replog"
)

// newForwarder returns what passes the requests of this node's clients to the homes of the logs, and serves those of
// other nodes.
func (s *Server) newForwarder(nats *natsserver.Server, node *cluster.Node, shards []*shard) *forward.Forwarder {
	c := forward.Config{
		Connect: func() (*natsgo.Conn, error) { return nats.Connect("lazuli forward") },
		Node:    node.Name(), Services: map[string]forward.Service{},
		Leader: func(ctx context.Context, log string) (string, error) {
			return node.LeaderOf(ctx, replog.StreamOf(log))
		},
		Mark: wire.WithHere, AsSystem: wire.WithSystem,
		// Where the home cannot write, the node that was asked perhaps can.
		Refuses: func() bool { return s.services.Load() == nil || s.space.Full() || s.space.Failing() != nil },
		Reads: func() bool {
			open := s.services.Load()
			return open != nil && open.nats.Failed() == nil && open.nats.Majority()
		},
		Log: s.config.Log,
	}
	for svc, log := range logOf {
		for _, of := range shards {
			// The handler finds the shard by the account, as it does for clients of this node.
			c.Services[serviceOf(svc.String(), of.Shard)] = forward.Service{Log: of.Log(log), Handler: s.handler(svc)}
		}
	}
	if node.Hosts() != nil {
		for _, of := range shards {
			c.Services[serviceOf(callService, of.Shard)] = s.callsOf(of)
		}
	}
	return forward.New(c)
}

// shardForwarder passes requests for one shard on.
type shardForwarder struct {
	*forward.Forwarder
	of datadir.Shard
}

// Elsewhere implements [frontend.Forwarder].
func (f shardForwarder) Elsewhere(service string) bool {
	return f.Forwarder.Elsewhere(serviceOf(service, f.of))
}

// Forward implements [frontend.Forwarder].
func (f shardForwarder) Forward(w http.ResponseWriter, r *http.Request, service string,
	released <-chan struct{}) (done bool, err error) {
	return f.Forwarder.Forward(w, r, serviceOf(service, f.of), released)
}
