package config

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/accountprops"
	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/egress"
	"github.com/lazuli-storage/lazuli/internal/exposure"
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
		Roles:   defaultRoles(),
		Durable: Durable{Listen: "127.0.0.1:4001", Hub: "default"},
		// Below the ten seconds after which `docker stop` kills.
		ShutdownTimeout: 8 * time.Second,
		LogLevel:        slog.LevelInfo,
		LogFormat:       "text",
	}
}

// complete fills in what is derived: the services' hosts.
func (c *Config) complete() {
	for _, e := range []*Endpoint{&c.Blob, &c.Queue, &c.Table} {
		if e.Host == "" {
			e.Host = c.Host
		}
	}
	if c.DataLake.Host == "" {
		c.DataLake.Host = c.Blob.Host
	}
	// Who subscribes is on this machine then, and can call its other programs without Lazuli.
	c.EventHosts.ThisMachine = c.reachable() == "" && exposure.Local(c.Admin.Host)
}

// validate finds the first thing that is wrong and names the option. Each value by itself was checked when it was set.
func (c *Config) validate() error {
	type listener struct {
		option string
		at     Endpoint
	}
	all := []listener{{"blob-port", c.Blob}, {"queue-port", c.Queue}, {"table-port", c.Table}, {"dfs-port", c.DataLake}}
	if !c.NoAdmin {
		all = append(all, listener{"admin-port", c.Admin})
	}
	// A service that is not served takes no port, whatever its option says.
	all = slices.DeleteFunc(all, func(l listener) bool {
		service, ok := strings.CutSuffix(l.option, "-port")
		return ok && service != "admin" && !c.Serves(service)
	})
	// Port 0 lets the system choose, so it is never taken twice. A host that stands for all addresses takes the port of
	// each of them.
	for i, a := range all {
		for _, b := range all[:i] {
			if a.at.Port != 0 && a.at.Port == b.at.Port &&
				(a.at.Host == b.at.Host || anyAddress(a.at.Host) || anyAddress(b.at.Host)) {
				return fmt.Errorf("%s and %s are both %d", b.option, a.option, a.at.Port)
			}
		}
	}
	if err := c.BlobSettings.Validate(); err != nil {
		return err
	}
	// The settings of an account are checked on top of the defaults, so these come first.
	if _, err := auth.NewManagedAccounts(c.BlobSettings, c.Accounts...); err != nil {
		return fmt.Errorf("accounts: %w", err)
	}
	switch {
	case c.PFX() && c.Key != "":
		return errors.New("a PFX file contains its key: use the option key with a PEM certificate alone")
	case c.Password != "" && c.Cert == "":
		return errors.New("pwd is the password of a PFX file: set cert")
	case !c.PFX() && c.Cert != "" && c.Key == "":
		return errors.New("cert and key go together: key is missing")
	case c.Cert == "" && c.Key != "":
		return errors.New("cert and key go together: cert is missing")
	case c.RequireHTTPS && c.Cert == "":
		return errors.New("require-https needs a certificate: set cert and key (lazuli cert makes a pair)")
	}
	if err := c.CopySources.Validate(); err != nil {
		return fmt.Errorf("allow-copy-source: %w", err)
	}
	if c.CopySources.Private && len(c.CopySources.Hosts) == 0 {
		// An option without effect is refused: it is there for a reason, and the reason would not be met.
		return errors.New("allow-private-copy-source is about the hosts of allow-copy-source: set that as well")
	}
	if err := c.EventHosts.Validate(); err != nil {
		return fmt.Errorf("allow-event-host: %w", err)
	}
	switch {
	case c.EventHosts.Private && len(c.EventHosts.Hosts) == 0:
		return errors.New("allow-private-event-host is about the hosts of allow-event-host: set that as well")
	case len(c.EventHosts.Hosts) > 0 && !c.Events:
		return errors.New("allow-event-host is about event subscriptions: set events as well")
	}
	if err := c.OAuth.validate(c.NoAdmin); err != nil {
		return err
	}
	if err := c.validateAdmin(); err != nil {
		return err
	}
	if err := c.Roles.validate(); err != nil {
		return err
	}
	if err := c.Durable.validate(); err != nil {
		return err
	}
	if err := c.validateCluster(); err != nil {
		return err
	}
	if err := c.validateArchive(); err != nil {
		return err
	}
	if err := c.validateShards(); err != nil {
		return err
	}
	switch {
	case (c.NATS.Tables() || c.NATS.Blobs()) && c.Durability == Relaxed:
		return errors.New("replicated tables and blobs have no relaxed durability: it cannot be used with table or blob " +
			"in nats-services")
	case (c.NATS.Tables() || c.NATS.Blobs()) && c.InMemory:
		return errors.New("replicated tables and blobs need a data folder: in-memory cannot be used with table or blob in " +
			"nats-services")
	}
	return c.NATS.validate()
}

