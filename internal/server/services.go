package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"golang.org/x/sync/errgroup"

	"github.com/lazuli-storage/lazuli/blobsvc"
	"github.com/lazuli-storage/lazuli/internal/azure/changes"
	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
	"github.com/lazuli-storage/lazuli/internal/azure/longpoll"
	"github.com/lazuli-storage/lazuli/internal/azure/properties"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/httpserver/inproc"
	"github.com/lazuli-storage/lazuli/internal/server/accounts"
	"github.com/lazuli-storage/lazuli/internal/server/analytics"
	"github.com/lazuli-storage/lazuli/internal/server/backup"
	"github.com/lazuli-storage/lazuli/internal/server/events"
	"github.com/lazuli-storage/lazuli/internal/service"
	"github.com/lazuli-storage/lazuli/internal/service/blobhost"
	"github.com/lazuli-storage/lazuli/internal/service/queuehost"
	"github.com/lazuli-storage/lazuli/internal/service/tablehost"
	state "github.com/lazuli-storage/lazuli/internal/state/blob"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/queuesvc"
	"github.com/lazuli-storage/lazuli/tablesvc"
)

// errNotOpen means that the services could not be opened again after their state was replaced.
var errNotOpen = errors.New("the services are not open")

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

// notOpen answers while the services are not open: before a node of a cluster has a majority.
func notOpen(w http.ResponseWriter, r *http.Request) {
	fail(w, r, wire.ErrServerBusy.WithMessage(
		"The server is starting, or waits for a majority of its cluster. Please retry your request."))
}

// fail answers a request that no service sees. It does not parse the request, whose account may not be known.
func fail(w http.ResponseWriter, r *http.Request, e *wire.Error) {
	w.Header()["x-ms-error-code"] = []string{e.Code}
	if e.Status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
	}
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(e.Status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(wire.NewXML(256).Open("Error").Text("Code", e.Code).Text("Message", e.Message).Close("Error").Bytes())
	}
}

// retryAfter is the number of seconds after which a client may try again.
const retryAfter = 1

// Transport carries requests to the services inside the process, at the addresses that [Server.URL] returns. It refuses
// other addresses.
func (s *Server) Transport() *inproc.Transport {
	t := &inproc.Transport{Handlers: make(map[string]http.Handler)}
	for _, srv := range s.listeners {
		u, err := url.Parse(s.URL(srv.service, ""))
		if err != nil {
			panic("server: an address of its own does not parse: " + err.Error())
		}
		t.Handlers[u.Host] = s.handler(srv.service)
	}
	return t
}

// Client returns a client that reaches the services inside the process, at the addresses of [Server.ConnectionString].
// It saves the connection, and nothing else: requests are authorized, counted and logged as those of other programs.
// Clients of the Azure SDK take it as their Transport.
func (s *Server) Client() *http.Client { return &http.Client{Transport: s.Transport()} }

