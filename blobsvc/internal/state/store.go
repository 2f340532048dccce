package state

import (
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/content"
	"github.com/lazuli-storage/lazuli/blobsvc/internal/encryption"
	"github.com/lazuli-storage/lazuli/internal/eventlog"
	"github.com/lazuli-storage/lazuli/internal/storage/disk"
	"github.com/lazuli-storage/lazuli/internal/storage/extent"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// Config configures a [Store].
type Config struct {
	// Path is the database with everything but content; Extents is the folder of the content. They are created if
	// absent, in a folder that exists.
	Path, Extents string
	// Logger receives what was cut off after a crash; nil means none.
	Logger *slog.Logger
	// Relaxed acknowledges writes before they are synced. Ephemeral keeps nothing past the process.
	Relaxed, Ephemeral bool
	// Cluster makes the store that of a node of a cluster. Relaxed and Ephemeral do not go together with it.
	Cluster *Cluster
	// Scopes holds the keys of encryption scopes. Required.
	Scopes *encryption.Scopes
	// Policy returns the settings of an account for background work. Nil returns the zero value.
	Policy func(account string) Policy
	// LogEvents records the events of accounts with subscriptions in the event log. EventLogged, if set, is called with
	// the account after a change with an event in the log has been committed, and before the change returns. It must not
	// block.
	LogEvents   bool
	EventLogged func(account string)
	// FS is the file system to write content and the log of the database through; nil means disk.OS.
	FS disk.FS
	// Changed, if set, is called after a write of a blob has been committed, and before the write returns. It must not
	// block.
	Changed func(account, container, blob string)
}

// Store is the state of the Blob service. Its methods are safe for concurrent use.
type Store struct {
	db       *store.DB
	extents  *extent.Store
	scopes   *encryption.Scopes
	policyOf func(account string) Policy
	changed  func(account, container, blob string)
	ticks    ticks.Source
	// replicated is set with Config.Log; what follows is used then.
	replicated bool
	cluster    Cluster
	mirror     copies // nil on a single machine
	owner      owner
	nodes      nodeNumbers
	watched    watched
	worker     atomic.Pointer[worker]

	accesses accesses
	// freed is the content in bytes that lost its last reference since the last compaction.
	freed      atomic.Int64
	compaction schedule
	// compactions, compactionFreed and compactionMoved count the compactions and their bytes, see [Usage].
	compactions, compactionFreed, compactionMoved atomic.Int64

	// log is the event log; logEvents is set if it gets the events of blobs.
	log       *eventlog.Log
	logEvents bool
}

// EventLog returns the event log, which the other services share.
func (s *Store) EventLog() *eventlog.Log { return s.log }

// Failed returns nil if writes are accepted, and otherwise a store.ErrFailed.
func (s *Store) Failed() error { return s.db.Failed() }

// Damages returns the number of reads since Open that failed because of damage: of the database, and of content.
func (s *Store) Damages() (metadata, content int64) { return s.db.Damages(), s.extents.Damages() }

// Open opens the state. Close it.
func Open(c Config) (*Store, error) {
	s := &Store{scopes: c.Scopes, policyOf: c.Policy, changed: c.Changed, logEvents: c.LogEvents,
		replicated: c.Cluster != nil}
	if s.policyOf == nil {
		s.policyOf = func(string) Policy { return Policy{} }
	}
	var err error
	if o := (store.Options{Relaxed: c.Relaxed, Ephemeral: c.Ephemeral, FS: c.FS, Logger: c.Logger}); c.Cluster != nil {
		err = s.openNode(c.Path, c.Extents, o, *c.Cluster)
	} else {
		err = s.openFiles(c.Path, c.Extents, o, 0)
	}
	if err != nil {
		return nil, err
	}
	s.log, err = eventlog.Open(eventlog.Config{DB: s.db, Events: eventsBucket, Subscriptions: subscriptionsBucket,
		Next: nextID, Last: lastID, Check: s.checkWorker, Shared: s.replicated, Notify: c.EventLogged})
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Close closes the files. Nothing may be under way.
func (s *Store) Close() error {
	if s.mirror != nil {
		s.mirror.Close()
	}
	return errors.Join(s.db.Close(), s.extents.Close())
}

// Extents returns the content, where uploads are stored before a write refers to them.
func (s *Store) Extents() *extent.Store { return s.extents }

// Tick returns now, or the first later time that no other change has.
func (s *Store) Tick(now time.Time) ticks.Ticks { return s.ticks.Next(now) }

// EachProperties calls fn with the service properties of all accounts, as [Store.ChangeProperties] stored them.
func (s *Store) EachProperties(fn func(account string, value []byte) error) error {
	return s.db.View(func(tx *store.Tx) error {
		cur := tx.Cursor(accountsBucket)
		for k, v := cur.Seek(nil); k != nil; k, v = cur.Next() {
			if err := fn(string(k), v); err != nil {
				return err
			}
		}
		return nil
	})
}

// ChangeProperties replaces the service properties of an account by what change returns for the current ones, nil for
// none. website creates the container of its static website if it does not exist. change may run twice; if it fails,
// nothing is replaced.
func (s *Store) ChangeProperties(account string, now time.Time,
	change func(old []byte) (value []byte, website bool, err error)) error {
	changed := s.ticks.Next(now)
	return s.db.Update(func(tx *store.Tx) error {
		value, website, err := change(tx.Get(accountsBucket, []byte(account)))
		if err != nil {
			return err
		}
		tx.Put(accountsBucket, []byte(account), value)
		if key := containerKey(account, WebContainer); website && tx.Get(containersBucket, key) == nil {
			rec := Container{generation: generation(nextID(tx)), Changed: s.stamp(tx, changed)}
			tx.Put(containersBucket, key, rec.encode())
		}
		return nil
	})
}

// open opens n bytes from off of b, which was unlocked.
func (s *Store) open(tx *store.Tx, b *Blob, off, n int64) (*content.Reader, error) {
	x, err := b.content.extract(tx, off, n, b.Length)
	if err != nil {
		return nil, err
	}
	return x.Open(s.extents, b.Encryption, b.opened)
}

// The containers with a special meaning.
const (
	// RootContainer holds the blobs that are addressed without a container.
	RootContainer = "$root"
	// WebContainer holds the blobs of the static website.
	WebContainer = "$web"
	// LogsContainer holds the logs of Storage Analytics; the system alone writes them.
	LogsContainer = "$logs"
	// ChangeFeedContainer holds the change feed; the system alone writes it.
	ChangeFeedContainer = "$blobchangefeed"
)

// Reset deletes the containers of an account whose names begin with prefix, and returns how many there were. It ignores
// leases and immutability, and nothing can be restored. With an empty prefix it deletes the service properties too.
func (s *Store) Reset(account, prefix string) (deleted int, err error) {
	err = s.db.Update(func(tx *store.Tx) error {
		var err error
		if deleted, err = deleteContainers(tx, containersBucket, account, prefix); err != nil {
			return err
		}
		if _, err = deleteContainers(tx, deletedContainersBucket, account, prefix); err != nil {
			return err
		}
		if prefix == "" {
			tx.Delete(accountsBucket, []byte(account))
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("reset %s: %w", account, err)
	}
	s.freed.Add(int64(deleted))
	return deleted, nil
}