// validateShards refuses what works with one shard alone.
func (c *Config) validateShards() error {
	name := ""
	switch {
	case c.Shards <= 1:
		return nil
	case c.InMemory:
		name = "in-memory"
	case c.Cluster.Enabled():
		name = "cluster-node"
	case c.NATS.URL != "":
		name = "nats-url"
	case c.Archive.To != "":
		name = "archive"
	case c.Archive.StandbyOf != "":
		name = "standby-of"
	default:
		return nil
	}
	return fmt.Errorf("shards %d cannot be used with %s: more than one shard works for a server alone with a data folder",
		c.Shards, name)
}

// Dashboard reports whether the admin listener serves the dashboard.
func (c *Config) Dashboard() bool {
	return !c.NoAdmin && !c.Cluster.Front && (c.AdminUI == "on" || c.AdminUI == "read-only" ||
		c.AdminUI == "auto" && exposure.Local(c.Admin.Host))
}

// validateAdmin checks the options of the admin listener, and what all options open.
func (c *Config) validateAdmin() error {
	switch {
	case c.TestClock && c.NoAdmin:
		return errors.New("the admin listener sets the test clock: test-clock cannot be used with no-admin")
	case c.TestClock && !c.InMemory:
		return errors.New("a data folder must not have times of the future: test-clock needs in-memory")
	}
	if c.AdminState && c.NoAdmin {
		return errors.New("admin-state is about the admin listener: it cannot be used with no-admin")
	}
	if c.AdminToken != "" && c.NoAdmin {
		return errNoAdminToken
	}
	if c.ManagedAccounts && c.NoAdmin {
		return errors.New("managed-accounts are added through the admin listener: it cannot be used with no-admin")
	}
	if c.BackupToken != "" && c.NoAdmin {
		return errors.New("backup-token is for callers of the admin listener: it cannot be used with no-admin")
	}
	switch {
	case c.Backup.HoldWrites && c.Backup.To == "":
		return errors.New("backup-hold-writes is about the backups to backup-to: set that as well")
	case c.Backup.HoldWrites && c.NATS.URL != "":
		return errors.New("backup-hold-writes is for nodes of a cluster: it cannot be used with nats-url")
	}
	if c.Backup.To != "" && c.Backup.Every < time.Minute {
		return errors.New("backup-every is the interval between backups: it must be at least 1m")
	}
	if c.inDataFolder(c.Backup.To) {
		return fmt.Errorf("backup-to %s is in the data folder and would be lost with it: give another place", c.Backup.To)
	}
	return c.checkDoors()
}

// inDataFolder reports whether a place is the data folder or a folder in it.
func (c *Config) inDataFolder(place string) bool {
	if place == "" || strings.Contains(place, "://") || c.InMemory {
		return false
	}
	place, err := filepath.Abs(place)
	data, dataErr := filepath.Abs(c.Location)
	if err != nil || dataErr != nil {
		return false
	}
	within, err := filepath.Rel(data, place)
	return err == nil && (within == "." || filepath.IsLocal(within))
}

// validateArchive checks the options of the archive against the others.
func (c *Config) validateArchive() error {
	a := c.Archive
	if a.StandbyOf != "" {
		if err := c.validateStandby(); err != nil {
			return err
		}
		a.To = a.StandbyOf
	}
	switch {
	case a.To == "" && (a.KeyFile != "" || a.Account != "" || a.Fence):
		return errors.New("archive-fence, archive-key-file and archive-connection-string are about archive: set that as well")
	case a.To == "":
		return nil
	case c.InMemory:
		return errors.New("archive needs a data folder: it cannot be used with in-memory")
	case c.Cluster.Enabled():
		return errors.New("archive is for a server alone: on a node of a cluster, use backup-to")
	case c.NATS.URL != "":
		return errors.New("archive needs the whole state in the data folder: it cannot be used with nats-url")
	case a.Every < 100*time.Millisecond:
		return errors.New("archive-every must be at least 100ms")
	case a.Base < time.Minute || a.Keep < time.Minute:
		return errors.New("archive-base and archive-keep must be at least 1m")
	case c.inDataFolder(a.To):
		return fmt.Errorf("archive %s is in the data folder and would be lost with it: give another place", a.To)
	case c.Backup.To == a.To:
		return errors.New("archive makes the backups in its place by itself: backup-to must be another place")
	}
	return nil
}

