package config

import (
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/accountprops"
	"github.com/lazuli-storage/lazuli/internal/storage/shardmap"
)

// group is a heading of the reference page with its options.
type group struct {
	title   string
	options []option
}

// groups is the table of options.
var groups = []group{
	{"Data", []option{
		text("location", "l", "folder", "Data folder, created if absent", func(c *Config) *string { return &c.Location },
			notEmpty),
		boolean("in-memory", "", "Keep no data after the process ends", func(c *Config) *bool { return &c.InMemory }),
		text("seed", "", "file", "File with tables, queues and containers that the server creates when it starts, "+
			"if they do not exist",
			func(c *Config) *string { return &c.Seed }, notEmpty),
		{name: "durability", kind: "sync|relaxed",
			usage: "When a write is acknowledged: once it is on disk (sync), or once the operating system has it (relaxed)",
			set: func(c *Config, s string) error {
				c.Durability = Durability(s)
				return oneOf(s, string(Sync), string(Relaxed))
			},
			get: func(c *Config) string { return string(c.Durability) }},
		number("shards", "Number of parts of a new data folder that serve different accounts independently of each other, "+
			"up to 64; it is fixed when the folder is created. 0 is the folder's number, or one for a new folder",
			0, shardmap.Max,
			func(c *Config) *int { return &c.Shards }),
	}},
	{"Listeners", []option{
		words("services", "Services that are served: some of blob, queue and table",
			func(c *Config) *[]string { return &c.Services },
			func(s string) error { return oneOf(s, allServices...) }),
		text("host", "", "address", "Address that the services listen on; 0.0.0.0 is all addresses of the machine",
			func(c *Config) *string { return &c.Host }, host),
		text("blob-host", "", "address", "Address of the Blob service, if it differs from host",
			func(c *Config) *string { return &c.Blob.Host }, host),
		port("blob-port", "Port of the Blob service; 0 picks a free port", func(c *Config) *int { return &c.Blob.Port }),
		duration("blob-keep-alive-timeout", "Idle timeout of connections to the Blob service; 0 is two minutes",
			func(c *Config) *time.Duration { return &c.Blob.KeepAlive }),
		text("dfs-host", "", "address", "Address of the Data Lake endpoint, if it differs from the address of the "+
			"Blob service",
			func(c *Config) *string { return &c.DataLake.Host }, host),
		port("dfs-port", "Port of the Data Lake endpoint, which is served if this port is set, if an account has a "+
			"hierarchical namespace, or with managed-accounts; 0 picks a free port",
			func(c *Config) *int { return &c.DataLake.Port }),
		text("queue-host", "", "address", "Address of the Queue service, if it differs from host",
			func(c *Config) *string { return &c.Queue.Host }, host),
		port("queue-port", "Port of the Queue service; 0 picks a free port", func(c *Config) *int { return &c.Queue.Port }),
		duration("queue-keep-alive-timeout", "Idle timeout of connections to the Queue service; 0 is two minutes",
			func(c *Config) *time.Duration { return &c.Queue.KeepAlive }),
		text("table-host", "", "address", "Address of the Table service, if it differs from host",
			func(c *Config) *string { return &c.Table.Host }, host),
		port("table-port", "Port of the Table service; 0 picks a free port", func(c *Config) *int { return &c.Table.Port }),
		duration("table-keep-alive-timeout", "Idle timeout of connections to the Table service; 0 is two minutes",
			func(c *Config) *time.Duration { return &c.Table.KeepAlive }),
	}},
	{"Accounts and protocol", []option{
		{name: "accounts", kind: "name:key1[:key2] [setting=value ...];...", noFlag: true,
			usage: "Storage accounts with one or two base64 keys and settings each, instead of the development account",
			set: func(c *Config, s string) (err error) {
				c.Accounts, err = parseAccounts(s)
				return err
			},
			get: func(c *Config) string { return formatAccounts(c.Accounts) }},
		text("accounts-file", "", "file",
			"File with the accounts, see lazuli account; it is reloaded when it changes and on SIGHUP",
			func(c *Config) *string { return &c.AccountsFile }, notEmpty),
		boolean("managed-accounts", "",
			"Allow adding, changing and removing accounts while the server runs, by lazuli account and the admin "+
				"listener; the data folder keeps them, in addition to those of accounts or accounts-file",
			func(c *Config) *bool { return &c.ManagedAccounts }),
		boolean("strict-api-version", "",
			"Refuse requests with an unknown x-ms-version, instead of treating it as the newest known version",
			func(c *Config) *bool { return &c.StrictVersion }),
		boolean("disable-product-style-url", "",
			"Take the account from the path, also for host names such as account.blob.example.net",
			func(c *Config) *bool { return &c.PathStyle }),
	}},
	{"Blob service", blobOptions()},
	{"Https and bearer tokens", []option{
		text("cert", "", "file", "Certificate of the services in PEM or PFX, which enables https; lazuli cert creates one",
			func(c *Config) *string { return &c.Cert }, notEmpty),
		text("key", "", "file", "Private key of cert, in PEM", func(c *Config) *string { return &c.Key }, notEmpty),
		{name: "pwd", kind: "password",
			usage: "Password of cert, if it is a PFX (PKCS #12) file; prefer LAZULI_PWD, since other users can see command lines",
			set:   func(c *Config, s string) error { c.Password = s; return nil },
			get: func(c *Config) string {
				if c.Password == "" {
					return ""
				}
				return redacted
			}},
		boolean("require-https", "", "Refuse requests over plain http", func(c *Config) *bool { return &c.RequireHTTPS }),
		{name: "oauth", kind: "dev|basic",
			usage: "Accept bearer tokens of the built-in issuer, at /oauth of the admin listener, which gives them to " +
				"everyone (dev), " +
				"or of Microsoft Entra ID without checking their signatures, as Azurite does (basic)",
			set: func(c *Config, s string) error {
				c.OAuth.Development, c.OAuth.Basic = s == "dev", s == "basic"
				return oneOf(s, "dev", "basic")
			},
			get: func(c *Config) string {
				switch {
				case c.OAuth.Development:
					return "dev"
				case c.OAuth.Basic:
					return "basic"
				}
				return ""
			}},
		text("oauth-issuer", "", "url",
			"Accept bearer tokens of this issuer (their iss claim), such as a tenant of Microsoft Entra ID",
			func(c *Config) *string { return &c.OAuth.Issuer }, notEmpty),
		text("oauth-keys", "", "url", "Address of the issuer's keys (default: from its .well-known/openid-configuration)",
			func(c *Config) *string { return &c.OAuth.Keys }, notEmpty),
		words("oauth-audiences", "Additional audiences of the issuer's tokens",
			func(c *Config) *[]string { return &c.OAuth.Audiences }, notEmpty),
		{name: "oauth-roles", kind: "principal:role:scope;...",
			usage: "Role assignments: a token's oid, appid or group ID, or *; a built-in role; an account, account/name " +
				"or *",
			set: func(c *Config, s string) (err error) { c.OAuth.Roles, err = parseRoles(s); return err },
			get: func(c *Config) string { return formatRoles(c.OAuth.Roles) }},
		{name: "oauth-groups", kind: "client:group,...;...",
			usage: "Groups in the tokens of --oauth dev for a client ID: names or IDs that have role assignments",
			set:   func(c *Config, s string) (err error) { c.OAuth.Groups, err = parseGroups(s); return err },
			get:   func(c *Config) string { return formatGroups(c.OAuth.Groups) }},
	}},
	{"Copies", []option{
		words("allow-copy-source", "Hosts from which copy operations may fetch: "+
			"name, name:port, *.domain, or * for all "+
			"public hosts",
			func(c *Config) *[]string { return &c.CopySources.Hosts }, notEmpty),
		boolean("allow-private-copy-source", "", "Allow private and loopback addresses for the hosts of allow-copy-source",
			func(c *Config) *bool { return &c.CopySources.Private }),
	}},
	{"Events", []option{
		boolean("events", "", "Allow event subscriptions, by lazuli event and the admin listener: the events of blobs go "+
			"to webhooks and queues",
			func(c *Config) *bool { return &c.Events }),
		words("allow-event-host", "Hosts of webhooks to which events may be sent: name, name:port, *.domain, or * "+
			"for all public hosts; without a list only this machine, if all listeners have loopback addresses",
			func(c *Config) *[]string { return &c.EventHosts.Hosts }, notEmpty),
		boolean("allow-private-event-host", "", "Allow private and loopback addresses for the hosts of allow-event-host",
			func(c *Config) *bool { return &c.EventHosts.Private }),
	}},
	{"Limits", []option{
		number("max-connections", "Maximum number of connections of each service; 0 is no limit. Further ones are "+
			"answered 503", 0, 1<<30, func(c *Config) *int { return &c.MaxConnections }),
		number("max-requests", "Maximum number of concurrent requests of all services; 0 is no limit. Further ones "+
			"are answered 503; if there are several accounts, one account may use three quarters of the limit",
			0, 1<<30, func(c *Config) *int { return &c.MaxRequests }),
	}},
	{"Admin listener", []option{
		text("admin-host", "", "address", "Address of the admin listener; see admin-token",
			func(c *Config) *string { return &c.Admin.Host }, host),
		port("admin-port", "Port of the admin listener (/healthz, /readyz, /metrics); 0 picks a free one",
			func(c *Config) *int { return &c.Admin.Port }),
		boolean("no-admin", "", "Disable the admin listener", func(c *Config) *bool { return &c.NoAdmin }),
		words("admin-allow-host", "Host names accepted by the admin listener, in addition to IP addresses and localhost",
			func(c *Config) *[]string { return &c.AllowHosts }, host),
		{name: "admin-ui", kind: "auto|on|off|read-only",
			usage: "Dashboard on the admin listener: on, off, without changes (read-only), or on if the listener has a " +
				"loopback address (auto)",
			set: func(c *Config, s string) error {
				c.AdminUI = s
				return oneOf(s, "auto", "on", "off", "read-only")
			},
			get: func(c *Config) string { return c.AdminUI }},
		secret("admin-token", "Token that callers of the admin listener must bring, except for health checks, metrics and "+
			"the token issuer (default: none if the development account is the only account, otherwise a random one, which is "+
			"printed at the start)", func(c *Config) *string { return &c.AdminToken }, checkToken),
		words("function-host", "Function apps on which the dashboard shows and runs functions: host:port of lazuli func "+
			"start",
			func(c *Config) *[]string { return &c.FunctionHosts }, hostPort),
		boolean("faults", "", "Allow fault rules, which make selected requests fail, by lazuli fault, the admin "+
			"listener, the seed, or a request's header",
			func(c *Config) *bool { return &c.Faults }),
		boolean("admin-state", "", "Allow resetting, saving and restoring all data through the admin listener",
			func(c *Config) *bool { return &c.AdminState }),
		boolean("test-clock", "", "Run the services on a clock that the dashboard and the admin listener set forward, for "+
			"tests; needs in-memory",
			func(c *Config) *bool { return &c.TestClock }),
		boolean("pprof", "", "Serve Go's profiles at /debug/pprof/ of the admin listener",
			func(c *Config) *bool { return &c.Pprof }),
	}},
	{"Backup", []option{
		{name: "backup-to", kind: "folder|URL",
			usage: "Folder, URL of a container of any account, or s3://BUCKET/PREFIX, to which the server backs up itself",
			set:   func(c *Config, s string) error { c.Backup.To = s; return checkPlace(s) },
			get:   func(c *Config) string { return withoutSignature(c.Backup.To) }},
		duration("backup-every", "Interval of the backups to backup-to",
			func(c *Config) *time.Duration { return &c.Backup.Every }),
		number("backup-keep", "Number of the newest backups in backup-to to keep; 0 keeps all", 0, 1<<30,
			func(c *Config) *int { return &c.Backup.Keep }),
		duration("backup-keep-for", "Retention: time for which a backup is kept, even if it is not among backup-keep",
			func(c *Config) *time.Duration { return &c.Backup.KeepFor }),
		boolean("backup-hold-writes", "", "In a cluster, hold all writes while the moment of a backup to backup-to "+
			"is taken, a second at most, so that it is one moment of all services",
			func(c *Config) *bool { return &c.Backup.HoldWrites }),
		secret("backup-connection-string", "Connection string of the account of backup-to, if its URL has no SAS",
			func(c *Config) *string { return &c.Backup.Account }, notEmpty),
		secret("backup-token", "Token with which lazuli backup may read the state through the admin listener, and do "+
			"nothing else there", func(c *Config) *string { return &c.BackupToken }, checkToken),
	}},
	{"Archive", archiveOptions},
	{"Tier of content", tierOptions},
	{"Queues' NATS", []option{
		text("nats-listen", "", "host:port",
			"Address on which the embedded NATS server accepts clients such as the nats CLI, without authentication",
			func(c *Config) *string { return &c.NATS.Listen }, hostPort),
		text("nats-url", "", "urls", "NATS server or cluster to use instead of the embedded one, URLs separated by commas",
			func(c *Config) *string { return &c.NATS.URL }, notEmpty),
		text("nats-credentials", "", "file", "Credentials file for nats-url",
			func(c *Config) *string { return &c.NATS.Credentials }, notEmpty),
		text("nats-ca", "", "file", "CA certificate for nats-url, in PEM, if the system does not trust it",
			func(c *Config) *string { return &c.NATS.CA }, notEmpty),
		text("nats-cert", "", "file", "Client certificate for nats-url, in PEM",
			func(c *Config) *string { return &c.NATS.Cert }, notEmpty),
		text("nats-key", "", "file", "Private key of nats-cert, in PEM", func(c *Config) *string { return &c.NATS.Key },
			notEmpty),
		words("nats-monitor",
			"Monitoring addresses (http://host:8222) of all servers of nats-url, which must sync each write",
			func(c *Config) *[]string { return &c.NATS.Monitors }, notEmpty),
		boolean("nats-unproven", "", "Use nats-url even if its servers may lose acknowledged messages after a power "+
			"failure",
			func(c *Config) *bool { return &c.NATS.Unproven }),
		words("nats-services", "Services whose data is on nats-url: queue (default), and table, blob; all servers with "+
			"that nats-url share it", func(c *Config) *[]string { return &c.NATS.Services },
			func(s string) error { return oneOf(s, allServices...) }),
		number("nats-replicas", "Number of replicas of each stream in the cluster, 1 to 5", 1, 5,
			func(c *Config) *int { return &c.NATS.Replicas }),
	}},
	{"Cluster", clusterOptions},
	{"Worker roles", roleOptions},
	{"Durable workflows", durableOptions},
	{"Process", []option{
		duration("shutdown-timeout", "Time limit for running requests when the server stops",
			func(c *Config) *time.Duration { return &c.ShutdownTimeout }),
		boolean("silent", "s", "Print only errors, and the addresses of services with port 0",
			func(c *Config) *bool { return &c.Silent }),
		{name: "log-level", kind: "level", usage: "Minimum log level: debug, info, warn or error",
			set: func(c *Config, s string) error {
				if err := oneOf(strings.ToLower(s), "debug", "info", "warn", "error"); err != nil {
					return err
				}
				return c.LogLevel.UnmarshalText([]byte(s))
			},
			get: func(c *Config) string { return strings.ToLower(c.LogLevel.String()) }},
		{name: "log-format", kind: "text|json", usage: "Log format",
			set: func(c *Config, s string) error { c.LogFormat = s; return oneOf(s, "text", "json") },
			get: func(c *Config) string { return c.LogFormat }},
		text("log-file", "", "file", "File to append the log to, instead of standard error",
			func(c *Config) *string { return &c.LogFile }, notEmpty),
		{name: "debug", short: "d", kind: "file", usage: "Shorthand for --log-level debug --log-file FILE; compatible with Azurite",
			set: func(c *Config, s string) error {
				c.LogLevel, c.LogFile = slog.LevelDebug, s
				return notEmpty(s)
			}},
	}},
}

