package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/lazuli-storage/lazuli/blobsvc"
	"github.com/lazuli-storage/lazuli/internal/azure/changes"
	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
	"github.com/lazuli-storage/lazuli/internal/azure/longpoll"
	"github.com/lazuli-storage/lazuli/internal/azure/properties"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/cluster"
	"github.com/lazuli-storage/lazuli/internal/cluster/forward"
	"github.com/lazuli-storage/lazuli/internal/eventlog"
	"github.com/lazuli-storage/lazuli/internal/httpserver"
	"github.com/lazuli-storage/lazuli/internal/nats/natsserver"
	"github.com/lazuli-storage/lazuli/internal/server/accounts"
	"github.com/lazuli-storage/lazuli/internal/server/analytics"
	"github.com/lazuli-storage/lazuli/internal/server/backup"
	"github.com/lazuli-storage/lazuli/internal/service"
	"github.com/lazuli-storage/lazuli/internal/service/blobhost"
	"github.com/lazuli-storage/lazuli/internal/service/queuehost"
	"github.com/lazuli-storage/lazuli/internal/service/tablehost"
	state "github.com/lazuli-storage/lazuli/internal/state/blob"
	"github.com/lazuli-storage/lazuli/internal/state/blob/maintain"
	"github.com/lazuli-storage/lazuli/internal/state/blob/replica"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/tier"
	"github.com/lazuli-storage/lazuli/queuesvc"
	"github.com/lazuli-storage/lazuli/tablesvc"
)

// handler serves one service, through the gate, with the services that are open now.
func (s *Server) handler(svc wire.Service) http.Handler {
	return s.gate.around(func() http.Handler {
		open := s.services.Load()
		switch {
		case open == nil:
			return http.HandlerFunc(notOpen)
		}
		return open.handler(svc)
	})
}

// open opens the services on the data folder. ctx bounds the wait for other nodes of a cluster.
func (s *Server) open(ctx context.Context) (err error) {
	o := &services{board: longpoll.NewBoard(), placed: s.dir.Map(), opened: make(chan struct{})}
	defer func() {
		if err != nil {
			err = errors.Join(err, o.close())
		}
	}()
	c := s.config
	c.Now = s.now
	common := frontend.Common{Accounts: c.Accounts, OAuth: c.OAuth, RequireHTTPS: c.RequireHTTPS, Now: c.Now,
		ClientsNow: c.ClientsNow, Log: c.Log,
		Options: wire.Options{StrictVersion: c.StrictVersion, PathStyle: c.PathStyle},
		Limit:   frontend.NewLimit(c.MaxRequests), Board: o.board, Faults: s.faults, Space: s.space,
		Changes: new(changes.Recorder), LastSync: s.lastSync()}
	logs := analytics.New(analytics.Config{
		Settings: o.propertiesOf,
		Accounts: c.Accounts.Names, Now: c.Now, Log: c.Log,
	})
	common.Observe = s.observers(logs.Observe)
	nats, member, err := s.startNATS(ctx)
	if err != nil {
		return fmt.Errorf("start NATS: %w", err)
	}
	o.nats, o.node = nats, member
	if !s.isStandby() {
		o.closers = append(o.closers, func() error { nats.Close(); return nil })
	}
	if err := s.awaitConversion(ctx, nats, member); err != nil {
		return err
	}
	if c.ManagedAccounts {
		o.accounts = accounts.New(accounts.Config{Served: c.Accounts, Now: c.Now, Log: c.Log, Writable: s.writable,
			Grace: c.AccountGrace})
	}
	if err := s.openElsewhere(o, nats, member); err != nil {
		return err
	}
	if o.elsewhere != nil {
		o.journal, o.stopping = accounts.NewJournal(), s.stopping
		o.operations = s.newOperations(o)
	}
	// A node that was away may have missed that a shard moved. The shards that move to it are opened later.
	if err := s.whenElected(ctx, func() error { return member.ReadLayout(ctx) }); err != nil {
		return err
	}
	numbered := make([]*shard, s.dir.Shards())
	for n := range numbered {
		if hosts := member.Hosts(); hosts == nil || hosts.On(member.Name(), n) {
			numbered[n] = s.newShard(n)
		}
	}
	o.having.Store(newHaving(numbered))
	node := &eventNode{shards: o.list, manager: &o.events, now: c.Now, logger: c.Log, held: map[*eventlog.Log]bool{},
		changed: make(chan struct{}, 1)}
	if o.elsewhere != nil {
		node.interests = newInterests(o, common.Changes, c.Log)
	}
	if s.Clustered() {
		o.forward = s.newForwarder(nats, member, o.list())
	}
	if err := s.openNodeArchive(); err != nil {
		return err
	}
	o.openMoved = func(ctx context.Context, of *shard) error {
		for _, open := range s.openers(ctx, o, of, common, node) {
			if err := open(); err != nil {
				return err
			}
		}
		return nil
	}
	if err := s.openServices(ctx, o, common, node); err != nil {
		return err
	}
	o.dropLeft()
	if err := s.attachArchive(o); err != nil {
		return err
	}
	if s.Clustered() {
		o.addReports(member)
	}
	if o.placed != nil {
		o.startFronts(c.PathStyle)
		// Before any shard is closed: a copy may read from one and write to another.
		o.closers = append(o.closers, func() error {
			for _, of := range o.list() {
				of.blobs.EndCopies()
			}
			return nil
		})
	}
	// The logs of the analytics are blobs and their metrics are entities, so they start after the services and, as
	// closers run in the reverse order, stop before them.
	if !s.isStandby() { // they write
		logs.Start(o.handler(wire.Blob), o.handler(wire.Table))
		o.closers = append(o.closers, func() error { return logs.Stop(context.Background()) })
	}
	if c.Events && !s.isStandby() {
		o.recorder, o.eventNode = common.Changes, node
		node.changes = common.Changes
		o.delivery(s, node)
		if err := s.startEvents(o, node); err != nil {
			return fmt.Errorf("start the delivery of events: %w", err)
		}
	}
	if err := s.startAccounts(o); err != nil {
		return err
	}
	if s.Clustered() {
		var stores []*store.DB
		for _, sh := range o.list() {
			stores = append(stores, sh.tables.State.Database(), sh.queues.State.Database(), sh.blobs.State.Database())
		}
		if err := followHolds(nats.Conn(), stores...); err != nil {
			return err
		}
	}
	// Closed before the services: no other node must be waiting for them.
	if o.forward != nil {
		if err := o.forward.Open(); err != nil {
			return err
		}
		o.closers = append(o.closers, func() error { o.forward.Close(); return nil })
	}
	// From here on requests are served: what was created must be known before it has content.
	if err := s.dir.Record(); err != nil {
		return err
	}
	s.services.Store(o)
	return nil
}

