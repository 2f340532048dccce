package config

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/exposure"
)

// door holds what an option opens to callers that have no key of an account.
type door struct {
	option string
	// open reports whether the options open it.
	open func(*Config) bool
	// at returns the hosts at which it is.
	at func(*Config) []string
	// gives says what a caller can do.
	gives string
	// token is the option with a token that callers have to bring, "" for none; set reports whether it is set.
	token string
	set   func(*Config) bool
	// more reports whether it gives more than the published key of the development account does. Nil: it does not.
	more func(*Config) bool
}

func atAdmin(c *Config) []string { return []string{c.Admin.Host} }

func atServices(c *Config) (hosts []string) {
	for name, e := range map[string]*Endpoint{"blob": &c.Blob, "queue": &c.Queue, "table": &c.Table, "dfs": &c.DataLake} {
		if c.Serves(name) {
			hosts = append(hosts, e.Host)
		}
	}
	return hosts
}

func atAddress(address string) []string { return []string{exposure.Host(address)} }

func always(*Config) bool { return true }

func ofAdmin(open func(*Config) bool) func(*Config) bool {
	return func(c *Config) bool { return !c.NoAdmin && open(c) }
}

// ofAdminToken is a door at the admin listener that is open without its token.
func ofAdminToken(option, gives string, open func(*Config) bool) door {
	return door{option: option, gives: gives, open: ofAdmin(open), at: atAdmin, token: "admin-token",
		set: func(c *Config) bool { return c.AdminToken != "" }}
}

// doors has a row for each option that opens something. [Config.checkDoors] has the rule.
var doors = []door{
	ofAdminToken("admin-ui", "shows all data",
		func(c *Config) bool { return c.AdminUI == "on" || c.AdminUI == "read-only" }),
	ofAdminToken("admin-state", "deletes and replaces all data", func(c *Config) bool { return c.AdminState }),
	ofAdminToken("faults", "makes requests fail", func(c *Config) bool { return c.Faults }),
	ofAdminToken("test-clock", "sets the time of the services", func(c *Config) bool { return c.TestClock }),
	ofAdminToken("pprof", "shows the memory and the command line of the process", func(c *Config) bool { return c.Pprof }),
	// These are about more than the admin listener, which asks for a token in any case.
	{option: "events", open: ofAdmin(func(c *Config) bool { return c.Events }), at: atAdmin, token: "admin-token",
		set: always, gives: "subscribes to events"},
	{option: "managed-accounts", open: ofAdmin(func(c *Config) bool { return c.ManagedAccounts }), at: atAdmin,
		token: "admin-token", set: always, gives: "changes accounts, and shows their keys"},
	{option: "roles", open: ofAdmin(func(c *Config) bool { return len(c.Roles.Enabled) > 0 }), at: atAdmin,
		token: "admin-token", set: always,
		gives: "searches, and pauses worker roles"},
	{option: "cluster-node", open: ofAdmin(func(c *Config) bool { return c.Cluster.Enabled() }), at: atAdmin,
		token: "admin-token", set: always, gives: "shows the cluster, and moves its leaders"},
	{option: "oauth", open: ofAdmin(func(c *Config) bool { return c.OAuth.Development }), at: atAdmin,
		gives: "gives tokens for any identity", more: func(c *Config) bool { return len(c.OAuth.Roles) > 0 }},
	{option: "oauth", open: func(c *Config) bool { return c.OAuth.Basic }, at: atServices, gives: "accepts forged tokens"},
	{option: "nats-listen", open: func(c *Config) bool { return c.NATS.Listen != "" },
		at:    func(c *Config) []string { return atAddress(c.NATS.Listen) },
		gives: "reads and changes all queues"},
	{option: "durable", open: func(c *Config) bool { return c.Durable.Enabled },
		at:    func(c *Config) []string { return atAddress(c.Durable.Listen) },
		token: "durable-token", set: func(c *Config) bool { return c.Durable.Token != "" },
		gives: "runs and reads workflows"},
}

// checkDoors refuses to open to other machines what needs no key and no token, unless the development account, whose
// key is published, is the only account and the door gives no more than that key. On a loopback address everything may
// be opened; beside accounts with a secret key the admin listener asks for a token there, too (see
// [Config.GuardAdmin]).
func (c *Config) checkDoors() error {
	for _, d := range doors {
		// The published key opens all data anyway, so a door beside it gives nothing more, unless the row says that it does.
		if !d.open(c) || d.set != nil && d.set(c) || c.published() && (d.more == nil || !d.more(c)) {
			continue
		}
		for _, host := range d.at(c) {
			if !exposure.Local(host) {
				return c.refuse(&d, host)
			}
		}
	}
	return nil
}

// refuse returns the error for a door at a host.
func (c *Config) refuse(d *door, host string) error {
	way := ""
	if d.token != "" {
		way = "set " + d.token + ", or "
	}
	port := ""
	for _, h := range d.at(c) {
		// The way that works without opening anything is named in the error, since it is what most need.
		if h == c.Admin.Host {
			port = fmt.Sprintf("; from another machine, use ssh -L %d:127.0.0.1:%d HOST", c.Admin.Port, c.Admin.Port)
		}
	}
	return exposure.Refuse(d.option+" "+d.gives, host, "only the published development account may be accessible from "+
		"other machines without its key; "+way+"use a loopback address"+port)
}

// minToken is the length of the shortest token that may be set.
const minToken = 16

func checkToken(s string) error {
	// ASCII without spaces, since the token comes in a header.
	if len(s) < minToken || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return fmt.Errorf("a token has at least %d letters, digits or other ASCII characters", minToken)
	}
	return nil
}

// GuardAdmin returns the token that callers of the admin listener have to bring, "" for none: the one that is set, or a
// random one if there are accounts with a secret key, to which the listener would otherwise give everyone on the
// machine access. made reports that it is random.
func (c *Config) GuardAdmin() (token string, made bool) {
	switch {
	case c.NoAdmin:
		return "", false
	case c.AdminToken != "" || c.published():
		return c.AdminToken, false
	}
	random := make([]byte, 16)
	_, _ = rand.Read(random) // never fails
	return hex.EncodeToString(random), true
}

// errNoAdminToken: the token is for a listener that is not there.
var errNoAdminToken = errors.New("admin-token is about the admin listener: it cannot be used with no-admin")
