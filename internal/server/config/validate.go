package config

import (
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/exposure"
)

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
	if err := c.validateTier(); err != nil {
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
	case c.Cluster.Front:
		name = "cluster-front"
	case c.NATS.URL != "":
		name = "nats-url"
	case c.Archive.Fence && c.Cluster.Enabled():
		return fmt.Errorf("shards %d cannot be used with archive-fence in a cluster: with more than one shard it works for a "+
			"single server", c.Shards)
	case c.Archive.StandbyOf != "":
		name = "standby-of"
	default:
		return nil
	}
	return fmt.Errorf("shards %d cannot be used with %s: more than one shard works for a single server and for nodes of a "+
		"cluster, with data folders", c.Shards, name)
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
	if bucketWithAccount(c.Backup.To, c.Backup.Account) {
		return fmt.Errorf("backup-connection-string: %w", errBucketAccount)
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

// errBucketAccount: the keys of a bucket do not come from a connection string.
var errBucketAccount = errors.New("a bucket of S3 has no connection string: its keys are those of " +
	"AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, of the file of the AWS tools, or of the machine's role")

func bucketWithAccount(place, account string) bool {
	return strings.HasPrefix(place, "s3://") && account != ""
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
	case bucketWithAccount(a.To, a.Account):
		return fmt.Errorf("archive-connection-string: %w", errBucketAccount)
	case c.InMemory:
		return errors.New("archive needs a data folder: it cannot be used with in-memory")
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

// validateTier checks the options of the tier of content against the others.
func (c *Config) validateTier() error {
	t := c.Tier
	switch {
	case t.To == "" && (t.KeyFile != "" || t.Account != ""):
		return errors.New("content-tier-key-file and content-tier-connection-string are about content-tier: set that as well")
	case t.To == "":
		return nil
	case bucketWithAccount(t.To, t.Account):
		return fmt.Errorf("content-tier-connection-string: %w", errBucketAccount)
	case c.InMemory:
		return errors.New("content-tier needs a data folder: it cannot be used with in-memory")
	case c.NATS.Blobs():
		return errors.New("content-tier needs the content in the data folder: it cannot be used with blob in nats-services")
	case c.Archive.StandbyOf != "":
		return errors.New("a standby has the content of the archive that it follows: content-tier cannot be used with " +
			"standby-of; set it when the standby was promoted")
	case c.inDataFolder(t.To):
		return fmt.Errorf("content-tier %s is in the data folder, whose disk it should relieve: give another place", t.To)
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
		return errors.New("standby-of is for a single server with a data folder: it cannot be used with in-memory, " +
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

// anyAddress reports whether host stands for all addresses of the machine.
func anyAddress(host string) bool {
	a, err := netip.ParseAddr(host)
	return err == nil && a.IsUnspecified()
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

// Exposed names the services that other machines can reach, for a warning where the published development key opens
// them; "" if only this machine can.
func (c *Config) Exposed() string {
	if !c.developmentAlone() {
		return ""
	}
	return c.reachable()
}

// Dashboard reports whether the admin listener serves the dashboard.
func (c *Config) Dashboard() bool {
	return !c.NoAdmin && !c.Cluster.Front && (c.AdminUI == "on" || c.AdminUI == "read-only" ||
		c.AdminUI == "auto" && exposure.Local(c.Admin.Host))
}