// openElsewhere begins to pass requests on, if this node does not have all shards.
func (s *Server) openElsewhere(o *services, nats *natsserver.Server, node *cluster.Node) error {
	if node.Hosts() == nil {
		return nil
	}
	e := &elsewhere{limit: httpserver.NewLimiter(s.config.MaxRequests), ended: o.board.Ended,
		passing: passing{seconds: newShardSeconds(), forward: forward.NewFront(forward.FrontConfig{
			Connect: func() (*natsgo.Conn, error) { return nats.Connect("lazuli elsewhere") }, Nodes: node.Others(),
			Services: slices.Concat(serviceNames(s.dir.Shards()), callServices(s.dir.Shards())), System: wire.IsSystem,
			Log: s.config.Log})}}
	if err := e.forward.Open(); err != nil {
		return err
	}
	o.elsewhere = e
	// Before the services in the list of what is closed, so after them: what they write at their end may go elsewhere.
	o.closers = append(o.closers, func() error { e.forward.Close(); return nil })
	return nil
}

// openAtATime is the number of services that are opened at the same time: each waits for the disk most of the time.
const openAtATime = 16

// openServices opens the services of all shards at the same time: each of them waits for the disk, and for an election
// on a node of a cluster. What was opened is in o, also after an error.
func (s *Server) openServices(ctx context.Context, o *services, common frontend.Common, node *eventNode) error {
	var g *errgroup.Group
	g, ctx = errgroup.WithContext(ctx)
	g.SetLimit(openAtATime)
	for _, of := range o.list() {
		for _, open := range s.openers(ctx, o, of, common, node) {
			g.Go(func() error {
				err := s.whenElected(ctx, open)
				if errors.Is(err, replica.ErrLeft) {
					return nil // the shard has moved, and what is left of it is closed and deleted later
				}
				return err
			})
		}
	}
	// The closers are added here, not where each service is opened: the goroutines would race for the list. After an
	// error, the caller closes those that were opened.
	err := g.Wait()
	o.closers = append(o.closers, func() (err error) {
		for _, of := range slices.Backward(o.list()) {
			err = errors.Join(err, of.close())
		}
		return err
	})
	return err
}

