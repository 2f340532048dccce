package config

import (
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/accountprops"
	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/egress"
)

// Durability says when a write is acknowledged.
type Durability string

// The durabilities.
const (
	// Sync acknowledges a write once it is on disk: it survives a power failure.
	Sync Durability = "sync"
	// Relaxed acknowledges a write once the operating system has it: it survives the death of the process, but a power
	// failure may lose it and damage the data folder.
	Relaxed Durability = "relaxed"
)

// Endpoint is the place where a service listens.
type Endpoint struct {
	// Host is an IP address or a host name; "" for a service means Config.Host.
	Host string
	// Port is 0 to 65535; 0 picks a free port.
	Port int
	// KeepAlive is the time that an idle connection is kept; 0 means the server's default of two minutes.
	KeepAlive time.Duration
}

// Address is the endpoint in the form of net.Listen.
func (e Endpoint) Address() string { return net.JoinHostPort(e.Host, strconv.Itoa(e.Port)) }

// OAuth configures which bearer tokens are accepted and which roles their holders have. The zero value accepts none.
type OAuth struct {
	// Development accepts the tokens of the built-in issuer, which the admin listener serves without authentication.
	Development bool
	// Basic accepts tokens of Microsoft Entra ID without checking their signatures.
	Basic bool
	// Issuer is a token issuer, its iss claim. Keys is the address of its key set; "" finds it through the issuer's
	// .well-known/openid-configuration. Audiences are further audiences of its tokens.
	Issuer, Keys string
	Audiences    []string
	// Roles are the role assignments. Nil with Development gives everyone all rights for the development account.
	Roles []auth.Assignment
	// Groups are those that the tokens of Development name.
	Groups []Membership
}

// Backup is a schedule of backups. The zero value makes none.
type Backup struct {
	// To is the path of a folder or the URL of a container; Account is the connection string of its account, "" if the URL
	// has a SAS.
	To, Account string
	// Every is the interval; Keep and KeepFor say which backups are kept.
	Every   time.Duration
	Keep    int
	KeepFor time.Duration
	// HoldWrites makes the moment of a backup of a cluster one of all services; writes wait for it.
	HoldWrites bool
}

// Archive is an archive of the log. The zero value sends it nowhere.
type Archive struct {
	// To is the path of a folder or the URL of a container; Account is the connection string of its account, "" if the URL
	// has a SAS.
	To, Account string
	// StandbyOf is the place that a standby follows, and to which it sends its log once it was promoted; "" is no standby.
	StandbyOf string
	// KeyFile has the key with which the archive is encrypted; "" leaves it as it is.
	KeyFile string
	// Every is the interval of segments, Base that of bases, and Keep the time that stays reachable.
	Every, Base, Keep time.Duration
	// Fence refuses writes while the archive may belong to another server.
	Fence bool
	// SpoolMiB bounds what waits for the archive in the data folder, in MiB.
	SpoolMiB int
}

// Tier is an object store with content of blobs. With the zero value all content is in the data folder.
type Tier struct {
	// To is the path of a folder or the URL of a container; Account is the connection string of its account, "" if the URL
	// has a SAS.
	To, Account string
	// KeyFile has the key with which the objects are encrypted; "" leaves them as they are.
	KeyFile string
	// CacheMiB bounds the content on the disk of the data folder, in MiB.
	CacheMiB int
}

// NATS says which NATS keeps the queues.
type NATS struct {
	// Listen opens the embedded server to NATS clients at host:port, without authentication. "" opens no port.
	Listen string
	// URL names an existing server or cluster (several URLs, separated by commas) to use in place of the embedded one.
	URL string
	// Credentials is a .creds file for URL. CA, Cert and Key are PEM files for TLS to it.
	Credentials, CA, Cert, Key string
	// Monitors are the monitoring addresses of all servers of URL, which must say that they sync each write. Unproven
	// accepts servers that do not.
	Monitors []string
	Unproven bool
	// Services are the services whose data is on URL; nil is the queue service.
	Services []string
	// Replicas is the number of servers of the cluster that keep each stream, 1 to 5.
	Replicas int
}

