package server

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lazuli-storage/lazuli/internal/azure/egress"
	"github.com/lazuli-storage/lazuli/internal/cluster/peering"
	"github.com/lazuli-storage/lazuli/internal/nats/natsserver"
	assembly "github.com/lazuli-storage/lazuli/internal/server"
)

// Config configures a [Server]. The zero value is not valid: exactly one of Location and InMemory is required.
type Config struct {
	// Location is the data folder; it is created if it does not exist.
	Location string
	// InMemory keeps no state after Stop: it is in files without names, on a temporary file system.
	InMemory bool
	// Relaxed acknowledges writes before they are synced. They survive a crash of the process, not of the machine.
	Relaxed bool

	// Blob, Queue and Table are the addresses to listen on, host:port. Empty is a free port on 127.0.0.1, and port 0 a
	// free port on that host.
	Blob, Queue, Table string
	// DataLake is the address of the dfs endpoint of the Blob service; "" does not listen. The Blob address serves it as
	// well, at host names of the form account.dfs.
	DataLake string
	// Services are the services that listen; nil is all three. [Server.Client] reaches all of them.
	Services []Service

	// Accounts are the storage accounts. Nil is the development account alone, whose key is public.
	Accounts []Account
	// ManagedAccounts allows [Server.AddAccount] and its like: accounts that are added and removed while the server runs,
	// beside Accounts, and kept in the data folder. Without it those of the folder are not served.
	ManagedAccounts bool
	// Issuers are the token issuers that are trusted, and Roles what their principals may do. Without an issuer, bearer
	// tokens and user delegation SAS are refused.
	Issuers []Issuer
	Roles   []Role

	// TLS serves https; nil serves http.
	TLS *tls.Config
	// RequireHTTPS refuses requests over plain HTTP, like an account that requires secure transfer.
	RequireHTTPS bool
	// CopySources are the hosts, other than the Blob service itself, from which it may fetch copy sources.
	CopySources Hosts
	// MaxConnections bounds the open connections of each service, and MaxRequests the requests that all services serve at
	// once; 0 is no limit. Beyond the limit the answer is 503 ServerBusy.
	MaxConnections, MaxRequests int
	// StrictVersion refuses values of x-ms-version that are not published.
	StrictVersion bool
	// PathStyle takes the account only from the path, whatever the host's name is.
	PathStyle bool
	// KeepAlive is the time for which an idle connection is kept; 0 is two minutes.
	KeepAlive time.Duration

	// NATS configures where the queues are kept.
	NATS NATS
	// Cluster makes the server a node of a cluster, whose folder is Location. Nil is a single server. While the node waits
	// for the others, requests are answered 503.
	Cluster *Cluster
	// Waiting, if set, is called with the reason while Start waits for other nodes of the cluster.
	Waiting func(reason string)

	// Now is the clock of all services; nil is time.Now.
	Now func() time.Time
	// Log is for messages that a person should see; nil is slog.Default().
	Log *slog.Logger
	// Observe, if set, is called for every request after its answer was written. It must not block.
	Observe func(Request)
	// Faults allows fault rules: [Server.AddFault], and the header by which a request asks for a fault of its own.
	Faults bool
	// Events allows event subscriptions: [Server.Subscribe]. EventHosts are the hosts of their webhooks.
	Events     bool
	EventHosts Hosts
	// Metrics, if set, is where the request counters are registered.
	Metrics prometheus.Registerer
}

// Service is one of the three storage services.
type Service string

// The services, by the names in their host names at Azure.
const (
	Blob  Service = "blob"
	Queue Service = "queue"
	Table Service = "table"
)

// Hosts are hosts that the server itself may call. The zero value allows none.
type Hosts struct {
	// Names are the names that may be called: "data.example.com", "*.example.com" for all names below one, with an
	// optional ":port"; without a port, 80 and 443. IP addresses are allowed only if they are listed themselves. "*" allows
	// every public host.
	Names []string
	// Private allows hosts of Names at private, loopback and link-local addresses as well.
	Private bool
	// ThisMachine allows "localhost" and loopback addresses, at every port, if Names is empty.
	ThisMachine bool
}

// policy validates the hosts. The error names the entry.
func (h Hosts) policy(field string) (egress.Policy, error) {
	p := egress.Policy{Hosts: h.Names, Private: h.Private, ThisMachine: h.ThisMachine}
	if err := p.Validate(); err != nil {
		return p, fmt.Errorf("%s: %w", field, err)
	}
	return p, nil
}

