package state

import (
	"bytes"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// ContainerListing is one request for a page of containers. Deleted containers come before an existing one of their
// name, in the order of their deletion.
type ContainerListing struct {
	Account, Prefix string
	// Deleted includes deleted containers, System includes system containers.
	Deleted, System bool
	// from and deletedFrom are the keys that the page begins at.
	from, deletedFrom []byte
}

// Start sets the beginning of the page to a marker: /account/container, as Azure's are, and for a deleted container
// /version after that. It reports whether the marker is valid. "" is the first page.
func (l *ContainerListing) Start(marker string) bool {
	name := l.Prefix
	l.from, l.deletedFrom = containerKey(l.Account, name), containerKey(l.Account, name)
	if marker == "" {
		return true
	}
	rest, ok := strings.CutPrefix(marker, "/"+l.Account+"/")
	if !ok {
		return false
	}
	rest, version, ofDeleted := strings.Cut(rest, "/")
	name = max(name, rest)
	l.from = containerKey(l.Account, name)
	l.deletedFrom = append(containerKey(l.Account, name), 1) // after all deleted ones of that name
	if ofDeleted {
		at, ok := ParseDeletedVersion(version)
		l.deletedFrom = deletedContainerKey(l.Account, name, at)
		return ok
	}
	return true
}

// Marker is the marker of a page that begins with a container.
func (l *ContainerListing) Marker(name string, rec *Container) string {
	s := "/" + l.Account + "/" + name
	if rec.Deleted != 0 {
		s += "/" + rec.DeletedVersion()
	}
	return s
}

// List calls fn for the containers of a listing in order, until it returns false.
func (s Containers) List(l *ContainerListing, fn func(name string, rec *Container) (more bool)) error {
	return s.db.View(func(tx *store.Tx) error { return l.walk(tx, fn) })
}

func (l *ContainerListing) walk(tx *store.Tx, fn func(name string, rec *Container) (more bool)) error {
	within := containerKey(l.Account, l.Prefix)
	scope := len(l.Account) + 1
	existing := walker{cur: tx.Cursor(containersBucket), within: within}
	existing.seek(l.from)
	var deleted walker
	if l.Deleted {
		deleted = walker{cur: tx.Cursor(deletedContainersBucket), within: within}
		deleted.seek(l.deletedFrom)
	}
	for existing.key != nil || deleted.key != nil {
		w, key := &existing, existing.key
		if deleted.key != nil {
			if k := deleted.key[:max(0, len(deleted.key)-9)]; existing.key == nil || bytes.Compare(k, existing.key) <= 0 {
				w, key = &deleted, k
			}
		}
		if len(key) <= scope {
			return errKey
		}
		name := string(key[scope:])
		if name[0] != '$' || name == RootContainer || name == WebContainer || l.System {
			rec, err := decodeContainer(w.value)
			if err != nil || !fn(name, &rec) {
				return err
			}
		}
		w.next()
	}
	return nil
}
