package blob

import (
	"encoding/binary"
	"errors"
	"log/slog"

	"github.com/lazuli-storage/lazuli/internal/eventlog"
	"github.com/lazuli-storage/lazuli/internal/state/blob/encryption"
	"github.com/lazuli-storage/lazuli/internal/state/blob/maintain"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/state/blob/replica"
	"github.com/lazuli-storage/lazuli/internal/storage/disk"
	"github.com/lazuli-storage/lazuli/internal/storage/extent"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/tier"
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
	// ReadOnly opens files that another program changes while they are closed, those of a standby.
	ReadOnly bool
	// Archive gets the log of the database, and the content; nil sends them nowhere. It does not go together with Cluster.
	Archive replica.Archive
	// Tier has content that is not in Extents any more; with nil all is. It does not go together with Cluster.
	Tier *tier.Options
	// Cluster makes the store that of a node of a cluster. Relaxed and Ephemeral do not go together with it.
	Cluster *replica.Cluster
	// Scopes holds the keys of encryption scopes. Required.
	Scopes *encryption.Scopes
	// Policy returns the settings of an account for background work. Nil returns the zero value.
	Policy func(account string) Policy
	// LogEvents records the events of accounts with subscriptions in the event log. EventLogged, if set, is called with
	// the account after a change with an event in the log has been committed, and before the change returns. It must not
	// block.
	LogEvents   bool
	EventLogged func(account string)
	// FirstID is the least number that the database draws, by which those of two shards differ; 0 is 1.
	FirstID uint64
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
	Maintenance  *maintain.Maintenance
	Membership   *replica.Node
}

// newStore returns the subjects of a core that has its files.
func newStore(c *core) *Store {
	return &Store{core: c, Accounts: Accounts{c}, Containers: Containers{c}, Blobs: Blobs{c}, BlockBlobs: BlockBlobs{c},
		AppendBlobs: AppendBlobs{c}, PageBlobs: PageBlobs{c}, Tags: Tags{c}, Immutability: Immutability{c},
		Copies: Copies{c}, Paths: Paths{c}, Feed: Feed{c}, Maintenance: c.maintenance, Membership: c.node}
}

// EventLog returns the event log, which the other services share.
func (s *Store) EventLog() *eventlog.Log { return s.log }

// Failed returns nil if writes are accepted, and otherwise a store.ErrFailed.
func (s *Store) Failed() error { return s.db.Failed() }

// Damages returns the number of reads since Open that failed because of damage: of the database, and of content.
func (s *Store) Damages() (metadata, content int64) { return s.db.Damages(), s.extents.Damages() }

// Open opens the state. Close it.
func Open(c Config) (*Store, error) {
	node, err := replica.Open(replica.Config{Path: c.Path, Extents: c.Extents, Scopes: c.Scopes, Cluster: c.Cluster,
		Archive: c.Archive, Tier: c.Tier, Store: store.Options{ReadOnly: c.ReadOnly,
			Relaxed: c.Relaxed, Ephemeral: c.Ephemeral, FS: c.FS, Logger: c.Logger}})
	if err != nil {
		return nil, err
	}
	if c.FirstID > 1 {
		if err := numberFrom(node.DB, c.FirstID); err != nil {
			return nil, errors.Join(err, node.Close())
		}
	}
	shared := &core{node: node, db: node.DB, extents: node.Extents, scopes: c.Scopes, policyOf: c.Policy,
		changed: c.Changed, logEvents: c.LogEvents}
	if shared.policyOf == nil {
		shared.policyOf = func(string) Policy { return Policy{} }
	}
	shared.maintenance = maintain.New(node, shared.expired)
	s := newStore(shared)
	s.log, err = eventlog.Open(eventlog.Config{DB: s.db, Events: record.EventsBucket,
		Subscriptions: record.SubscriptionsBucket,
		Next:          record.NextID, Last: record.LastID, Check: node.CheckWorker, Shared: node.Replicated(),
		Notify: c.EventLogged})
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// numberFrom makes a database draw no number below first. Only the first start of a shard changes something.
func numberFrom(db *store.DB, first uint64) error {
	reached := false
	err := db.View(func(tx *store.Tx) error { reached = record.LastID(tx)+1 >= first; return nil })
	if err != nil || reached {
		return err
	}
	return db.Update(func(tx *store.Tx) error {
		if record.LastID(tx)+1 < first {
			tx.Put(record.MetaBucket, record.NextKey, binary.BigEndian.AppendUint64(nil, first))
		}
		return nil
	})
}

// Close closes the files. Nothing may be under way.
func (s *Store) Close() error { return s.node.Close() }

// Extents returns the content, where uploads are stored before a write refers to them.
func (s *Store) Extents() *extent.Store { return s.extents }
