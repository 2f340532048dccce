package listing

import (
	"bytes"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// Containers is one request for a page of containers. Deleted containers come before an existing one of their
// name, in the order of their deletion.
type Containers struct {
	Account, Prefix string
	// Deleted includes deleted containers, System includes system containers.
	Deleted, System bool
	// from and deletedFrom are the keys that the page begins at.
	from, deletedFrom []byte
}

// Start sets the beginning of the page to a marker: /account/container, as Azure's are, and for a deleted container
// /version after that. It reports whether the marker is valid. "" is the first page.
func (l *Containers) Start(marker string) bool {
	name := l.Prefix
	l.from = record.ContainerKey(l.Account, name)
	l.deletedFrom = record.ContainerKey(l.Account, name)
	if marker == "" {
		return true
	}
	rest, ok := strings.CutPrefix(marker, "/"+l.Account+"/")
	if !ok {
		return false
	}
	rest, version, ofDeleted := strings.Cut(rest, "/")
	name = max(name, rest)
	l.from = record.ContainerKey(l.Account, name)
	l.deletedFrom = append(record.ContainerKey(l.Account, name), 1) // after all deleted ones of that name
	if ofDeleted {
		at, ok := record.ParseDeletedVersion(version)
		l.deletedFrom = record.DeletedContainerKey(l.Account, name, at)
		return ok
	}
	return true
}

// Marker is the marker of a page that begins with a container.
func (l *Containers) Marker(name string, rec *record.Container) string {
	s := "/" + l.Account + "/" + name
	if rec.Deleted != 0 {
		s += "/" + rec.DeletedVersion()
	}
	return s
}

// Each calls fn for the containers of a listing in order, until it returns false.
func (l *Containers) Each(tx *store.Tx, fn func(name string, rec *record.Container) (more bool)) error {
	within := record.ContainerKey(l.Account, l.Prefix)
	scope := len(l.Account) + 1
	var existing record.Range
	existing.Within(tx, record.ContainersBucket, within)
	existing.Seek(l.from)
	var deleted record.Range
	if l.Deleted {
		deleted.Within(tx, record.DeletedContainersBucket, within)
		deleted.Seek(l.deletedFrom)
	}
	// Two ordered walks are merged. The keys of deleted containers end with 0x00 and the time of the deletion; without
	// that they compare by name, and of equal names the deleted one comes first.
	for existing.Key != nil || deleted.Key != nil {
		w, key := &existing, existing.Key
		if deleted.Key != nil {
			if k := deleted.Key[:max(0, len(deleted.Key)-9)]; existing.Key == nil || bytes.Compare(k, existing.Key) <= 0 {
				w, key = &deleted, k
			}
		}
		if len(key) <= scope {
			return record.ErrKey
		}
		name := string(key[scope:])
		// $root and $web are for everyone who may list; the other names with $ are the system's.
		if name[0] != '$' || name == record.RootContainer || name == record.WebContainer || l.System {
			rec, err := record.DecodeContainer(w.Value)
			if err != nil || !fn(name, &rec) {
				return err
			}
		}
		w.Next()
	}
	return nil
}
