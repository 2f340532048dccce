package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/faultrule"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/cluster"
	"github.com/lazuli-storage/lazuli/internal/httpserver"
	"github.com/lazuli-storage/lazuli/internal/httpserver/inproc"
	"github.com/lazuli-storage/lazuli/internal/nats/natsserver"
	"github.com/lazuli-storage/lazuli/internal/sdk/connstr"
	"github.com/lazuli-storage/lazuli/internal/server/archive"
	"github.com/lazuli-storage/lazuli/internal/server/events"
	"github.com/lazuli-storage/lazuli/internal/server/observe"
	"github.com/lazuli-storage/lazuli/internal/storage/datadir"
	"github.com/lazuli-storage/lazuli/internal/storage/disk"
	"github.com/lazuli-storage/lazuli/internal/storage/diskspace"
)

// Server is a running Lazuli. Its methods are safe for concurrent use.
type Server struct {
	config    Config
	dir       *datadir.Dir
	listeners listeners
	started   time.Time
	metrics   *observe.Metrics // nil without Config.Metrics
	faults    *faultrule.Set   // nil without Config.Faults
	space     *diskspace.Guard // nil without a data folder that is kept

	gate     *gate
	services atomic.Pointer[services]     // nil if they could not be opened again
	member   atomic.Pointer[cluster.Node] // nil for a server alone, and until a node has joined
	exchange sync.Mutex                   // held while the services are closed and opened

	standby   *standby           // nil unless the server was started as a standby
	unfollow  context.CancelFunc // ends keepFollowing; nil for a server alone
	following sync.WaitGroup

	unserve func(context.Context) // ends what inproc.Serve has begun

	stopping context.Context // ends when Stop begins
	cancel   context.CancelFunc
	moments  sync.RWMutex // read-locked by each moment that is open

	ready atomic.Bool
	stop  sync.Once
	err   error
}

// listener serves one service at its address.
type listener struct {
	service wire.Service
	flag    string // the flag that sets its port, for error messages
	addr    string
	idle    time.Duration
	l       net.Listener
	http    *http.Server
	done    chan struct{}
}

// Start is [StartContext] without a time limit.
func Start(c Config) (*Server, error) { return StartContext(context.Background(), c) }

// StartContext opens the state and serves. It returns when all services answer. After an error nothing is left running.
// ctx bounds the wait for other nodes of a cluster.
func StartContext(ctx context.Context, c Config) (_ *Server, err error) {
	if err := c.validate(); err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	s := &Server{config: c, started: c.Now(), gate: newGate()}
	s.stopping, s.cancel = context.WithCancel(context.Background())
	if c.Metrics != nil {
		s.metrics = observe.NewMetrics(c.Metrics)
		c.Metrics.MustRegister(damageCollector{s}, &usageCollector{s: s})
	}
	if c.Faults {
		s.faults = faultrule.NewSet(operationNames(), c.Now)
	}
	defer func() {
		if err != nil {
			_ = s.Stop(context.Background())
		}
	}()
	// Listen first, so that a second Lazuli reports the port in use before it waits for anything else.
	if s.listeners, err = listenAll(c); err != nil {
		return nil, err
	}
	if c.InMemory {
		s.dir, err = datadir.OpenTemp("")
	} else {
		s.dir, err = datadir.OpenShards(c.Location, c.Shards)
	}
	if err != nil {
		return nil, err
	}
	if !c.InMemory {
		s.space = diskspace.Open(s.dir.Path(), diskspace.Options{Log: c.Log, Free: c.FreeSpace})
	}
	// The files have times of the system's clock, whatever clock the services have.
	if ahead := s.dir.Ahead(time.Now()); ahead > 0 {
		c.Log.Warn("the data folder was written by a clock that was ahead of this one: what has a time, such as an "+
			"expiry or the end of a retention, may last longer by as much; if this clock is behind, set it before clients write",
			"ahead", ahead.Round(time.Second).String())
	}
	if err := s.checkFolder(); err != nil {
		return nil, err
	}
	// What the folder has, where the configuration leaves that open.
	s.config.Shards = s.dir.Shards()
	if err := s.config.checkShards(); err != nil {
		return nil, fmt.Errorf("data folder %s has %d shards: %w", s.dir.Path(), s.dir.Shards(), err)
	}
	if is, err := archive.IsStandby(s.dir); err != nil || is && c.Standby == nil {
		return nil, cmp.Or(err, errors.New("the data folder is that of a standby: start it with --standby-of, and promote "+
			"it with `lazuli standby promote` to make it the server"))
	}
	if c.Archive != nil && c.Standby == nil {
		if c.InMemory || c.Cluster != nil || c.NATS.URL != "" {
			return nil, errors.New("an archive needs a server alone with all of its state in Location")
		}
		if err := c.Archive.Open(s.dir.Archive()); err != nil {
			return nil, err
		}
	}
	serve := func() {
		for _, srv := range s.listeners {
			srv.serve(s.handler(srv.service), c)
		}
	}
	if c.Metrics != nil && s.Replicated() {
		c.Metrics.MustRegister(logMetrics{s})
	}
	if c.Cluster != nil {
		if c.Metrics != nil {
			c.Metrics.MustRegister(clusterMetrics{s})
		}
		serve() // clients are answered 503 while the node waits for the others
	}
	if c.Standby != nil {
		serve() // 503 until there is something to read
		if err := s.startStandby(ctx); err != nil {
			return nil, err
		}
	}
	if err := s.open(ctx); err != nil {
		return nil, err
	}
	// A server alone has listened since the beginning. The system has kept the connections of its clients until now.
	if c.Cluster == nil && c.Standby == nil {
		serve()
	}
	s.unserve = inproc.Serve(s.Transport().Handlers)
	s.ready.Store(true)
	if s.isStandby() {
		var follow context.Context
		follow, s.standby.cancel = context.WithCancel(context.Background())
		s.standby.running.Go(func() { s.follow(follow) })
	}
	if s.Replicated() {
		follow, cancel := context.WithCancel(context.Background())
		s.unfollow = cancel
		s.following.Go(func() { s.keepFollowing(follow) })
	}
	return s, nil
}

