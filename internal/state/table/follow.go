package table

import (
	"bytes"
	"encoding/binary"
	"time"

	"github.com/lazuli-storage/lazuli/internal/state/table/entity"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// Follower is called after changes of any node of a cluster, and never for a store of a single machine. Its functions
// must not block and must not call the Store; each may be nil.
type Follower struct {
	// Properties is called after the service properties of an account changed; value is nil if they were removed.
	Properties func(account string, value []byte)
	// Changed is called after a change was logged of a table for which this node has called Changes.
	Changed func(account, table string)
}

// follow keeps what is in memory in step with what other nodes write. The store calls it for each write, before it
// applies the next record.
func (s *Store) follow(b store.Bucket, w store.Write) {
	switch b {
	case bucketEntities:
		if !w.Deleted() && entity.Record(w.Value).Valid() {
			// The next Timestamp of this node is later than those of others, whose clocks may be ahead: ETags ascend.
			s.ticks.Observe(entity.Record(w.Value).Timestamp())
		}
	case bucketTables:
		// A deleted table, or another one of its name.
		s.tables.forget(string(w.Key))
		if t, err := decodeTable(w.Value); err == nil {
			s.ticks.Observe(t.Created)
		}
	case bucketDeleted:
		if !w.Deleted() {
			s.cleanLater()
		}
	case bucketWatched:
		// Another node has begun a log, and this one has to append to it from its next write on.
		s.changes.on.Store(true)
	case bucketChanges:
		s.tableChanged(w)
	case bucketService:
		if account, ok := bytes.CutPrefix(w.Key, propertiesKey("")); ok && s.follower.Properties != nil {
			s.follower.Properties(string(account), bytes.Clone(w.Value))
		}
	}
}

// cleanDelay is the time after which a node removes the entities of a table that another node has deleted, if they are
// still there: the other node may have stopped.
const cleanDelay = time.Minute

// cleanLater wakes the cleaner after a while.
func (s *Store) cleanLater() {
	if !s.cleaningLater.CompareAndSwap(false, true) {
		return
	}
	time.AfterFunc(s.cleanDelay, func() {
		s.cleaningLater.Store(false)
		if c := s.lateCleaner.Load(); c != nil {
			c.Wake()
		}
	})
}

// watchedTable names a table for which Changes was called.
type watchedTable struct{ account, name string }

func (s *Store) tableChanged(w store.Write) {
	if w.Deleted() || len(w.Key) < entity.TableIDLen || s.follower.Changed == nil {
		return
	}
	if t, ok := s.watching.Load(binary.BigEndian.Uint64(w.Key)); ok {
		s.follower.Changed(t.(watchedTable).account, t.(watchedTable).name)
	}
}