// archiveOptions are the options of the archive of the log.
var archiveOptions = []option{
	{name: "archive", kind: "folder|URL",
		usage: "Folder, URL of a container of any account, or s3://BUCKET/PREFIX, to which the server continuously " +
			"sends its log, so that the state of any moment can be restored",
		set: func(c *Config, s string) error { c.Archive.To = s; return checkPlace(s) },
		get: func(c *Config) string { return withoutSignature(c.Archive.To) }},
	{name: "standby-of", kind: "folder|URL",
		usage: "Place of another server's archive, which this server follows as a read-only standby until lazuli " +
			"standby promote; archive-key-file and archive-connection-string then apply to this place",
		set: func(c *Config, s string) error { c.Archive.StandbyOf = s; return checkPlace(s) },
		get: func(c *Config) string { return withoutSignature(c.Archive.StandbyOf) }},
	duration("archive-every", "Interval at which changes are sent to archive",
		func(c *Config) *time.Duration { return &c.Archive.Every }),
	duration("archive-keep", "Retention of archive: how far back moments can be restored",
		func(c *Config) *time.Duration { return &c.Archive.Keep }),
	duration("archive-base", "Interval of the bases: backups in archive with which restores begin",
		func(c *Config) *time.Duration { return &c.Archive.Base }),
	number("archive-spool", "MiB of changes that wait in the data folder while archive cannot be reached; beyond "+
		"this bound the archive gets a gap", 64, 1<<24, func(c *Config) *int { return &c.Archive.SpoolMiB }),
	boolean("archive-fence", "",
		"Refuse writes with 503 while the server cannot confirm that archive belongs to it, or if archive lags by "+
			"more than 15 seconds; required for a standby",
		func(c *Config) *bool { return &c.Archive.Fence }),
	text("archive-key-file", "", "file", "File with a key of 64 hexadecimal digits with which archive is encrypted",
		func(c *Config) *string { return &c.Archive.KeyFile }, notEmpty),
	secret("archive-connection-string", "Connection string of the account of archive, if its URL has no SAS",
		func(c *Config) *string { return &c.Archive.Account }, notEmpty),
}

