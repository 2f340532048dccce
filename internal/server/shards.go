package server

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/lazuli-storage/lazuli/internal/azure/properties"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/eventlog"
	"github.com/lazuli-storage/lazuli/internal/server/events"
	"github.com/lazuli-storage/lazuli/internal/storage/shardmap"
)

// ErrOneShard means that something works with one shard alone. The error that wraps it names it.
var ErrOneShard = errors.New("works with one shard only")

// checkShards refuses what does not know shards yet.
func (c *Config) checkShards() error {
	what := ""
	switch {
	case c.Shards < 0 || c.Shards > shardmap.Max:
		return fmt.Errorf("a server has 1 to %d shards, not %d", shardmap.Max, c.Shards)
	case c.Shards <= 1:
		return nil
	case c.InMemory:
		what = "a server without a data folder (in-memory)"
	case c.Cluster != nil:
		what = "a node of a cluster"
	case c.NATS.URL != "":
		what = "an external NATS server"
	case c.Archive != nil:
		what = "an archive of the log"
	default:
		return nil
	}
	return fmt.Errorf("%s %w: leave the number of shards at 1, or use a server alone with a data folder", what, ErrOneShard)
}

// Shards is the number of shards.
func (s *Server) Shards() int { return s.dir.Shards() }

// named are the names of the services in the map of shards.
var named = map[wire.Service]string{wire.Blob: shardmap.Blob, wire.DataLake: shardmap.Blob, wire.Queue: shardmap.Queue,
	wire.Table: shardmap.Table}

// of returns the shard of an account of a service.
func (o *services) of(svc wire.Service, account string) *shard {
	if o.placed == nil {
		return o.shards[0]
	}
	return o.shards[o.placed.Of(named[svc], account)]
}

// suffix names a shard in a message, and is "" for shard 0.
func (s *shard) suffix() string {
	if s.Number == 0 {
		return ""
	}
	return fmt.Sprintf(" of shard %d", s.Number)
}

// startFronts makes the handlers that choose the shard of a request: they read its account from the address, as the
// service does that parses the request afterwards. A request without an account, which every shard refuses alike, goes
// to shard 0.
func (o *services) startFronts(pathStyle bool) {
	o.fronts = map[wire.Service]http.Handler{}
	options := wire.Options{PathStyle: pathStyle}
	for svc := range named {
		handlers := make([]http.Handler, len(o.shards))
		for i, s := range o.shards {
			handlers[i] = s.handler(svc)
		}
		parsed := svc
		if svc == wire.DataLake {
			parsed = wire.Blob // as whose requests they are parsed
		}
		// Any shard knows whether a host is that of a website: the accounts are those of the server.
		website := func(string) string { return "" }
		if svc == wire.Blob {
			website = o.shards[0].blobs.Website
		}
		o.fronts[svc] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			account := website(r.Host)
			if account == "" {
				var ok bool
				if account, ok = wire.AccountOf(parsed, r, options); !ok {
					handlers[0].ServeHTTP(w, r)
					return
				}
			}
			handlers[o.placed.Of(named[parsed], account)].ServeHTTP(w, r)
		})
	}
	close(o.opened)
}

// propertiesOf returns the service properties of an account.
func (o *services) propertiesOf(svc wire.Service, account string) *properties.Properties {
	of := o.of(svc, account)
	switch svc {
	case wire.Blob:
		return of.blobs.Properties.Of(account)
	case wire.Queue:
		return of.queues.Properties.Of(account)
	default:
		return of.tables.Properties.Of(account)
	}
}

// eventLogs are the event logs of the shards. The events of all services of an account are in the log of the shard that
// has its blobs.
func (o *services) eventLogs() events.Logs {
	logs := events.Logs{Of: func(account string) *eventlog.Log { return o.of(wire.Blob, account).blobs.State.EventLog() }}
	for _, s := range o.shards {
		logs.All = append(logs.All, s.blobs.State.EventLog())
	}
	return logs
}
