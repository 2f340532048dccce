package server

import (
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"

	"github.com/lazuli-storage/lazuli/blobsvc"
	"github.com/lazuli-storage/lazuli/internal/azure/changes"
	"github.com/lazuli-storage/lazuli/internal/azure/longpoll"
	"github.com/lazuli-storage/lazuli/internal/azure/properties"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/cluster"
	"github.com/lazuli-storage/lazuli/internal/cluster/forward"
	"github.com/lazuli-storage/lazuli/internal/eventlog"
	"github.com/lazuli-storage/lazuli/internal/nats/natsserver"
	"github.com/lazuli-storage/lazuli/internal/server/accounts"
	"github.com/lazuli-storage/lazuli/internal/server/events"
	"github.com/lazuli-storage/lazuli/internal/service/blobhost"
	"github.com/lazuli-storage/lazuli/internal/service/queuehost"
	"github.com/lazuli-storage/lazuli/internal/service/tablehost"
	"github.com/lazuli-storage/lazuli/internal/storage/datadir"
	"github.com/lazuli-storage/lazuli/internal/storage/shardmap"
	"github.com/lazuli-storage/lazuli/queuesvc"
	"github.com/lazuli-storage/lazuli/tablesvc"
)

// services are what the server has open: its shards, and what they share.
type services struct {
	shards []*shard // that this node has, in the order of their numbers; at least one
	// numbered are all shards of the cluster, by their numbers: nil for those that this node does not have.
	numbered []*shard
	// elsewhere passes requests for the others on; nil if this node has all.
	elsewhere *elsewhere
	// placed says which account is in which shard; nil with one shard.
	placed *shardmap.Map
	// fronts choose the shard of a request; nil with one shard, whose handlers are called directly.
	fronts map[wire.Service]http.Handler
	opened chan struct{} // closed when fronts is set

	events   atomic.Pointer[events.Manager] // nil without Config.Events, and on a node that does not deliver events
	accounts *accounts.Manager              // nil without Config.ManagedAccounts
	// recorder records changes of queues and tables for the event log.
	recorder *changes.Recorder
	nats     *natsserver.Server
	node     *cluster.Node // nil for a server alone
	// forward passes requests to the homes of the logs; nil for a server alone.
	forward *forward.Forwarder

	board   *longpoll.Board // where requests wait for changes
	closers []func() error  // in order of start; closed in reverse
}

// A shard is a set of the three services with databases, logs and extents of its own. See docs/design/shards.md.
type shard struct {
	datadir.Shard
	tables tables
	blobs  blobs
	queues queues
}

// A service is what clients reach, with the parts that the server works on itself.
type (
	tables struct {
		*tablesvc.Service
		*tablehost.Parts
	}
	blobs struct {
		*blobsvc.Service
		*blobhost.Parts
	}
	queues struct {
		*queuesvc.Service
		*queuehost.Parts
	}
)

func (s *shard) handler(svc wire.Service) http.Handler {
	switch svc {
	case wire.Blob:
		return s.blobs.Handler()
	case wire.DataLake:
		return s.blobs.LakeHandler()
	case wire.Queue:
		return s.queues.Handler()
	default:
		return s.tables.Handler()
	}
}

// handler serves one service of all shards.
func (o *services) handler(svc wire.Service) http.Handler {
	if o.fronts == nil {
		return o.shards[0].handler(svc)
	}
	return o.fronts[svc]
}

func (o *services) close() (err error) {
	for i := len(o.closers) - 1; i >= 0; i-- {
		err = errors.Join(err, o.closers[i]())
	}
	o.closers = nil
	return err
}

// named are the names of the services in the map of shards.
var named = map[wire.Service]string{wire.Blob: shardmap.Blob, wire.DataLake: shardmap.Blob, wire.Queue: shardmap.Queue,
	wire.Table: shardmap.Table}

// of returns the shard of an account of a service, nil if this node does not have it.
func (o *services) of(svc wire.Service, account string) *shard {
	if o.placed == nil {
		return o.shards[0]
	}
	return o.numbered[o.placed.Of(named[svc], account)]
}

// suffix names a shard in a message, and is "" for shard 0.
func (s *shard) suffix() string {
	if s.Number == 0 {
		return ""
	}
	return fmt.Sprintf(" of shard %d", s.Number)
}

// accountOf reads the account of a request from its address; ok is false if it has none.
func accountOf(svc wire.Service, r *http.Request, o wire.Options) (account string, ok bool) {
	if svc == wire.DataLake {
		svc = wire.Blob // as whose requests they are parsed
	}
	return wire.AccountOf(svc, r, o)
}

// startFronts makes the handlers that choose the shard of a request: they read its account from the address, as the
// service does that parses the request afterwards. A request without an account, which every shard refuses alike, goes
// to the first one.
func (o *services) startFronts(pathStyle bool) {
	o.fronts = map[wire.Service]http.Handler{}
	options := wire.Options{PathStyle: pathStyle}
	for svc := range named {
		handlers := make([]http.Handler, len(o.numbered))
		for i, s := range o.numbered {
			if s == nil {
				handlers[i] = o.elsewhere.handler(svc, datadir.ShardOf("", i))
				continue
			}
			handlers[i] = s.handler(svc)
		}
		first := o.shards[0].handler(svc)
		// Any shard knows whether a host is that of a website: the accounts are those of the server.
		website := func(string) string { return "" }
		if svc == wire.Blob {
			website = o.shards[0].blobs.Website
		}
		o.fronts[svc] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			account := website(r.Host)
			if account == "" {
				var ok bool
				if account, ok = accountOf(svc, r, options); !ok {
					first.ServeHTTP(w, r)
					return
				}
			}
			handlers[o.placed.Of(named[svc], account)].ServeHTTP(w, r)
		})
	}
	close(o.opened)
}

// propertiesOf returns the service properties of an account, none if another node has the account.
func (o *services) propertiesOf(svc wire.Service, account string) *properties.Properties {
	of := o.of(svc, account)
	if of == nil {
		return new(properties.Properties)
	}
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

// wakeEvents tells the delivery of events that an account has one.
func (o *services) wakeEvents(account string) {
	if m := o.events.Load(); m != nil {
		m.Wake(account)
	}
}