// tierOptions are the options of the tier of content.
var tierOptions = []option{
	{name: "content-tier", kind: "folder|URL",
		usage: "Folder, URL of a container of any account, or s3://BUCKET/PREFIX, that stores the content of blobs, " +
			"so that the disk of the data folder needs space for only a part of it",
		set: func(c *Config, s string) error { c.Tier.To = s; return checkPlace(s) },
		get: func(c *Config) string { return withoutSignature(c.Tier.To) }},
	number("content-cache", "Size of the cache of content on the disk with content-tier, in MiB; the least recently "+
		"used content is evicted",
		64, 1<<30, func(c *Config) *int { return &c.Tier.CacheMiB }),
	text("content-tier-key-file", "", "file", "File with a key of 64 hexadecimal digits with which content-tier is encrypted",
		func(c *Config) *string { return &c.Tier.KeyFile }, notEmpty),
	secret("content-tier-connection-string", "Connection string of the account of content-tier, if its URL has no SAS",
		func(c *Config) *string { return &c.Tier.Account }, notEmpty),
}

// checkPlace refuses what is no place of backups.
func checkPlace(s string) error {
	if scheme, _, found := strings.Cut(s, "://"); found && scheme != "https" && scheme != "http" && scheme != "s3" {
		return errors.New("it must be a folder, the URL of a container of an Azure-compatible account, or " +
			"s3://BUCKET/PREFIX; " + scheme + " is not supported")
	}
	return notEmpty(s)
}

// withoutSignature returns the text of a place without the SAS of its URL.
func withoutSignature(place string) string {
	place, signature, _ := strings.Cut(place, "?")
	if signature != "" {
		place += "?" + redacted
	}
	return place
}

// blobOptions are the default settings of accounts for the Blob service.
func blobOptions() []option {
	list := make([]option, len(accountprops.BlobSettings))
	for i, row := range accountprops.BlobSettings {
		list[i] = option{name: row.Name, kind: row.Kind, usage: row.Usage,
			set: func(c *Config, s string) error { return row.Set(&c.BlobSettings, s) },
			get: func(c *Config) string { return row.Get(&c.BlobSettings) }}
	}
	return list
}

// lookup finds an option by its name.
func lookup(name string) *option {
	for g := range groups {
		for i := range groups[g].options {
			if o := &groups[g].options[i]; o.name == name {
				return o
			}
		}
	}
	return nil
}

// The kinds of options.

// Checks of single values.
