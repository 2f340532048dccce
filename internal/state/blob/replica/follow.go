package replica

import (
	"bytes"
	"context"
	"sync"

	"github.com/lazuli-storage/lazuli/internal/eventlog"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/storage/replog"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// Follower is called after changes of any node of a cluster, this one included, and never for a store of a single
// machine. Its functions must not block and must not call the Store; each may be nil.
type Follower struct {
	// Properties is called after the service properties of an account changed; value is nil if they were removed.
	Properties func(account string, value []byte)
	// Account is called after an account was added, changed or removed; value is nil if it was removed.
	Account func(name string, value []byte)
	// Written is called after a blob was created or written in a container for which this node has called
	// [Node.Watch]; with "" after something was written in any tree.
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
func (s *Node) Replication() (r replog.Status, ok bool) {
	if r, ok = s.DB.Replication(); r.Err == nil && s.owner.retired.Load() {
		r.Err = errRetired
	}
	return r, ok
}

// Snapshot puts a snapshot into the replicated log; see [store.DB.Snapshot].
func (s *Node) Snapshot(ctx context.Context) error { return s.DB.Snapshot(ctx) }

// Replicated reports whether the store is a view of a replicated log.
func (s *Node) Replicated() bool { return s.replicated }

// watched are the containers whose writes by other nodes are reported.
type watched struct {
	mu         sync.RWMutex // guards the rest
	containers map[string]record.Generation
	names      map[record.Generation]string // keys of the bucket of containers
}

// set notes the generation of a watched container, 0 if it does not exist.
func (w *watched) set(key string, gen record.Generation) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.setLocked(key, gen)
}

func (w *watched) setLocked(key string, gen record.Generation) {
	if w.containers == nil {
		w.containers = map[string]record.Generation{}
		w.names = map[record.Generation]string{}
	}
	delete(w.names, w.containers[key])
	w.containers[key] = gen
	if gen != 0 {
		w.names[gen] = key
	}
}

// learn is set for what a read has found: what follow has set meanwhile is newer.
func (w *watched) learn(key string, gen record.Generation) {
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
func (w *watched) name(gen record.Generation) string {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.names[gen]
}

// trees returns the keys of the watched containers that are trees.
func (w *watched) trees() (keys []string) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	for gen, key := range w.names {
		if gen.IsTree() {
			keys = append(keys, key)
		}
	}
	return keys
}

// Watch asks for calls of Follower.Written for a container, as long as the process runs. Changes that a later read of
// the container does not see are reported.
func (s *Node) Watch(account, container string) error {
	key := record.ContainerKey(account, container)
	if !s.replicated || s.watched.has(key) {
		return nil
	}
	// Before the read, so that follow notes a change that the read does not see.
	s.watched.set(string(key), 0)
	return s.DB.View(func(tx *store.Tx) error {
		if gen, err := record.GenerationOf(tx, account, container); err == nil {
			s.watched.learn(string(key), gen)
		}
		return nil
	})
}

// follow keeps what is in memory in step with the log. The store calls it for each write, before it applies the next
// record.
func (s *Node) follow(b store.Bucket, w store.Write) {
	f := &s.cluster.Follower
	// Only what a node has in memory is of interest here; the database itself is changed by the store. The write may be
	// one of this node, which learns of it as the others do.
	switch b {
	case record.BlobsBucket:
		s.noteUnreferenced(w)
		s.followBlob(w)
	case record.BlocksBucket, record.ContentBucket:
		s.noteUnreferenced(w)
	case record.ContainersBucket:
		if s.watched.has(w.Key) {
			// Created again, the container has another generation, by which its blobs are found from now on.
			rec, err := record.DecodeContainer(w.Value)
			if w.Deleted() || err != nil {
				rec = record.Container{}
			}
			s.watched.set(string(w.Key), rec.Generation)
		}
	case record.AccountsBucket:
		if f.Properties != nil {
			f.Properties(string(w.Key), bytes.Clone(w.Value))
		}
	case record.CopiesBucket:
		if !w.Deleted() && f.CopyBegun != nil {
			f.CopyBegun()
		}
	case record.MetaBucket:
		s.followMeta(w)
	case record.SubscriptionsBucket:
		if eventlog.IsSubscription(w.Key) && f.Subscribed != nil {
			f.Subscribed()
		}
	case record.EventsBucket:
		if account, _, err := eventlog.ParseKey(w.Key); err == nil && !w.Deleted() && f.EventLogged != nil {
			f.EventLogged(account)
		}
	}
}

func (s *Node) followMeta(w store.Write) {
	if bytes.Equal(w.Key, workerKey) {
		found := decodeWorker(w.Value)
		s.worker.Store(&found)
		return
	}
	if number, ok := bytes.CutPrefix(w.Key, retiredPrefix); ok && !w.Deleted() {
		s.nodes.retire(number)
	}
	if bytes.Equal(w.Key, hostsKey) && s.cluster.Spread && !w.Deleted() {
		_ = s.learnHosts(w.Value) // the guard reports what does not parse
	}
	if id, ok := bytes.CutPrefix(w.Key, scopeKeyPrefix); ok && !w.Deleted() {
		_ = s.scopes.Learn(string(id), w.Value) // a key of wrong length is reported at the next start
	}
	if name, ok := record.ParseAccountKey(w.Key); ok && s.cluster.Follower.Account != nil {
		s.cluster.Follower.Account(name, bytes.Clone(w.Value))
	}
	s.followOwner(w)
	s.followTier(w)
	if node, ok := bytes.CutPrefix(w.Key, nodePrefix); ok {
		s.nodes.learn(string(node), w.Value)
	}
}

// noteUnreferenced makes this node look for content without references after a change, of whatever node, that may have
// removed one.
func (s *Node) noteUnreferenced(w store.Write) {
	if w.Deleted() && s.Freed.Load() == 0 {
		s.Freed.Add(1)
	}
}

// followBlob reports a base blob that was written in a watched container.
func (s *Node) followBlob(w store.Write) {
	if s.cluster.Follower.Written == nil || w.Deleted() {
		return
	}
	it, slot, err := record.ParseBlobKey(w.Key)
	if err != nil || slot != record.BaseSlot {
		return
	}
	if it.InTree() { // whose path only a transaction can tell
		// The record does not say in which tree it is, so all watched ones are reported as changed somewhere.
		for _, key := range s.watched.trees() {
			if account, container, err := record.ParseContainerKey([]byte(key)); err == nil {
				s.cluster.Follower.Written(account, container, "")
			}
		}
	} else if key := s.watched.name(it.Generation); key != "" {
		if account, container, err := record.ParseContainerKey([]byte(key)); err == nil {
			s.cluster.Follower.Written(account, container, it.Name)
		}
	}
}
