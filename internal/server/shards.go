package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
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
	// having are the shards that this node has. It is replaced when a copy moves.
	having atomic.Pointer[having]
	// elsewhere passes requests for the others on; nil if this node has all.
	elsewhere *elsewhere
	// placed says which account is in which shard; nil with one shard.
	placed *shardmap.Map
	// fronts choose the shard of a request; nil with one shard, whose handlers are called directly.
	fronts map[wire.Service]http.Handler
	opened chan struct{} // closed when fronts is set

	events atomic.Pointer[events.Manager] // nil without Config.Events, and on a node that does not deliver events
	// eventNode decides on a node of a cluster whose events it delivers; nil without Config.Events.
	eventNode *eventNode
	accounts  *accounts.Manager // nil without Config.ManagedAccounts
	// journal has the changes of added accounts on a node with shard 0, if a node may not have it; nil otherwise.
	journal *accounts.Journal
	// stopping ends when the server stops: a call to another node does not hold that up.
	stopping context.Context
	// operations are what other nodes call on shards, see calls.go; nil if all nodes have all shards.
	operations http.Handler
	// recorder records changes of queues and tables for the event log.
	recorder *changes.Recorder
	nats     *natsserver.Server
	node     *cluster.Node // nil for a single server
	// forward passes requests to the homes of the logs; nil for a single server.
	forward *forward.Forwarder

	// openMoved opens the services of a shard that moves to this node.
	openMoved func(ctx context.Context, of *shard) error

	board   *longpoll.Board // where requests wait for changes
	closers []func() error  // in order of start; closed in reverse
}

// having are the shards that a node has; a value does not change.
type having struct {
	shards []*shard // in the order of their numbers; none at a node whose shards have all moved away
	// numbered are all shards of the cluster, by their numbers: nil for those that this node does not have.
	numbered []*shard
}

// list returns the shards that this node has, in the order of their numbers.
func (o *services) list() []*shard { return o.having.Load().shards }

// numbered returns the shard of a number, nil if this node does not have it.
func (o *services) numbered(n int) *shard { return o.having.Load().numbered[n] }

// put sets the shard of a number; nil takes it away. Calls follow each other.
func (o *services) put(n int, of *shard) {
	numbered := slices.Clone(o.having.Load().numbered)
	numbered[n] = of
	o.having.Store(newHaving(numbered))
}

func newHaving(numbered []*shard) *having {
	h := &having{numbered: numbered}
	for _, of := range numbered {
		if of != nil {
			h.shards = append(h.shards, of)
		}
	}
	return h
}

// A shard is a set of the three services with databases, logs and extents of its own. See docs/design/shards.md.
type shard struct {
	datadir.Shard
	tables tables
	blobs  blobs
	queues queues

	leaving atomic.Bool // requests go to other nodes, since this one is about to give the shard away

	gate   *gate // requests that this shard serves; shut when the node gives it away
	closed sync.Once
	// closing ends when close begins: the databases are closed when the last pin of a backup is.
	closing context.Context
	end     context.CancelFunc
}

// close closes the services that are open. Further calls do nothing.
func (s *shard) close() (err error) {
	s.closed.Do(func() {
		s.end()
		if s.queues.Service != nil {
			err = errors.Join(err, s.queues.Close())
		}
		if s.blobs.Service != nil {
			err = errors.Join(err, s.blobs.Close())
		}
		if s.tables.Service != nil {
			err = errors.Join(err, s.tables.Close())
		}
	})
	return err
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
		return o.list()[0].handler(svc)
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
		return o.list()[0]
	}
	return o.numbered(o.placed.Of(named[svc], account))
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
		serve := o.placedHandler(svc)
		// Any shard knows whether a host is that of a website: the accounts are those of the server.
		website := func(string) string { return "" }
		if svc == wire.Blob {
			website = func(host string) string {
				if list := o.list(); len(list) > 0 {
					return list[0].blobs.Website(host)
				}
				return "" // the node that gets the request knows
			}
		}
		o.fronts[svc] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			account := website(r.Host)
			if account == "" {
				var ok bool
				if account, ok = accountOf(svc, r, options); !ok {
					serve(o.first(), w, r)
					return
				}
			}
			n := o.placed.Of(named[svc], account)
			if !o.knowsEvents(svc, n, account, r) {
				fail(w, r, wire.ErrServerBusy.WithMessage(
					"The event subscriptions of the account are not known yet. Please retry your request."))
				return
			}
			serve(n, w, r)
		})
	}
	close(o.opened)
}

// first returns the number of the first shard of this node, or of any if it has none.
func (o *services) first() int {
	if list := o.list(); len(list) > 0 {
		return list[0].Number
	}
	return 0
}

// placedHandler serves the requests of a service for the shard with a number: here, or at a node that has it.
func (o *services) placedHandler(svc wire.Service) func(n int, w http.ResponseWriter, r *http.Request) {
	if o.elsewhere == nil { // no shard moves
		return func(n int, w http.ResponseWriter, r *http.Request) { o.numbered(n).handler(svc).ServeHTTP(w, r) }
	}
	away := make([]http.Handler, len(o.having.Load().numbered))
	for n := range away {
		away[n] = o.elsewhere.handler(svc, datadir.ShardOf("", n))
	}
	return func(n int, w http.ResponseWriter, r *http.Request) {
		// A shard that is given away is taken out first, and then its gate shuts for good.
		if of := o.numbered(n); of != nil && !of.leaving.Load() && of.gate.enterOpen() {
			defer of.gate.leave()
			of.handler(svc).ServeHTTP(w, r)
			return
		}
		away[n].ServeHTTP(w, r)
	}
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
// has its blobs. Where shards move there is no list of them.
func (o *services) eventLogs() events.Logs {
	logs := events.Logs{Of: func(account string) *eventlog.Log {
		if of := o.of(wire.Blob, account); of != nil {
			return of.blobs.State.EventLog()
		}
		return nil
	}}
	if o.elsewhere != nil {
		return logs
	}
	for _, s := range o.list() {
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