// Config is the configuration of a server. [Default] has the defaults; the zero value is not valid.
type Config struct {
	// Location is the data folder. Relative paths start at the working directory.
	Location string
	// InMemory keeps nothing beyond the process's life: data is in unnamed temporary files. Location is not used.
	InMemory bool
	// Durability is the time at which a write is acknowledged. It does not matter with InMemory.
	Durability Durability
	// Shards is the number of shards of the data folder, which is fixed when it is made; 0 is what the folder has, and one
	// for a new folder.
	Shards int

	// Services are the names of the services that are served; nil is all three.
	Services []string
	// Host is the address that the services listen on unless their endpoint has one.
	Host string
	// Blob, Queue and Table are the services' listeners.
	Blob, Queue, Table Endpoint
	// DataLake is the dfs endpoint, which is served if ServeDataLake is set or an account has a hierarchical namespace.
	DataLake      Endpoint
	ServeDataLake bool
	// Admin is the listener of health checks, metrics, profiles and the dashboard; see GuardAdmin.
	Admin Endpoint
	// AdminToken holds what callers of the admin listener have to bring, except for health checks, metrics and the token
	// issuer. "" for none, or a random one.
	AdminToken string
	// NoAdmin opens no admin listener.
	NoAdmin bool
	// AllowHosts are the host names that the admin listener accepts, in addition to IP addresses and localhost.
	AllowHosts []string
	// AdminUI is "on", "off", "read-only" or "auto", which is on where the admin listener has a loopback address.
	AdminUI string
	// FunctionHosts are the addresses, host:port, of the function apps that the dashboard shows.
	FunctionHosts []string
	// Faults allows fault rules, see package faultrule.
	Faults bool
	// AdminState lets the admin listener reset, copy and restore all data.
	AdminState bool
	// Backup makes backups on a schedule.
	Backup Backup
	// Archive sends the log to a place.
	Archive Archive
	// Tier keeps content in an object store.
	Tier Tier
	// BackupToken opens backups through the admin listener, and nothing else. "" for none.
	BackupToken string
	// TestClock runs the services on a clock that the admin listener sets forward. It needs InMemory.
	TestClock bool
	// Seed is a file with tables, queues and containers to be made at the start where they are missing. "" for none.
	Seed string
	// Pprof adds Go's profiles to the admin listener.
	Pprof bool

	// Accounts are the storage accounts, at least one.
	Accounts []auth.Account
	// AccountsFile has the accounts instead of Accounts, and is reloaded when it changes. "" for none.
	AccountsFile string
	// ManagedAccounts lets accounts be added, changed and removed while the server runs, and kept in the data folder.
	ManagedAccounts bool
	// StrictVersion refuses requests whose x-ms-version is not a published service version. Otherwise unknown versions
	// are treated as the newest known one.
	StrictVersion bool
	// PathStyle takes the account from the path alone. Otherwise a host name such as account.blob.localhost gives it too.
	PathStyle bool

	// BlobSettings are the default settings of accounts.
	BlobSettings accountprops.Blob

	// Cert and Key are PEM files with a certificate and its key: the services speak https then. "" for http.
	Cert, Key string
	// Password is that of Cert, where it is a PFX file, which has the key too.
	Password string
	// RequireHTTPS refuses requests over plain http.
	RequireHTTPS bool
	// OAuth says whose bearer tokens are believed.
	OAuth OAuth

	// CopySources are from where copies may be fetched, see [egress.Policy]; the zero value is nowhere but this process.
	CopySources egress.Policy

	// Events allows event subscriptions, EventHosts are the hosts of their webhooks.
	Events     bool
	EventHosts egress.Policy

	// MaxConnections bounds the open connections of each service, MaxRequests the requests that all services serve at
	// once; 0 is no limit.
	MaxConnections, MaxRequests int

	// NATS keeps the queues.
	NATS NATS
	// Cluster makes the server a node of a cluster.
	Cluster Cluster

	// Roles are the built-in worker roles.
	Roles Roles
	// Durable serves workflows.
	Durable Durable

	// ShutdownTimeout bounds how long running requests may take once the process is asked to stop.
	ShutdownTimeout time.Duration
	// Silent prints nothing but errors, and the addresses of services whose port was to be picked.
	Silent bool
	// LogLevel is the minimum log level.
	LogLevel slog.Level
	// LogFormat is "text" or "json".
	LogFormat string
	// LogFile takes the log in place of standard error; it is appended to. "" is standard error.
	LogFile string
}