// listeners serve the services of a process.
type listeners []*listener

// listenAll opens the addresses of the services that are served. After an error it has closed them.
func listenAll(c Config) (list listeners, err error) {
	list = listeners{
		{service: wire.Blob, flag: "--blob-port", addr: c.Blob, idle: c.BlobKeepAlive},
		{service: wire.Queue, flag: "--queue-port", addr: c.Queue, idle: c.QueueKeepAlive},
		{service: wire.Table, flag: "--table-port", addr: c.Table, idle: c.TableKeepAlive},
	}
	list = slices.DeleteFunc(list,
		func(srv *listener) bool { return c.Services != nil && !slices.Contains(c.Services, srv.service) })
	if c.DataLake != "" && (c.Services == nil || slices.Contains(c.Services, wire.Blob)) {
		list = append(list, &listener{service: wire.DataLake, flag: "--dfs-port", addr: c.DataLake,
			idle: c.BlobKeepAlive})
	}
	for _, srv := range list {
		if err := srv.listen(); err != nil {
			list.shutdownAll(context.Background())
			return nil, err
		}
	}
	return list, nil
}

// shutdownAll stops all of them: it waits for requests under way until ctx ends.
func (l listeners) shutdownAll(ctx context.Context) {
	var wait sync.WaitGroup
	for _, srv := range l {
		wait.Go(func() { srv.shutdown(ctx) })
	}
	wait.Wait()
}

// addressOf returns the address of a service, "" for one that does not listen.
func (l listeners) addressOf(svc wire.Service) string {
	for _, srv := range l {
		if srv.service == svc {
			return srv.l.Addr().String()
		}
	}
	return ""
}

// endpointOf returns an account's endpoint of a service, "" for one that does not listen. A wildcard address is shown
// as the loopback address.
func (l listeners) endpointOf(svc wire.Service, account string, encrypted bool) string {
	host, port, err := net.SplitHostPort(l.addressOf(svc))
	if err != nil {
		return ""
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	scheme := "http"
	if encrypted {
		scheme = "https"
	}
	return scheme + "://" + net.JoinHostPort(host, port) + "/" + account
}

func (srv *listener) listen() error {
	addr := srv.addr
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	l, err := net.Listen("tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("the %s service cannot listen on %s: %w; stop what uses it, or choose another port with %s",
			srv.service, addr, ErrPortTaken, srv.flag)
	}
	if err != nil {
		return fmt.Errorf("the %s service cannot listen on %s: %w", srv.service, addr, err)
	}
	srv.l = l
	return nil
}

// openConns are the connections of all services of the process. Half of the files that it may open are for the data.
var openConns = httpserver.NewConns(disk.OpenFiles() / 2)

func (srv *listener) serve(h http.Handler, c Config) {
	srv.http = httpserver.New(h, c.Log, srv.idle)
	srv.done = make(chan struct{})
	o := httpserver.Options{MaxConns: c.MaxConnections, Conns: openConns, TLS: c.TLS}
	go func() {
		defer close(srv.done)
		if err := httpserver.Serve(srv.http, srv.l, o); !errors.Is(err, http.ErrServerClosed) {
			c.Log.Error("listener failed", "service", srv.service.String(), "err", err)
		}
	}()
}

func (srv *listener) shutdown(ctx context.Context) {
	switch {
	case srv.http != nil:
		if srv.http.Shutdown(ctx) != nil {
			_ = srv.http.Close()
		}
		<-srv.done
	case srv.l != nil:
		_ = srv.l.Close()
	}
}