// NATS says where the queues are kept. The zero value is a NATS server inside the process, with its files in the data
// folder.
type NATS struct {
	// Listen opens the server in the process to NATS clients, such as the nats CLI, at host:port. If it is empty, no port
	// is opened. There is no authentication: use a loopback address.
	Listen string
	// URL is the address of an existing NATS server or cluster, several with commas between them, in place of the server
	// in the process.
	URL string
	// Credentials is the path of a NATS .creds file for URL; it may be empty. URL may contain user and password.
	Credentials string
	// CAFile, CertFile and KeyFile configure TLS to URL: the authority that signed the server's certificate, and the
	// client certificate with its key.
	CAFile, CertFile, KeyFile string
	// Monitors are the monitoring addresses of all servers of URL, http://host:port. With them, Start fails unless all
	// servers are known to sync each write.
	Monitors []string
	// Replicas is the number of servers of URL that keep each stream: 1 to 5, 0 means 1.
	Replicas int
	// Tables and Blobs keep the tables and the blobs at URL too. All servers with that URL share them.
	Tables, Blobs bool
}

func (n NATS) config() natsserver.Config {
	return natsserver.Config{Listen: n.Listen, URL: n.URL, Credentials: n.Credentials, CAFile: n.CAFile,
		CertFile: n.CertFile, KeyFile: n.KeyFile, Monitors: n.Monitors, Prove: len(n.Monitors) > 0, Replicas: n.Replicas}
}

// Cluster describes a node of a cluster and its peers.
type Cluster struct {
	// Node is the name of this node: lower-case letters, digits and hyphens, at most 32.
	Node string
	// Listen is the address for the connections of the other nodes, host:port.
	Listen string
	// Peers are the addresses of all nodes, 3 to 7 with this one, by their names.
	Peers map[string]string
	// SecretFile is a file with at least 32 characters that all nodes share. It authenticates the nodes, and encrypts
	// their connections unless CAFile is set.
	SecretFile string
	// CAFile, CertFile and KeyFile are PEM files for mutual TLS between the nodes: the authority, and this node's
	// certificate with its key. All or none are set.
	CAFile, CertFile, KeyFile string
}

func (c *Cluster) config(log *slog.Logger) (*peering.Config, error) {
	if c == nil {
		return nil, nil
	}
	p := &peering.Config{Node: c.Node, Listen: c.Listen, SecretFile: c.SecretFile, CAFile: c.CAFile,
		CertFile: c.CertFile, KeyFile: c.KeyFile, Log: log}
	for _, name := range sortedKeys(c.Peers) {
		p.Peers = append(p.Peers, peering.Peer{Name: name, Address: c.Peers[name]})
	}
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("Cluster: %w", err)
	}
	return p, nil
}

// assembly converts the configuration. Its errors name the field.
func (c *Config) assembly() (a assembly.Config, err error) {
	a = assembly.Config{Location: c.Location, InMemory: c.InMemory, Relaxed: c.Relaxed,
		Blob: c.Blob, Queue: c.Queue, Table: c.Table, DataLake: c.DataLake,
		TLS: c.TLS, RequireHTTPS: c.RequireHTTPS, MaxConnections: c.MaxConnections, MaxRequests: c.MaxRequests,
		StrictVersion: c.StrictVersion, PathStyle: c.PathStyle,
		BlobKeepAlive: c.KeepAlive, QueueKeepAlive: c.KeepAlive, TableKeepAlive: c.KeepAlive,
		NATS: c.NATS.config(), NATSTables: c.NATS.Tables, NATSBlobs: c.NATS.Blobs,
		Waiting: c.Waiting, Now: c.Now, Log: c.Log, Observe: observer(c.Observe),
		ManagedAccounts: c.ManagedAccounts, Faults: c.Faults, Events: c.Events, Metrics: c.Metrics}
	if c.NATS.URL == "" && (c.NATS.Tables || c.NATS.Blobs) {
		return a, fmt.Errorf("NATS: Tables and Blobs need a URL")
	}
	if a.Services, err = wireServices(c.Services); err != nil {
		return a, err
	}
	if a.Accounts, err = accounts(c.Accounts); err != nil {
		return a, err
	}
	if a.OAuth, err = oauth(c.Issuers, c.Roles); err != nil {
		return a, err
	}
	if a.CopySources, err = c.CopySources.policy("CopySources"); err != nil {
		return a, err
	}
	if a.EventHosts, err = c.EventHosts.policy("EventHosts"); err != nil {
		return a, err
	}
	a.Cluster, err = c.Cluster.config(c.Log)
	return a, err
}