// DefaultLocation is the default of Config.Location.
const DefaultLocation = "lazuli-data"

// Default returns the default configuration.
func Default() Config {
	return Config{
		Location:   DefaultLocation,
		Durability: Sync,
		Host:       "127.0.0.1",
		Blob:       Endpoint{Port: 10000},
		Queue:      Endpoint{Port: 10001},
		Table:      Endpoint{Port: 10002},
		DataLake:   Endpoint{Port: 10004},
		Admin:      Endpoint{Host: "127.0.0.1", Port: 10003},
		AdminUI:    "auto",
		// The port of lazuli func start and of the Core Tools.
		FunctionHosts: []string{"127.0.0.1:7071"},
		Accounts:      []auth.Account{{Name: auth.DevelopmentAccount, Keys: []auth.Key{developmentKey()}}},
		NATS:          NATS{Replicas: 1},
		Backup:        Backup{Every: 24 * time.Hour, Keep: 7},
		Archive: Archive{Every: 10 * time.Second, Base: 24 * time.Hour, Keep: 7 * 24 * time.Hour,
			SpoolMiB: 4096},
		Tier:    Tier{CacheMiB: 10 << 10},
		Roles:   defaultRoles(),
		Durable: Durable{Listen: "127.0.0.1:4001", Hub: "default"},
		// Below the ten seconds after which `docker stop` kills.
		ShutdownTimeout: 8 * time.Second,
		LogLevel:        slog.LevelInfo,
		LogFormat:       "text",
	}
}

// Tables reports whether tables are on the external server.
func (n *NATS) Tables() bool { return slices.Contains(n.Services, "table") }

// Blobs reports whether blobs are on the external server.
func (n *NATS) Blobs() bool { return slices.Contains(n.Services, "blob") }

func developmentKey() auth.Key {
	key, err := auth.ParseKey(auth.DevelopmentKey)
	if err != nil {
		panic("config: the development key does not parse: " + err.Error())
	}
	return key
}

// published reports whether all that is served is the development account with its published key: there is nothing
// that a token could open and that key could not.
func (c *Config) published() bool { return !c.ManagedAccounts && c.developmentAlone() }

// developmentAlone reports whether the only configured account is the development account with its published key.
func (c *Config) developmentAlone() bool {
	if c.AccountsFile != "" || len(c.Accounts) != 1 || c.Accounts[0].Name != auth.DevelopmentAccount {
		return false
	}
	// A second key of the same account is secret, if it is not the published one.
	return !slices.ContainsFunc(c.Accounts[0].Keys, func(k auth.Key) bool { return !k.Equal(developmentKey()) })
}

// allServices are the names of the services.
var allServices = []string{"blob", "queue", "table"}

// Serves reports whether a service, by its name, has a listener.
func (c *Config) Serves(service string) bool {
	if service == "dfs" { // an endpoint of the Blob service, at its host unless another was set
		return c.ServeDataLake && c.Serves("blob")
	}
	// None named is all: Services is nil in the default configuration.
	return len(c.Services) == 0 || slices.Contains(c.Services, service)
}

// PFX reports whether Cert is a PFX file.
func (c *Config) PFX() bool {
	// By its name or by the password: the content is not read before the server starts.
	ext := strings.ToLower(filepath.Ext(c.Cert))
	return c.Cert != "" && (c.Password != "" || ext == ".pfx" || ext == ".p12")
}
