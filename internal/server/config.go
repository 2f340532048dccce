package server

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/egress"
	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/cluster/peering"
	"github.com/lazuli-storage/lazuli/internal/nats/natsserver"
	"github.com/lazuli-storage/lazuli/internal/server/archive"
	"github.com/lazuli-storage/lazuli/internal/storage/shardmap"
	"github.com/lazuli-storage/lazuli/internal/storage/tier"
)

// Config configures a [Server]. The zero value is not valid: one of Location and InMemory is required.
type Config struct {
	// Location is the data folder; it is created if it does not exist.
	Location string
	// InMemory keeps no state after Stop: it is in files without names, on a temporary file system.
	InMemory bool
	// Relaxed acknowledges writes before they are synced. They survive a crash of the process, not of the machine.
	Relaxed bool

	// Shards is the number of shards of a new data folder; 0 is the number that the folder has, and 1 for a new one. It is
	// fixed when the folder is made: an existing folder with another number is refused.
	Shards int

	// Blob, Queue and Table are the addresses to listen on, host:port. Empty is a free port on 127.0.0.1, and port 0
	// a free port on that host.
	Blob, Queue, Table string
	// DataLake is the address of the dfs endpoint of the Blob service; "" does not listen. The Blob address serves it as
	// well, at host names of the form account.dfs.
	DataLake string
	// Services are the services that listen; nil is all three. The in-process transport reaches all of them.
	Services []wire.Service

	// Accounts are the accounts, with their settings. Nil is only the development account.
	Accounts *auth.Accounts
	// ManagedAccounts allows [Server.AccountManager]: accounts that are added, changed and removed while the server runs,
	// and kept in the data folder. Without it those of the folder are not served.
	ManagedAccounts bool
	// AccountGrace is the time after its removal for which the name of such an account is not free; 0 is a minute.
	AccountGrace time.Duration
	// OAuth checks bearer tokens and user delegation SAS. Nil refuses both.
	OAuth *auth.OAuth
	// TLS serves https; nil serves http.
	TLS *tls.Config
	// RequireHTTPS refuses requests over plain HTTP, like an account that requires secure transfer.
	RequireHTTPS bool
	// CopySources are the hosts, other than the Blob service itself, from which it may fetch copy sources; the zero value
	// allows none of them.
	CopySources egress.Policy
	// MaxConnections bounds the open connections of each service, and MaxRequests the requests that all services
	// serve at once; 0 is no limit. Beyond the limit the answer is 503 ServerBusy.
	MaxConnections, MaxRequests int
	// StrictVersion refuses values of x-ms-version that are not published.
	StrictVersion bool
	// PathStyle takes the account only from the path, whatever the host's name is.
	PathStyle bool
	// KeepAlive is the time that an idle connection is kept, for each service; 0 is two minutes.
	BlobKeepAlive, QueueKeepAlive, TableKeepAlive time.Duration

	// NATS configures the storage of queues. Its Dir, Relaxed and Log are set from the fields here; a URL names an
	// existing NATS server in place of the embedded one.
	NATS natsserver.Config

	// NATSTables keeps the tables on the NATS server of NATS.URL as well, as a replicated log of which each server has a
	// view in its data folder. All stacks with that server share the tables.
	NATSTables bool
	// NATSBlobs keeps the blobs there: their metadata as a replicated log, and their content in streams. All stacks with
	// that server share them.
	NATSBlobs bool

	// Cluster makes the server a node of a cluster, whose folder is in Location. Nil is a single server. While the node
	// waits for the others, requests are answered 503.
	Cluster *peering.Config
	// Waiting, if set, is called with the reason while Start waits for other nodes of the cluster.
	Waiting func(reason string)

	// FreeSpace returns the free bytes of the disk that a folder is on; nil asks the operating system. For tests.
	FreeSpace func(dir string) (int64, error)

	// Now is the clock of all services; nil is time.Now.
	Now func() time.Time
	// ClientsNow is the clock of the clients, if it is not Now: clients put dates into signatures, which must be close to
	// the clock.
	ClientsNow func() time.Time
	// Log is for messages that a person should see; nil is slog.Default().
	Log *slog.Logger
	// Observe, if set, is called for every request after its answer was written.
	Observe func(*wire.Request, frontend.Outcome)
	// BlobChanged, if set, is called for every blob that was written, see [blobsvc.Config].
	BlobChanged func(account, container, blob string)
	// Faults allows fault rules: [Server.Faults], and the header by which a request asks for a fault of its own.
	Faults bool
	// Events allows event subscriptions: [Server.Events]. EventHosts are the hosts of their webhooks, and EventURL returns
	// the address at which a person confirms a subscription; see [events.Config].
	Events     bool
	EventHosts egress.Policy
	EventURL   func(account, name, code string) string
	// Archive gets the logs of a server with a data folder, alone or as a node of a cluster, whose nodes all have one with
	// the same place; nil sends them nowhere. The server opens and closes it; the caller runs it, see
	// [archive.Archive.Run].
	Archive *archive.Archive
	// Tier has content of blobs that is not in the data folder any more; with nil all of it is there. It needs a data
	// folder, whose shards divide its bound. The nodes of a cluster share the store. Dir and Log are set by Start.
	Tier *tier.Options
	// Standby makes the server a standby, read-only, until [Server.Promote]; Archive is opened then. Nil is no standby. It
	// needs an empty data folder, or that of a standby, and waits for the first moment as a node of a cluster for its
	// majority.
	Standby *archive.Follower
	// Metrics, if set, is where the request counters are registered.
	Metrics prometheus.Registerer
}