// Stop waits for requests under way until ctx is done, then ends them, and closes the state. Another call returns the
// first call's error.
func (s *Server) Stop(ctx context.Context) error {
	s.stop.Do(func() {
		s.ready.Store(false)
		s.cancel()
		s.moments.Lock() // waits for the moments; none begins after it
		//lint:ignore SA2001 nothing is to be done meanwhile
		s.moments.Unlock()
		// The exchange is not locked yet: rejoin holds that lock, and this waits for it.
		if s.unfollow != nil {
			s.unfollow()
			s.following.Wait()
		}
		s.stopStandby()
		s.exchange.Lock()
		defer s.exchange.Unlock()
		open := s.services.Load()
		if open != nil {
			open.board.Close() // requests that wait for changes would delay the stop
		}
		var wait sync.WaitGroup
		wait.Go(func() { s.listeners.shutdownAll(ctx) })
		if s.unserve != nil {
			wait.Go(func() { s.unserve(ctx) })
		}
		wait.Wait()
		if open != nil {
			s.err = open.close()
		}
		if s.isStandby() && s.standby.nats != nil {
			s.standby.nats.Close()
		}
		if s.config.Archive != nil {
			s.err = errors.Join(s.err, s.config.Archive.Close())
		}
		s.space.Close()
		if s.dir != nil {
			s.err = errors.Join(s.err, s.dir.Close())
		}
	})
	return s.err
}

// ClockChanged wakes the requests that wait for changes, after Config.Now has jumped: messages may have become visible.
func (s *Server) ClockChanged() {
	if open := s.services.Load(); open != nil {
		open.board.TouchAll()
		open.wakeEvents("")
	}
}

// Events delivers the events of storage accounts; nil if [Config] does not allow it, and while the services are closed.
func (s *Server) Events() *events.Manager {
	if open := s.services.Load(); open != nil {
		return open.events.Load()
	}
	return nil
}

// ConnectionStringOf returns the connection string of an account in Config.Accounts.
func (s *Server) ConnectionStringOf(account, key string) string {
	return connstr.Settings{Account: account, Key: connstr.NewSecret(key), BlobEndpoint: s.URL(wire.Blob, account),
		QueueEndpoint: s.URL(wire.Queue, account), TableEndpoint: s.URL(wire.Table, account),
		DFSEndpoint: s.URL(wire.DataLake, account)}.Reveal()
}

// Ready returns nil while the server serves everything, otherwise the reason why it does not.
func (s *Server) Ready() error {
	switch {
	case !s.ready.Load():
		return errors.New("stopping")
	case s.services.Load() == nil:
		return errNotOpen
	case s.Clustered() && errors.Is(s.services.Load().nats.Failed(), natsserver.ErrNoRoom):
		return natsserver.ErrNoRoom
	case s.space.Full():
		return ErrDiskFull
	}
	if a := s.archive(); a != nil {
		if err := a.Allow(); err != nil {
			return err
		}
	}
	if err := s.space.Failing(); err != nil {
		return fmt.Errorf("the disk of the data folder refuses writes: %w", err)
	}
	open := s.services.Load()
	problems := []error{open.nats.Healthy()}
	for _, of := range open.shards {
		problems = append(problems, of.tables.Ready(), of.blobs.Ready(), of.queues.Ready())
	}
	return errors.Join(append(problems, open.logsReady())...)
}

// ErrDiskFull is why a server that serves reads and deletes is not ready.
var ErrDiskFull = errors.New("the disk of the data folder is full; only reads and deletes are served")

// Faults returns the rules by which requests fail on purpose, nil if [Config] does not allow them.
func (s *Server) Faults() *faultrule.Set { return s.faults }

// Path returns the data folder.
func (s *Server) Path() string { return s.dir.Path() }

// Shards is the number of shards.
func (s *Server) Shards() int { return s.dir.Shards() }

// Addr returns the address that a service listens on, host:port; "" for a service that does not listen.
func (s *Server) Addr(svc wire.Service) string { return s.listeners.addressOf(svc) }

// URL returns an account's endpoint of a service, "http://127.0.0.1:10000/devstoreaccount1"; "" for a service that does
// not listen. A wildcard address is shown as the loopback address.
func (s *Server) URL(svc wire.Service, account string) string {
	return s.listeners.endpointOf(svc, account, s.config.TLS != nil)
}

// ConnectionString returns the connection string of the development account, whose key is public.
func (s *Server) ConnectionString() string {
	return s.ConnectionStringOf(auth.DevelopmentAccount, auth.DevelopmentKey)
}

// hosts are the host names of the services inside the process.
var hosts = map[wire.Service]string{wire.Blob: "blob.inprocess", wire.DataLake: "dfs.inprocess",
	wire.Queue: "queue.inprocess", wire.Table: "table.inprocess"}

// InProcess carries requests to the services without a connection, at the addresses of [Server.InProcessURL]. It trusts
// its caller: requests need no credential, may do everything, and are neither counted nor logged.
func (s *Server) InProcess() http.RoundTripper {
	t := &inproc.Transport{Handlers: map[string]http.Handler{}}
	for svc, host := range hosts {
		t.Handlers[host] = s.handler(svc)
	}
	return asSystem{t}
}

// InProcessURL returns an account's endpoint of a service for [Server.InProcess].
func (s *Server) InProcessURL(svc wire.Service, account string) string {
	return "http://" + hosts[svc] + "/" + account
}

// asSystem marks requests as requests of the server itself.
type asSystem struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t asSystem) RoundTrip(r *http.Request) (*http.Response, error) {
	return t.next.RoundTrip(r.WithContext(wire.WithSystem(r.Context())))
}