// newShard returns a shard of this node that is not open.
func (s *Server) newShard(n int) *shard {
	of := &shard{Shard: s.dir.Shard(n), gate: newGate()}
	of.closing, of.end = context.WithCancel(context.Background())
	return of
}

// openers returns what opens the services of a shard.
func (s *Server) openers(ctx context.Context, o *services, of *shard, common frontend.Common,
	node *eventNode) []func() error {
	if o.forward != nil {
		common.Forwarder = shardForwarder{o.forward, of.Shard}
	}
	named := func(name string, open func() error) func() error {
		return func() error {
			if err := open(); err != nil {
				return fmt.Errorf("start the %s service%s: %w", name, of.suffix(), err)
			}
			return nil
		}
	}
	return []func() error{
		named("Table", func() error { return s.openTables(ctx, o, of, common) }),
		named("Blob", func() error { return s.openBlobs(ctx, o, of, common, node) }),
		named("Queue", func() error { return s.openQueues(ctx, o, of, common) }),
	}
}

// features are the analytics settings of the service properties that may be turned on.
var features = properties.Features{Logging: true, Metrics: true}

func (s *Server) openTables(ctx context.Context, o *services, of *shard, common frontend.Common) error {
	options, err := s.tableOptions(ctx, o.nats, of)
	if err != nil {
		return err
	}
	options.Archive = s.archiveOf(of, "tables")
	svc, err := service.Open(tablesvc.New, &tablehost.Config{Common: common, Path: of.Tables(), Features: features,
		Store: options, Shard: of.Number})
	if err == nil {
		of.tables = tables{svc, service.Get(svc)}
	}
	return err
}

func (s *Server) openBlobs(ctx context.Context, o *services, of *shard, common frontend.Common,
	node *eventNode) error {
	c := s.config
	cluster, err := s.blobCluster(ctx, o.nats, o.node, of)
	if err != nil {
		return err
	}
	config := &blobhost.Config{Common: common, Path: of.Blobs(), Extents: of.Extents(), Features: features,
		ScopeKeys: of.EncryptionScopes(), Changed: c.BlobChanged, Egress: c.CopySources,
		Relaxed: c.Relaxed && cluster == nil, Ephemeral: c.InMemory, LogEvents: c.Events, EventLogged: o.wakeEvents,
		Subscribed:     func() { node.Subscribed(of.Number) },
		AccountChanged: o.accountChanged(), Cluster: cluster, Archive: s.archiveOfBlobs(of), Tier: s.tierOptions(of),
		Shard: of.Number, ReadOnly: s.isStandby()}
	if o.placed != nil {
		config.Hosts = func(account string) bool { return o.of(wire.Blob, account) == of }
		// A copy that a former process has left begins before the fronts exist.
		config.Shards = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-o.opened:
				o.fronts[wire.Blob].ServeHTTP(w, r)
			case <-r.Context().Done():
			}
		})
	}
	if of.Number == 0 && o.journal != nil {
		o.journal.Restart() // while the shard was elsewhere, this node has noted nothing
	}
	svc, err := service.Open(blobsvc.New, config)
	if err == nil {
		of.blobs = blobs{svc, service.Get(svc)}
	}
	return err
}

// tierOptions returns the options of the tier of a shard's content, nil for none.
func (s *Server) tierOptions(of *shard) *tier.Options {
	if s.config.Tier == nil {
		return nil
	}
	o := s.config.Tier.OfShard(s.dir.Tier(), of.Number, s.dir.Shards())
	o.Log = s.config.Log
	return o
}

// ContentTier returns the figures of the tier of content; nil without one, and while the services are closed.
func (s *Server) ContentTier() *tier.Stats {
	open := s.services.Load()
	if open == nil || s.config.Tier == nil {
		return nil
	}
	var all maintain.Usage
	for _, of := range open.list() {
		u, err := of.blobs.State.Maintenance.Usage()
		if err != nil {
			return nil
		}
		all.Add(u)
	}
	return all.Tier
}

func (s *Server) openQueues(ctx context.Context, o *services, of *shard, common frontend.Common) error {
	options, err := s.queueOptions(ctx, o.nats, of)
	if err != nil {
		return err
	}
	options.Archive = s.archiveOf(of, "queues")
	svc, err := service.Open(queuesvc.New, &queuehost.Config{Common: common, Path: of.QueueState(), Features: features,
		Store: options, Shard: of.Number})
	if err == nil {
		of.queues = queues{svc, service.Get(svc)}
	}
	return err
}

// AccountManager adds, changes and removes accounts; nil if [Config] does not allow it, and while the services are
// closed.
func (s *Server) AccountManager() *accounts.Manager {
	if open := s.services.Load(); open != nil {
		return open.accounts
	}
	return nil
}

