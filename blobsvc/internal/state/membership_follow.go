package state

import (
	"bytes"
	"context"
	"encoding/binary"
	"sync"
	"time"

	"github.com/lazuli-storage/lazuli/internal/eventlog"
	"github.com/lazuli-storage/lazuli/internal/storage/replog"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// A store with Config.Cluster is a view of a replicated log: several nodes of a cluster write to it. Everything that a
// change depends on is in the database then; what a node has in memory follows the log (follow). Three things differ
// from a store of a single machine:
//
//   - Times. The clocks of nodes differ. The database has the last time that identifies a change, and a transaction
//     takes a later one. So times
//     are unique in the cluster and ascend in the order of the log, and a lease does not end early on a node whose clock is behind.
//   - Background work runs on all nodes at a time without harm: each step is a transaction that checks what it changes.
//     Claim lets one node do
//     what would only be repeated.
//   - Events. Whether an account has subscriptions is read in the transaction of the change.

// Follower is called after changes of any node of a cluster, this one included, and never for a store of a single
// machine. Its functions must not block and must not call the Store; each may be nil.
type Follower struct {
	// Properties is called after the service properties of an account changed; value is nil if they were removed.
	Properties func(account string, value []byte)
	// Written is called after a blob was created or written in a container for which this node has called
	// [Membership.Watch]; with "" after something was written in any tree.
	Written func(account, container, blob string)
	// CopyBegun is called after a pending copy was recorded.
	CopyBegun func()
	// EventLogged is called with the account after an event was logged.
	EventLogged func(account string)
	// Subscribed is called after an event subscription was added, changed or removed.
	Subscribed func()
}

// Replication returns the state of the replicated log; ok is false for a store of a single machine.
// A process whose session has ended does not follow the log any more.
func (s Membership) Replication() (r replog.Status, ok bool) {
	if r, ok = s.db.Replication(); r.Err == nil && s.owner.retired.Load() {
		r.Err = errRetired
	}
	return r, ok
}

// Snapshot puts a snapshot into the replicated log; see [store.DB.Snapshot].
func (s Membership) Snapshot(ctx context.Context) error { return s.db.Snapshot(ctx) }

// Replicated reports whether the store is a view of a replicated log.
func (s Membership) Replicated() bool { return s.replicated }

// clockKey is the key of the last time in ticks that identifies a change, of a store of a cluster.
var clockKey = []byte("clock")

func clockOf(tx *store.Tx) ticks.Ticks {
	if v := tx.Get(metaBucket, clockKey); len(v) == 8 {
		return ticks.Ticks(binary.BigEndian.Uint64(v))
	}
	return 0
}

// stamp returns the time that identifies a change, given the one that the process has drawn for it before the
// transaction.
func (s *core) stamp(tx *store.Tx, drawn ticks.Ticks) ticks.Ticks {
	if !s.replicated {
		return drawn
	}
	// The clock is in the database, so the record that carries this time is valid only if no other node has taken a
	// time in between.
	at := max(drawn, clockOf(tx)+1)
	tx.Put(metaBucket, clockKey, binary.BigEndian.AppendUint64(nil, uint64(at)))
	return at
}

// now returns the time of a request for a transaction that changes something.
func (s *core) now(tx *store.Tx, request time.Time) ticks.Ticks {
	now := ticks.Of(request)
	if s.replicated {
		now = max(now, clockOf(tx))
	}
	return now
}

// watched are the containers whose writes by other nodes are reported.
type watched struct {
	mu         sync.RWMutex // guards the rest
	containers map[string]generation
	names      map[generation]string // keys of the bucket of containers
}

// set notes the generation of a watched container, 0 if it does not exist.
func (w *watched) set(key string, gen generation) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.setLocked(key, gen)
}

func (w *watched) setLocked(key string, gen generation) {
	if w.containers == nil {
		w.containers, w.names = map[string]generation{}, map[generation]string{}
	}
	delete(w.names, w.containers[key])
	w.containers[key] = gen
	if gen != 0 {
		w.names[gen] = key
	}
}

// learn is set for what a read has found: what follow has set meanwhile is newer.
func (w *watched) learn(key string, gen generation) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.containers[key] == 0 {
		w.setLocked(key, gen)
	}
}

// has reports whether a container is watched.
func (w *watched) has(key []byte) bool {
	w.mu.RLock()
	defer w.mu.RUnlock()
	_, ok := w.containers[string(key)]
	return ok
}

// name returns the key of a watched container, "" if it is not watched.
func (w *watched) name(gen generation) string {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.names[gen]
}

// trees returns the keys of the watched containers that are trees.
func (w *watched) trees() (keys []string) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	for gen, key := range w.names {
		if gen.isTree() {
			keys = append(keys, key)
		}
	}
	return keys
}

