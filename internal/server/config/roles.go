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
