package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// RoleNames are the built-in worker roles.
var RoleNames = []string{"archive", "large-entity", "log-storage", "outbox", "schedules", "search-index", "table-index"}

// Roles says which built-in worker roles run, and on what.
type Roles struct {
	// Enabled are those of RoleNames that the server runs itself.
	Enabled []string
	// Account is the one whose storage they use; "" is the first.
	Account string

	// ArchiveQueue is the archive role's queue, ArchiveFrom the table that it takes entities from, and ArchiveTo where it
	// puts them: table:NAME, container:NAME or folder:PATH.
	ArchiveQueue, ArchiveFrom, ArchiveTo string

	// LargeEntityTable and LargeEntityContainer are swept, by LargeEntitySchedule (NCRONTAB), of what is older than
	// LargeEntityAge.
	LargeEntityTable, LargeEntityContainer, LargeEntitySchedule string
	LargeEntityAge                                              time.Duration

	// LogQueue is the log role's queue, LogContainer where its lines go. They are written once they have LogFlushBytes or
	// the first has waited for LogFlushEvery, in folders of LogSlot.
	LogQueue, LogContainer string
	LogFlushBytes          int
	LogFlushEvery, LogSlot time.Duration

	// SearchTable is the table that the search role indexes in SearchFolder, by SearchFields (NAME:TYPE,...). Changes come
	// from the log of the table, or as messages from SearchQueue if that is not empty.
	SearchTable, SearchFields, SearchFolder, SearchQueue string

	// IndexTo is the table that the table-index role keeps in step with IndexFrom: IndexKind says what it has, IndexBy the
	// property by which it is made.
	IndexFrom, IndexTo, IndexKind, IndexBy string
}

// LargeArchive reports whether the archive role moves large entities, whose blobs it must move too.
func (r *Roles) LargeArchive() bool { return strings.EqualFold(r.ArchiveFrom, r.LargeEntityTable) }

// Conflict returns an error if two of the roles cannot work on the tables that are configured. docs/patterns.md has
// what each pair does on one table.
func (r *Roles) Conflict(roles []string) error {
	archiveTo, _ := strings.CutPrefix(r.ArchiveTo, "table:")
	// The role would take from the table what it has just put there, without end.
	if slices.Contains(roles, "archive") && strings.EqualFold(r.ArchiveFrom, archiveTo) {
		return fmt.Errorf("archive-from and archive-to are the same table %s", r.ArchiveFrom)
	}
	if !slices.Contains(roles, "table-index") {
		return nil
	}
	for _, writer := range []struct{ role, option, table string }{
		{"archive", "archive-from", r.ArchiveFrom}, {"archive", "archive-to", archiveTo},
		{"large-entity", "large-entity-table", r.LargeEntityTable},
	} {
		if slices.Contains(roles, writer.role) && strings.EqualFold(writer.table, r.IndexTo) {
			return fmt.Errorf("%s is the table %s, which the role table-index writes (table-index-to): it has no other writer",
				writer.option, r.IndexTo)
		}
	}
	return nil
}

// IndexKinds are the values of Roles.IndexKind.
var IndexKinds = []string{"copies", "lists", "counts"}

// RoleOptions are the names of the options that say what the roles work on.
func RoleOptions() (names []string) {
	for _, o := range roleOptions[2:] {
		names = append(names, o.name)
	}
	return names
}

func defaultRoles() Roles {
	return Roles{
		ArchiveQueue: "archive", ArchiveFrom: "Current", ArchiveTo: "table:Archive",
		LargeEntityTable: "LargeEntities", LargeEntityContainer: "large-entities", LargeEntitySchedule: "0 */10 * * * *",
		LargeEntityAge: time.Hour,
		LogQueue:       "logs", LogContainer: "logs", LogFlushBytes: 4 << 20, LogFlushEvery: 2 * time.Second,
		LogSlot:     time.Hour,
		SearchTable: "Current",
		IndexFrom:   "Current", IndexTo: "CurrentIndex", IndexKind: "copies",
	}
}

var roleOptions = []option{
	{name: "roles", kind: "list", usage: "Built-in worker roles that the server runs itself: " +
		strings.Join(RoleNames, ", ") + ". What they need is created",
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
	text("archive-from", "", "table", "Table that the archive role takes entities from",
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
		"Minimum age of the blobs that the large-entity role deletes; longer than any write takes",
		func(c *Config) *time.Duration { return &c.Roles.LargeEntityAge })),
	rarely(text("log-storage-queue", "", "name", "Queue of the log-storage role",
		func(c *Config) *string { return &c.Roles.LogQueue }, notEmpty)),
	rarely(text("log-storage-container", "", "name", "Container of the log-storage role",
		func(c *Config) *string { return &c.Roles.LogContainer }, notEmpty)),
	rarely(number("log-storage-flush-bytes", "Size of buffered log lines at which they are written, in bytes", 1, 256<<20,
		func(c *Config) *int { return &c.Roles.LogFlushBytes })),
	rarely(duration("log-storage-flush-every", "Maximum time that a log line is buffered",
		func(c *Config) *time.Duration { return &c.Roles.LogFlushEvery })),
	rarely(duration("log-storage-slot", "Time range of the log blobs in one folder: a divisor of an hour, in whole minutes",
		func(c *Config) *time.Duration { return &c.Roles.LogSlot })),
	text("search-index-table", "", "table", "Table that the search-index role indexes",
		func(c *Config) *string { return &c.Roles.SearchTable }, notEmpty),
	text("search-index-fields", "", "name:type,...",
		"Properties that the search-index role indexes; types: text, keyword, number, date. The role needs it",
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
	text("table-index-by", "", "property", "Property by which the table-index role makes its table. The role needs it",
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

func (r *Roles) validate() error {
	switch {
	case r.Account != "" && len(r.Enabled) == 0:
		return errors.New("roles-account needs the option roles")
	case r.LogFlushEvery == 0:
		return errors.New("log-storage-flush-every cannot be 0")
	// The slots of every hour begin at the same minutes, so that the folder of a line follows from its time alone.
	case r.LogSlot < time.Minute || r.LogSlot > time.Hour || r.LogSlot%time.Minute != 0 || time.Hour%r.LogSlot != 0:
		return fmt.Errorf("log-storage-slot %v does not divide an hour into whole minutes", r.LogSlot)
	}
	return nil
}
