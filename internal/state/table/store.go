package table

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lazuli-storage/lazuli/internal/storage/replog"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/sweep"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// Store is the state of a Table service. It is safe for concurrent use. Close it.
type Store struct {
	db      *store.DB
	log     *slog.Logger
	ticks   ticks.Source // of Timestamps
	tables  tableIDs
	changes changeLog
	cleaner *sweep.Loop
	close   sync.Once

	follower Follower
	watching sync.Map // id -> watchedTable; used with a replicated log only

	shard         int // see InShard
	cleanDelay    time.Duration
	cleaningLater atomic.Bool                // the cleaner will be woken
	lateCleaner   atomic.Pointer[sweep.Loop] // cleaner, once it has started
}

// Failed returns nil if writes are accepted, and otherwise a store.ErrFailed.
func (s *Store) Failed() error { return s.db.Failed() }

// Damages returns the number of reads since Open that failed because of damage.
func (s *Store) Damages() int64 { return s.db.Damages() }

// Database returns the database.
func (s *Store) Database() *store.DB { return s.db }

// Size returns the size of the database on disk in bytes.
func (s *Store) Size() (int64, error) { return s.db.Size() }

// Commits returns how many groups of writes were committed, and the writes in them.
func (s *Store) Commits() (groups, updates int64) { return s.db.Commits() }

// OpenFile opens or creates the file of a Table service, for [Check] and other tools.
func OpenFile(path string, o store.Options) (*store.DB, error) {
	o.Buckets = Buckets()
	return store.Open(path, o)
}

// Open opens or creates the file and starts background work. Options.Buckets and Options.Applied are ignored. f is for
// a store of a cluster.
func Open(path string, o store.Options, f Follower, log *slog.Logger) (*Store, error) {
	s := &Store{log: log, follower: f, cleanDelay: cleanDelay}
	if o.Log != nil {
		o.Applied = s.follow
	}
	db, err := OpenFile(path, o)
	if err != nil {
		return nil, fmt.Errorf("opening table store: %w", err)
	}
	s.db = db
	if err := s.changes.load(db); err != nil {
		_ = db.Close()
		return nil, fmt.Errorf("reading table store: %w", err)
	}
	if o.ReadOnly {
		s.cleaner = sweep.Start(func(context.Context) {}) // what is deleted is removed where it is written
		return s, nil
	}
	s.cleaner = sweep.Start(s.clean)
	// Applied may run before this line; it finds nil then, and the cleaner looks for deleted tables at its start anyway.
	s.lateCleaner.Store(s.cleaner)
	return s, nil
}

// InShard makes the store that of a shard, by its number. The ids of the tables of two shards differ, so that an
// account can be moved with its tables. It must be called before the first table is created.
func (s *Store) InShard(number int) { s.shard = number }

// Replication returns the state of the replicated log; ok is false for a store of a single machine.
func (s *Store) Replication() (r replog.Status, ok bool) { return s.db.Replication() }

// Snapshot puts a snapshot into the replicated log; see [store.DB.Snapshot].
func (s *Store) Snapshot(ctx context.Context) error { return s.db.Snapshot(ctx) }

// Current returns once changes that any node has made before the call are known to this node.
func (s *Store) Current() error {
	if _, ok := s.db.Replication(); !ok {
		return nil
	}
	// A read waits for the log to be applied up to its end as it was when the read began.
	return s.db.View(func(*store.Tx) error { return nil })
}

// Close ends background work and closes the file. It may be called twice; the second call returns nil.
func (s *Store) Close() (err error) {
	s.close.Do(func() {
		s.cleaner.Stop()
		err = s.db.Close()
	})
	return err
}

// EachServiceProperties calls fn with the stored service properties of every account that has any.
func (s *Store) EachServiceProperties(fn func(account string, value []byte) error) error {
	return s.db.View(func(tx *store.Tx) error {
		prefix := propertiesKey("")
		c := tx.Cursor(bucketService)
		for k, v := c.Seek(prefix); len(k) >= len(prefix) && string(k[:len(prefix)]) == string(prefix); k, v = c.Next() {
			if err := fn(string(k[len(prefix):]), v); err != nil {
				return err
			}
		}
		return nil
	})
}

// ChangeServiceProperties replaces the service properties of an account by what change returns for the current ones,
// nil for none. The values are opaque to this package. change may run twice; if it fails, nothing is replaced.
func (s *Store) ChangeServiceProperties(account string, change func(old []byte) ([]byte, error)) error {
	return s.db.Update(func(tx *store.Tx) error {
		value, err := change(tx.Get(bucketService, propertiesKey(account)))
		if err == nil {
			tx.Put(bucketService, propertiesKey(account), value)
		}
		return err
	})
}