// Watch asks for calls of Follower.Written for a container, as long as the process runs. Changes that a later read of
// the container does not see are reported.
func (s Membership) Watch(account, container string) error {
	key := containerKey(account, container)
	if !s.replicated || s.watched.has(key) {
		return nil
	}
	// Before the read, so that follow notes a change that the read does not see.
	s.watched.set(string(key), 0)
	return s.db.View(func(tx *store.Tx) error {
		if gen, err := containerGeneration(tx, account, container); err == nil {
			s.watched.learn(string(key), gen)
		}
		return nil
	})
}

// follow keeps what is in memory in step with the log. The store calls it for each write, before it applies the next
// record.
func (s Membership) follow(b store.Bucket, w store.Write) {
	f := &s.cluster.Follower
	switch b {
	case blobsBucket:
		s.noteUnreferenced(w)
		s.followBlob(w)
	case blocksBucket, contentBucket:
		s.noteUnreferenced(w)
	case containersBucket:
		if s.watched.has(w.Key) {
			rec, err := decodeContainer(w.Value)
			if w.Deleted() || err != nil {
				rec = Container{}
			}
			s.watched.set(string(w.Key), rec.generation)
		}
	case accountsBucket:
		if f.Properties != nil {
			f.Properties(string(w.Key), bytes.Clone(w.Value))
		}
	case copiesBucket:
		if !w.Deleted() && f.CopyBegun != nil {
			f.CopyBegun()
		}
	case metaBucket:
		s.followMeta(w)
	case subscriptionsBucket:
		if eventlog.IsSubscription(w.Key) && f.Subscribed != nil {
			f.Subscribed()
		}
	case eventsBucket:
		if account, _, err := eventlog.ParseKey(w.Key); err == nil && !w.Deleted() && f.EventLogged != nil {
			f.EventLogged(account)
		}
	}
}

func (s Membership) followMeta(w store.Write) {
	if bytes.Equal(w.Key, workerKey) {
		found := decodeWorker(w.Value)
		s.worker.Store(&found)
		return
	}
	if id, ok := bytes.CutPrefix(w.Key, scopeKeyPrefix); ok && !w.Deleted() {
		_ = s.scopes.Learn(string(id), w.Value) // a key of wrong length is reported at the next start
	}
	s.followOwner(w)
	if node, ok := bytes.CutPrefix(w.Key, nodePrefix); ok {
		s.nodes.learn(string(node), w.Value)
	}
}

// scopeKeyPrefix begins the keys of the keys of encryption scopes, which the nodes of a cluster share. A single machine
// has them in a file.
var scopeKeyPrefix = []byte("scope:")

// agreeOnScopes makes the scopes use the keys of the cluster.
func (s Membership) agreeOnScopes() error {
	s.scopes.Agree(s.agreeOnKey)
	return s.db.View(func(tx *store.Tx) error {
		cur := tx.Cursor(metaBucket)
		for k, v := cur.Seek(scopeKeyPrefix); bytes.HasPrefix(k, scopeKeyPrefix); k, v = cur.Next() {
			if err := s.scopes.Learn(string(k[len(scopeKeyPrefix):]), v); err != nil {
				return err
			}
		}
		return nil
	})
}

// agreeOnKey returns the key of a scope in the cluster, and stores the given one if the cluster has no key for it.
func (s Membership) agreeOnKey(id string, key []byte) (agreed []byte, err error) {
	err = s.db.Update(func(tx *store.Tx) error {
		k := append(bytes.Clone(scopeKeyPrefix), id...)
		if agreed = bytes.Clone(tx.Get(metaBucket, k)); agreed == nil {
			agreed = key
			tx.Put(metaBucket, k, key)
		}
		return nil
	})
	return agreed, err
}

// noteUnreferenced makes this node look for content without references after a change, of whatever node, that may have
// removed one.
func (s Membership) noteUnreferenced(w store.Write) {
	if w.Deleted() && s.freed.Load() == 0 {
		s.freed.Add(1)
	}
}

// followBlob reports a base blob that was written in a watched container.
func (s Membership) followBlob(w store.Write) {
	if s.cluster.Follower.Written == nil || w.Deleted() {
		return
	}
	it, slot, err := parseBlobKey(w.Key)
	if err != nil || slot != baseSlot {
		return
	}
	if it.inTree() { // whose path only a transaction can tell
		// The record does not say in which tree it is, so all watched ones are reported as changed somewhere.
		for _, key := range s.watched.trees() {
			if account, container, err := parseContainerKey([]byte(key)); err == nil {
				s.cluster.Follower.Written(account, container, "")
			}
		}
	} else if key := s.watched.name(it.gen); key != "" {
		if account, container, err := parseContainerKey([]byte(key)); err == nil {
			s.cluster.Follower.Written(account, container, it.name)
		}
	}
}
