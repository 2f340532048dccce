package config

import (
	"errors"
	"strings"
)

// DurableOptions are the names of the options of the gRPC endpoint alone.
func DurableOptions() []string {
	return []string{"durable-listen", "durable-hub", "durable-hubs", "cert", "key"}
}

var durableOptions = []option{
	boolean("durable", "", "Serve durable workflows to the Durable Task SDKs (gRPC)",
		func(c *Config) *bool { return &c.Durable.Enabled }),
	text("durable-listen", "", "host:port",
		"Address of the gRPC endpoint, which speaks TLS if cert is set; port 0 picks a free one",
		func(c *Config) *string { return &c.Durable.Listen }, hostPort),
	text("durable-hub", "", "name", "Task hub of calls that do not name one",
		func(c *Config) *string { return &c.Durable.Hub },
		notEmpty),
	{name: "durable-hubs", kind: "list", usage: "Task hubs that are created at the start; calls can use no others " +
		"(default: any hub, created at the first call that names it)",
		set: func(c *Config, s string) error {
			c.Durable.Hubs = nil
			for name := range strings.SplitSeq(s, ",") {
				if name = strings.TrimSpace(name); name == "" {
					return errors.New("a task hub has no name")
				}
				c.Durable.Hubs = append(c.Durable.Hubs, name)
			}
			return nil
		},
		get: func(c *Config) string { return strings.Join(c.Durable.Hubs, ",") }},
	text("durable-account", "", "name",
		"Account that keeps the task hubs (default: the first, in the order in which the accounts are written)",
		func(c *Config) *string { return &c.Durable.Account }, notEmpty),
	{name: "durable-token", kind: "text", noFlag: true,
		usage: "Token that calls must have, as the metadata authorization: Bearer TOKEN; required " +
			"unless durable-listen is " +
			"a loopback address, or the only account is the published development account",
		set: func(c *Config, s string) error { c.Durable.Token = s; return notEmpty(s) },
		get: func(c *Config) string {
			if c.Durable.Token == "" {
				return ""
			}
			return "**redacted**"
		}},
}