// ErrPortTaken means that another process listens on the address. The error that wraps it names the address.
var ErrPortTaken = errors.New("address is already in use")

func (c *Config) validate() error {
	if (c.Location == "") != c.InMemory {
		return errors.New("exactly one of Location and InMemory must be given")
	}
	if err := c.checkShards(); err != nil {
		return err
	}
	if err := c.checkSpread(); err != nil {
		return err
	}
	// The error of a listener would name the address, and not the field that has it.
	for _, a := range []struct{ name, addr string }{{"Blob", c.Blob}, {"Queue", c.Queue}, {"Table", c.Table},
		{"DataLake", c.DataLake}} {
		if a.addr == "" {
			continue
		}
		_, port, err := net.SplitHostPort(a.addr)
		if err != nil {
			return fmt.Errorf("%s address: %w", a.name, err)
		}
		if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
			return fmt.Errorf("%s address %q: the port must be a number from 0 to 65535", a.name, a.addr)
		}
	}
	if c.Accounts == nil {
		c.Accounts = auth.Development()
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	return nil
}

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
	case c.NATS.URL != "":
		what = "an external NATS server"
	case c.Standby != nil:
		what = "a standby"
	case c.Archive != nil && c.Cluster != nil && c.Archive.FenceName() != "":
		what = "an archive of the log of a cluster with a fence"
	default:
		return nil
	}
	return fmt.Errorf("%s %w: leave the number of shards at 1, or use a single server or a cluster, with data folders",
		what, ErrOneShard)
}

// ErrSpread means that something needs a node that has all shards. The error that wraps it names it.
var ErrSpread = errors.New("needs nodes that have all shards")

// checkSpread refuses what would need all shards on each node.
func (c *Config) checkSpread() error {
	what := ""
	switch {
	case !c.spread():
		return nil
	case c.Faults: // the rules of a node would not hold for the requests that it passes on
		what = "fault rules"
	case c.Archive != nil:
		what = "an archive of the log"
	default:
		return nil
	}
	return fmt.Errorf("%s %w: leave that out, or start the cluster without a number of copies", what, ErrSpread)
}

// spread reports whether the server is a node with a part of the shards.
func (c *Config) spread() bool { return c.Cluster != nil && c.Cluster.Copies > 0 }

// FolderError is the error for a data folder of another kind of server: of a node of a cluster, or of a single server.
type FolderError struct{ text string }

func (e *FolderError) Error() string { return e.text }

func folderError(format string, args ...any) error { return &FolderError{fmt.Sprintf(format, args...)} }