// open opens the services on the data folder. ctx bounds the wait for other nodes of a cluster.
func (s *Server) open(ctx context.Context) (err error) {
	o := &services{board: longpoll.NewBoard(), placed: s.dir.Map(), opened: make(chan struct{})}
	for n := range s.dir.Shards() {
		o.shards = append(o.shards, &shard{Shard: s.dir.Shard(n)})
	}
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
	node := &eventNode{manager: &o.events, now: c.Now, logger: c.Log, changed: make(chan struct{}, 1)}
	if s.Clustered() {
		o.forward = s.newForwarder(nats, member)
		common.Forwarder = o.forward
	}
	if err := s.openServices(ctx, o, common, node); err != nil {
		return err
	}
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
			for _, of := range o.shards {
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
		o.recorder = common.Changes
		node.blobs, node.logs, node.changes = o.shards[0].blobs.State, o.eventLogs(), common.Changes
		node.start = func() (*events.Manager, error) {
			return events.Start(events.Config{Logs: node.logs, Blob: o.handler(wire.Blob), Queue: o.handler(wire.Queue),
				Changes: common.Changes, Hosts: c.EventHosts,
				HasAccount: func(name string) bool { return c.Accounts.Get(name) != nil }, ValidationURL: c.EventURL, Now: c.Now,
				Logger: c.Log})
		}
		if err := s.startEvents(o, node); err != nil {
			return fmt.Errorf("start the delivery of events: %w", err)
		}
	}
	if err := s.startAccounts(o); err != nil {
		return err
	}
	if s.Clustered() {
		var stores []*store.DB
		for _, sh := range o.shards {
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

// openers is the number of services that are opened at the same time: each waits for the disk most of the time.
const openers = 16

// openServices opens the services of all shards at the same time: each of them waits for the disk, and for an election
// on a node of a cluster. What was opened is in o, also after an error.
func (s *Server) openServices(ctx context.Context, o *services, common frontend.Common, node *eventNode) error {
	var g *errgroup.Group
	g, ctx = errgroup.WithContext(ctx)
	g.SetLimit(openers)
	for _, of := range o.shards {
		for _, svc := range []struct {
			name string
			open func() error
		}{
			{"Table", func() error { return s.openTables(ctx, o, of, common) }},
			{"Blob", func() error { return s.openBlobs(ctx, o, of, common, node) }},
			{"Queue", func() error { return s.openQueues(ctx, o, of, common) }},
		} {
			g.Go(func() error {
				if err := s.whenElected(ctx, svc.open); err != nil {
					return fmt.Errorf("start the %s service%s: %w", svc.name, of.suffix(), err)
				}
				return nil
			})
		}
	}
	// The closers are added here, not where each service is opened: the goroutines would race for the list. After an
	// error, the caller closes those that were opened.
	err := g.Wait()
	for _, of := range o.shards {
		if of.tables.Service != nil {
			o.closers = append(o.closers, of.tables.Close)
		}
		if of.blobs.Service != nil {
			o.closers = append(o.closers, of.blobs.Close)
		}
		if of.queues.Service != nil {
			o.closers = append(o.closers, of.queues.Close)
		}
	}
	return err
}

// features are the analytics settings of the service properties that may be turned on.
var features = properties.Features{Logging: true, Metrics: true}

func (s *Server) openTables(ctx context.Context, o *services, of *shard, common frontend.Common) error {
	options, err := s.tableOptions(ctx, o.nats, of.Log("tables"))
	if err != nil {
		return err
	}
	options.Archive = s.archiveOf("tables")
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
	cluster, err := s.blobCluster(ctx, o.nats, o.node, of.Log("blobs"))
	if err != nil {
		return err
	}
	config := &blobhost.Config{Common: common, Path: of.Blobs(), Extents: of.Extents(), Features: features,
		ScopeKeys: of.EncryptionScopes(), Changed: c.BlobChanged, Egress: c.CopySources,
		Relaxed: c.Relaxed && cluster == nil, Ephemeral: c.InMemory, LogEvents: c.Events, EventLogged: o.wakeEvents,
		Subscribed: node.Subscribed, AccountChanged: o.accountChanged(), Cluster: cluster, Archive: s.archiveOfBlobs(),
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
	svc, err := service.Open(blobsvc.New, config)
	if err == nil {
		of.blobs = blobs{svc, service.Get(svc)}
	}
	return err
}

func (s *Server) openQueues(ctx context.Context, o *services, of *shard, common frontend.Common) error {
	options, err := s.queueOptions(ctx, o.nats, of.Log("queues"))
	if err != nil {
		return err
	}
	options.Archive = s.archiveOf("queues")
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
	if o.accounts == nil {
		return nil
	}
	return o.accounts.Follow
}

// startAccounts makes the process serve the accounts of the data folder. Before it no request is served, so that none
// is answered as if they did not exist.
func (s *Server) startAccounts(o *services) error {
	records := state.NewAccountTable(o.shards[0].blobs.State.Database())
	if o.accounts == nil {
		return s.noteUnserved(o)
	}
	err := s.whenElected(context.Background(), func() error {
		return o.accounts.Start(accounts.Store{Records: records, Follows: s.sharesBlobs(), Contents: o.contents(),
			Namespace: func(account string) (hierarchical, known bool, err error) {
				return o.of(wire.Blob, account).blobs.State.Accounts.Namespace(account)
			},
			Claim:   o.shards[0].blobs.State.Membership.Claim,
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
	return &accounts.Services{Of: func(account string) accounts.Data {
		blobs := o.of(wire.Blob, account).blobs
		return accounts.Data{Records: state.NewAccountTable(blobs.State.Database()), Blobs: blobs.Service,
			Queues: o.of(wire.Queue, account).queues.Service, Tables: o.of(wire.Table, account).tables.Service,
			EventLog: blobs.State.EventLog()}
	}, Events: o.events.Load}
}

// noteUnserved says that the data folder has accounts that are not served.
func (s *Server) noteUnserved(o *services) error {
	// The view of a node may not be readable yet, and its peers say the same.
	if s.sharesBlobs() {
		return nil
	}
	list, err := state.NewAccountTable(o.shards[0].blobs.State.Database()).List("", "", 1)
	if err == nil && len(list) > 0 {
		s.config.Log.Warn("the data folder has accounts that were added while a server ran, and they are not served: set "+
			"managed-accounts to serve them", "first", list[0].Name)
	}
	return err
}

// archiveOf returns the archive of a database, nil without one.
func (s *Server) archiveOf(name string) store.Archive {
	a := s.archive()
	if a == nil {
		return nil
	}
	return a.Log(slices.Index(backup.Databases, name))
}

// attachArchive gives the archive the content of services that were just opened, before they serve a request.
func (s *Server) attachArchive(o *services) error {
	a := s.archive()
	if a == nil {
		return nil
	}
	// Closers run in the reverse order: the archive gets the last changes before the services are closed.
	o.closers = append(o.closers, func() error { a.Detach(context.Background()); return nil })
	return a.Attach(s.dir.EncryptionScopes())
}

// wakeEvents tells the delivery of events that an account has one.
func (o *services) wakeEvents(account string) {
	if m := o.events.Load(); m != nil {
		m.Wake(account)
	}
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
