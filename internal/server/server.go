package server

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/faultrule"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/cluster"
	"github.com/lazuli-storage/lazuli/internal/nats/natsserver"
	"github.com/lazuli-storage/lazuli/internal/sdk/connstr"
	"github.com/lazuli-storage/lazuli/internal/server/archive"
	"github.com/lazuli-storage/lazuli/internal/server/events"
	"github.com/lazuli-storage/lazuli/internal/server/observe"
	"github.com/lazuli-storage/lazuli/internal/storage/datadir"
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
	member   atomic.Pointer[cluster.Node] // nil for a single server, and until a node has joined
	exchange sync.Mutex                   // held while the services are closed and opened

	standby   *standby           // nil unless the server was started as a standby
	unfollow  context.CancelFunc // ends keepFollowing; nil for a single server
	following sync.WaitGroup

	unserve func(context.Context) // ends what inproc.Serve has begun
	unwatch func()                // ends the calls of writeOut; nil until the server is ready

	stopping context.Context // ends when Stop begins
	cancel   context.CancelFunc
	moments  sync.RWMutex // read-locked by each moment that is open

	ready atomic.Bool
	stop  sync.Once
	err   error
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

// errNotOpen means that the services could not be opened again after their state was replaced.
var errNotOpen = errors.New("the services are not open")

// standby is the part of a server that follows the archive of another one; see [archive.Follower].
type standby struct {
	*archive.Follower
	nats *natsserver.Server // without a log: the queues of a standby are a file

	cancel   context.CancelFunc
	running  sync.WaitGroup
	turn     sync.Mutex    // held by a step, and by a promotion
	ended    atomic.Bool   // the files are those of a single server
	promoted chan struct{} // closed once that serves, with its archive
}

// isStandby reports whether the server is a standby. Its services are read-only.
func (s *Server) isStandby() bool {
	return s.standby != nil && !s.standby.ended.Load()
}

// archive returns the archive to which the server writes, nil without one.
func (s *Server) archive() *archive.Archive {
	if s.isStandby() {
		return nil
	}
	return s.config.Archive
}

// now is the clock of the services: on a node of a cluster the time of the cluster, which one wrong clock does not
// change.
func (s *Server) now() time.Time {
	if node := s.member.Load(); node != nil {
		return node.Now()
	}
	return s.config.Now()
}

// sharesTables reports whether the tables are a view of a replicated log.
func (s *Server) sharesTables() bool { return s.config.Cluster != nil || s.config.NATSTables }

// sharesBlobs reports whether the metadata of blobs are one.
func (s *Server) sharesBlobs() bool { return s.config.Cluster != nil || s.config.NATSBlobs }

// sharesQueues reports whether other processes have a view of the queues' log as well.
func (s *Server) sharesQueues() bool { return s.config.Cluster != nil || s.config.NATS.URL != "" }

// Replicated reports whether the state of a service is a view of a log that other processes have as well: requests are
// answered 503 while its leader is elected.
func (s *Server) Replicated() bool { return s.sharesTables() || s.sharesBlobs() || s.sharesQueues() }

// Clustered reports whether the server is a node of a cluster.
func (s *Server) Clustered() bool { return s.config.Cluster != nil }