// writable returns why the operations of this process that are no requests may not write now.
func (s *Server) writable() error {
	if s.space.Full() {
		return ErrDiskFull
	}
	return nil
}

// accountChanged returns what follows the accounts of the other nodes of a cluster; nil if they are not served.
func (o *services) accountChanged() func(name string, value []byte) {
	switch {
	case o.accounts == nil:
		return nil
	case o.journal != nil:
		return o.journal.Note
	}
	return o.accounts.Follow
}

// startAccounts makes the process serve the accounts of the data folder. Before it no request is served, so that none
// is answered as if they did not exist.
func (s *Server) startAccounts(o *services) error {
	if o.accounts == nil {
		return s.noteUnserved(o)
	}
	if o.elsewhere != nil {
		return s.startSpreadAccounts(o)
	}
	records := state.NewAccountTable(o.list()[0].blobs.State.Database())
	err := s.whenElected(context.Background(), func() error {
		return o.accounts.Start(accounts.Store{Records: records, Follows: s.sharesBlobs(), Contents: o.contents(),
			Namespace: func(account string) (hierarchical, known bool, err error) {
				return o.of(wire.Blob, account).blobs.State.Accounts.Namespace(account)
			},
			// The node that works on the account's blobs may also end its event subscriptions.
			Claim: func(account string, now time.Time) (bool, error) {
				return o.of(wire.Blob, account).blobs.State.Membership.Claim(now)
			},
			Declare: func(account string) error { return o.of(wire.Blob, account).blobs.DeclareScopes(account) }})
	})
	if err != nil {
		return err
	}
	o.closers = append(o.closers, func() error { o.accounts.Stop(); return nil })
	return nil
}

// contents are the data of accounts.
func (o *services) contents() accounts.Contents {
	return &accounts.Services{Part: func(svc wire.Service, account string) accounts.Part {
		if o.elsewhere != nil {
			return remotePart{o, o.placed.Of(named[svc], account), svc}
		}
		return o.partOf(o.of(svc, account), svc)
	}}
}

// noteUnserved says that the data folder has accounts that are not served.
func (s *Server) noteUnserved(o *services) error {
	// The view of a node may not be readable yet, and its peers say the same.
	if s.sharesBlobs() {
		return nil
	}
	list, err := state.NewAccountTable(o.list()[0].blobs.State.Database()).List("", "", 1)
	if err == nil && len(list) > 0 {
		s.config.Log.Warn("the data folder has accounts that were added while a server ran, and they are not served: set "+
			"managed-accounts to serve them", "first", list[0].Name)
	}
	return err
}

// archiveOf returns the archive of a database of a shard, nil without one.
func (s *Server) archiveOf(of *shard, name string) store.Archive {
	a := s.archive()
	if a == nil {
		return nil
	}
	return a.Shard(of.Number).Log(slices.Index(backup.Databases, name))
}

// attachArchive gives the archive the content of services that were just opened, before they serve a request.
func (s *Server) attachArchive(o *services) error {
	a := s.archive()
	if a == nil {
		return nil
	}
	// Closers run in the reverse order: the archive gets the last changes before the services are closed.
	o.closers = append(o.closers, func() error { a.Detach(context.Background()); return nil })
	if s.Clustered() {
		for _, of := range o.list() {
			a.Shard(of.Number).AttachNode(of.EncryptionScopes(), archiveNode{o, of})
		}
		return nil
	}
	var keys []string
	for _, of := range o.list() {
		keys = append(keys, of.EncryptionScopes())
	}
	return a.Attach(keys...)
}

// observers returns a function that calls observe, which belongs to these services, and the observers of the process.
func (s *Server) observers(observe func(*wire.Request, frontend.Outcome)) func(*wire.Request, frontend.Outcome) {
	list := []func(*wire.Request, frontend.Outcome){observe}
	if s.metrics != nil {
		list = append(list, func(r *wire.Request, o frontend.Outcome) {
			if !r.System() { // requests of the server itself would hide those of clients
				s.metrics.Observe(r, o)
			}
		})
	}
	if s.config.Observe != nil {
		list = append(list, s.config.Observe)
	}
	return func(r *wire.Request, o frontend.Outcome) {
		for _, observe := range list {
			observe(r, o)
		}
	}
}

// operationNames returns the names of all operations of the three services.
func operationNames() []string {
	return slices.Concat(tablesvc.Operations(), queuesvc.Operations(), blobsvc.Operations(), blobsvc.LakeOperations())
}