// validateStandby refuses what writes, or what a standby does not have.
func (c *Config) validateStandby() error {
	switch {
	case c.Archive.To != "":
		return errors.New("a promoted standby sends its log to the place that it has followed: standby-of and archive " +
			"exclude each other")
	case c.InMemory, c.Cluster.Enabled(), c.NATS.URL != "":
		return errors.New("standby-of is for a server alone with a data folder: it cannot be used with in-memory, " +
			"cluster-node or nats-url")
	case len(c.Roles.Enabled) > 0, c.Durable.Enabled, c.Seed != "", c.Backup.To != "":
		return errors.New("a standby writes nothing: roles, durable, seed and backup-to cannot be used with standby-of; " +
			"set them when it was promoted")
	case c.NoAdmin:
		return errors.New("a standby is promoted through the admin listener: standby-of cannot be used with no-admin")
	}
	return nil
}

func (o *OAuth) validate(noAdmin bool) error {
	switch {
	case o.Basic && o.Issuer != "":
		return errors.New("oauth basic accepts forged tokens of every issuer: it cannot be used with oauth-issuer")
	case o.Development && noAdmin:
		return errors.New("oauth dev gives out tokens at the admin listener: it cannot be used with no-admin")
	case o.Issuer == "" && (o.Keys != "" || len(o.Audiences) > 0):
		return errors.New("oauth-keys and oauth-audiences are about an issuer: set oauth-issuer")
	case len(o.Groups) > 0 && !o.Development:
		return errors.New("oauth-groups is about the tokens of oauth dev: an issuer names groups itself")
	case len(o.Roles) > 0 && o.Issuer == "" && !o.Development && !o.Basic:
		return errors.New("oauth-roles needs tokens to apply to: set oauth or oauth-issuer")
	// Each request with such a token would be answered 403, for a reason that is far from the option.
	case o.Issuer != "" && len(o.Roles) == 0:
		return errors.New("oauth-issuer needs oauth-roles: without a role its tokens open nothing")
	}
	if _, err := auth.NewRoles(o.Roles...); err != nil {
		return fmt.Errorf("oauth-roles: %w", err)
	}
	if o.Issuer != "" {
		if _, err := auth.NewRemoteKeys(o.Issuer, o.Keys); err != nil {
			return fmt.Errorf("oauth-issuer: %w", err)
		}
	}
	return nil
}

func (n *NATS) validate() error {
	if n.URL == "" {
		switch {
		case n.Replicas != 1:
			return errors.New("nats-replicas needs a cluster: set nats-url")
		case len(n.Services) > 0:
			return errors.New("nats-services is about an external server: set nats-url")
		case len(n.Monitors) > 0 || n.Unproven:
			return errors.New("nats-monitor and nats-unproven are for an external server: set nats-url")
		case n.Credentials != "" || n.CA != "" || n.Cert != "":
			return errors.New("nats-credentials, nats-ca and nats-cert are for an external server: set nats-url")
		}
	} else if len(n.Monitors) > 0 && n.Unproven {
		return errors.New("nats-unproven accepts any server: it cannot be used with nats-monitor")
	} else if n.Listen != "" {
		return errors.New("nats-listen cannot be used with nats-url: it is an option of the embedded server")
	}
	if (n.Cert == "") != (n.Key == "") {
		return errors.New("nats-cert and nats-key go together")
	}
	if len(n.Services) > 0 && !slices.Contains(n.Services, "queue") {
		// The connection is that of the queues; tables and blobs use the streams beside them.
		return errors.New("nats-services must have queue: with nats-url, queues are always there")
	}
	return nil
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

// anyAddress reports whether host stands for all addresses of the machine.
func anyAddress(host string) bool {
	a, err := netip.ParseAddr(host)
	return err == nil && a.IsUnspecified()
}

// Exposed names the services that other machines can reach, for a warning where the published development key opens
// them; "" if only this machine can.
func (c *Config) Exposed() string {
	if !c.developmentAlone() {
		return ""
	}
	return c.reachable()
}

// reachable names the services that other machines can reach.
func (c *Config) reachable() string {
	var names []string
	for _, s := range []struct {
		name string
		host string
	}{{"blob", c.Blob.Host}, {"queue", c.Queue.Host}, {"table", c.Table.Host}, {"dfs", c.DataLake.Host}} {
		if c.Serves(s.name) && !exposure.Local(s.host) {
			names = append(names, s.name)
		}
	}
	return strings.Join(names, ", ")
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
