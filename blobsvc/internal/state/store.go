package state

import (
	"errors"
	"log/slog"
	"sync/atomic"

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

// Store is the state of the Blob service. Each of its fields has the operations on one subject; a subject is a value
// that refers to what all share. All methods are safe for concurrent use.
type Store struct {
	*core
	Accounts     Accounts
	Containers   Containers
	Blobs        Blobs
	BlockBlobs   BlockBlobs
	AppendBlobs  AppendBlobs
	PageBlobs    PageBlobs
	Tags         Tags
	Immutability Immutability
	Copies       Copies
	Paths        Paths
	Feed         Feed
	Maintenance  Maintenance
	Membership   Membership
}

// newStore returns a store of which only the subjects are set.
func newStore(c *core) *Store {
	return &Store{core: c, Accounts: Accounts{c}, Containers: Containers{c}, Blobs: Blobs{c}, BlockBlobs: BlockBlobs{c},
		AppendBlobs: AppendBlobs{c}, PageBlobs: PageBlobs{c}, Tags: Tags{c}, Immutability: Immutability{c},
		Copies: Copies{c}, Paths: Paths{c}, Feed: Feed{c}, Maintenance: Maintenance{c}, Membership: Membership{c}}
}

// core holds what the subjects share: the files, the settings, and what a process keeps in memory. Its methods run the
// transactions of all subjects; all are unexported, since the subjects embed it.
type core struct {
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
	s := newStore(&core{scopes: c.Scopes, policyOf: c.Policy, changed: c.Changed, logEvents: c.LogEvents,
		replicated: c.Cluster != nil})
	if s.policyOf == nil {
		s.policyOf = func(string) Policy { return Policy{} }
	}
	var err error
	if o := (store.Options{Relaxed: c.Relaxed, Ephemeral: c.Ephemeral, FS: c.FS, Logger: c.Logger}); c.Cluster != nil {
		err = s.Membership.openNode(c.Path, c.Extents, o, *c.Cluster)
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

// open opens n bytes from off of b, which was unlocked.
func (s *core) open(tx *store.Tx, b *Blob, off, n int64) (*content.Reader, error) {
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
