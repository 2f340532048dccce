package config

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// RoleOptions are the names of the options that say what the roles work on.
func RoleOptions() (names []string) {
	for _, o := range roleOptions[2:] {
		names = append(names, o.name)
	}
	return names
}

var roleOptions = []option{
	{name: "roles", kind: "list", usage: "Built-in worker roles that the server runs itself: " +
		strings.Join(RoleNames, ", ") + ". The server creates their queues, tables and containers",
		set: func(c *Config, s string) error {
			c.Roles.Enabled = nil
			for name := range strings.SplitSeq(s, ",") {
				name = strings.TrimSpace(name)
				if err := oneOf(name, RoleNames...); err != nil {
					return err
				}
				if !slices.Contains(c.Roles.Enabled, name) {
					c.Roles.Enabled = append(c.Roles.Enabled, name)
				}
			}
			return nil
		},
		get: func(c *Config) string { return strings.Join(c.Roles.Enabled, ",") }},
	text("roles-account", "", "name",
		"Account that the built-in roles of the server use (default: the first, in the order in which the accounts are "+
			"written)", func(c *Config) *string { return &c.Roles.Account }, notEmpty),
	rarely(text("archive-queue", "", "name", "Queue of the archive role",
		func(c *Config) *string { return &c.Roles.ArchiveQueue }, notEmpty)),
	text("archive-from", "", "table", "Table from which the archive role moves entities",
		func(c *Config) *string { return &c.Roles.ArchiveFrom }, notEmpty),
	text("archive-to", "", "kind:name", "Target of the archive role: table:NAME, container:NAME or folder:PATH",
		func(c *Config) *string { return &c.Roles.ArchiveTo }, archiveTarget),
	rarely(text("large-entity-table", "", "table", "Table of the large-entity role",
		func(c *Config) *string { return &c.Roles.LargeEntityTable }, notEmpty)),
	rarely(text("large-entity-container", "", "name", "Container of the large-entity role",
		func(c *Config) *string { return &c.Roles.LargeEntityContainer }, notEmpty)),
	rarely(text("large-entity-schedule", "", "ncrontab", "When the large-entity role sweeps, in UTC",
		func(c *Config) *string { return &c.Roles.LargeEntitySchedule }, notEmpty)),
	rarely(duration("large-entity-age",
		"Minimum age of the blobs that the large-entity role deletes; it must exceed the duration of any write",
		func(c *Config) *time.Duration { return &c.Roles.LargeEntityAge })),
	rarely(text("log-storage-queue", "", "name", "Queue of the log-storage role",
		func(c *Config) *string { return &c.Roles.LogQueue }, notEmpty)),
	rarely(text("log-storage-container", "", "name", "Container of the log-storage role",
		func(c *Config) *string { return &c.Roles.LogContainer }, notEmpty)),
	rarely(number("log-storage-flush-bytes", "Size of buffered log lines at which they are written, in bytes", 1, 256<<20,
		func(c *Config) *int { return &c.Roles.LogFlushBytes })),
	rarely(duration("log-storage-flush-every", "Maximum time that a log line is buffered",
		func(c *Config) *time.Duration { return &c.Roles.LogFlushEvery })),
	rarely(duration("log-storage-slot",
		"Time range of the log blobs in one folder: a divisor of an hour, in whole minutes",
		func(c *Config) *time.Duration { return &c.Roles.LogSlot })),
	text("search-index-table", "", "table", "Table that the search-index role indexes",
		func(c *Config) *string { return &c.Roles.SearchTable }, notEmpty),
	text("search-index-fields", "", "name:type,...",
		"Properties that the search-index role indexes; types: text, keyword, number, date. The role requires it",
		func(c *Config) *string { return &c.Roles.SearchFields }, notEmpty),
	text("search-index-folder", "", "path",
		"Folder of the index of the search-index role, for one process (default: search-index/ACCOUNT/TABLE in the data "+
			"folder; for lazuli worker, a folder in the user's folder for caches)",
		func(c *Config) *string { return &c.Roles.SearchFolder }, notEmpty),
	text("search-index-queue", "", "name",
		"Queue with the keys of changed entities, for services other than Lazuli (default: the role reads the table's "+
			"changes)", func(c *Config) *string { return &c.Roles.SearchQueue }, notEmpty),
	text("table-index-from", "", "table", "Table that the table-index role follows",
		func(c *Config) *string { return &c.Roles.IndexFrom }, notEmpty),
	text("table-index-to", "", "table", "Table that the table-index role writes; it must have no other writer",
		func(c *Config) *string { return &c.Roles.IndexTo }, notEmpty),
	text("table-index-by", "", "property", "Property by which the table-index role indexes. The role requires it",
		func(c *Config) *string { return &c.Roles.IndexBy }, notEmpty),
	text("table-index-kind", "", strings.Join(IndexKinds, "|"),
		"What the table-index role writes: copies of entities under the property's value, lists of their keys, or counts "+
			"of the values for each partition", func(c *Config) *string { return &c.Roles.IndexKind },
		func(s string) error { return oneOf(s, IndexKinds...) }),
}

// rarely makes an option one that serve has no flag for.
func rarely(o option) option {
	o.rare = true
	return o
}

// section returns the role that an option belongs to, and its key in the section of the role; "" for other options.
func (o *option) section() (role, key string) {
	// The archive of the log is no role.
	if slices.ContainsFunc(archiveOptions, func(other option) bool { return other.name == o.name }) {
		return "", ""
	}
	for _, role := range RoleNames {
		if key, ok := strings.CutPrefix(o.name, role+"-"); ok {
			return role, key
		}
	}
	return "", ""
}

func archiveTarget(s string) error {
	kind, name, _ := strings.Cut(s, ":")
	if name == "" || !slices.Contains([]string{"table", "container", "folder"}, kind) {
		return fmt.Errorf("%q is not table:NAME, container:NAME or folder:PATH", s)
	}
	return nil
}
