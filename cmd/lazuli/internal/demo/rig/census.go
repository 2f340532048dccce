package rig

import (
	"fmt"
	"slices"
	"strings"
)

// Key is partition and row key.
type Key struct{ Partition, Row string }

func (k Key) String() string { return k.Partition + "/" + k.Row }

// Contents are the entities of a table: a hash of the content by key.
type Contents map[Key]string

// Census says where each of a set of records is. The categories are those of a Jepsen queue checker, in our words.
type Census struct {
	// Moved are in the archive alone, Kept in Current alone: where they are when all is well depends on what was asked.
	Moved, Kept []Key
	// Both are in the two tables: legal while a message is in work, a duplicate afterwards.
	Both []Key
	// Lost are in neither.
	Lost []Key
	// Changed are those, wherever they are, whose content differs from what was loaded.
	Changed []Key
	// Surplus are those of Changed that have more entities than in any state that they should have.
	Surplus []Key
	// Orphans are the names of what belongs to no item, such as blobs that no entity references.
	Orphans []string
}

// Take counts the records of loaded in both tables.
func Take(loaded, current, archive Contents) Census {
	var c Census
	for k, want := range loaded {
		here, inCurrent := current[k]
		there, inArchive := archive[k]
		switch {
		case inCurrent && inArchive:
			c.Both = append(c.Both, k)
		case inCurrent:
			c.Kept = append(c.Kept, k)
		case inArchive:
			c.Moved = append(c.Moved, k)
		default:
			c.Lost = append(c.Lost, k)
		}
		if inCurrent && here != want || inArchive && there != want {
			c.Changed = append(c.Changed, k)
		}
	}
	return c
}

// Strangers returns the entities of a table that the run did not load.
func Strangers(loaded, table Contents) []Key {
	var s []Key
	for k := range table {
		if _, ok := loaded[k]; !ok {
			s = append(s, k)
		}
	}
	return s
}

// Problem describes the keys of a set that should be empty; it returns nil if the set is empty.
func Problem(what string, keys []Key) []string {
	if len(keys) == 0 {
		return nil
	}
	names := make([]string, 0, len(keys))
	for _, k := range keys {
		names = append(names, k.String())
	}
	slices.Sort(names)
	const shown = 5
	more := ""
	if len(names) > shown {
		names, more = names[:shown], fmt.Sprintf(" and %d more", len(keys)-shown)
	}
	return []string{fmt.Sprintf("%d %s: %s%s", len(keys), what, strings.Join(names, ", "), more)}
}
