package replica

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// worker is the node of a cluster that does the background work which one node can do for all. The record saves work
// and nothing depends on it: each step of the work is a transaction that checks what it changes, since two nodes may
// take themselves for the worker.
//
// In the database it is 8 bytes with the end of its term in ticks, and the node's name.
type worker struct {
	node  string
	until ticks.Ticks
}

// ErrNotWorker means that another node of the cluster does this work now. Nothing has changed.
var ErrNotWorker = errors.New("blob state: another node of the cluster does this work")

// workerTerm is the time that a node that has stopped remains the worker.
const workerTerm = 30 * time.Second

var workerKey = []byte("worker")

func (w worker) encode() []byte {
	return append(binary.BigEndian.AppendUint64(nil, uint64(w.until)), w.node...)
}

// decodeWorker returns the zero value for a record that it cannot read.
func decodeWorker(v []byte) (w worker) {
	if len(v) > 8 {
		w = worker{node: string(v[8:]), until: ticks.Ticks(binary.BigEndian.Uint64(v))}
	}
	return w
}

// Worker returns the node that does the work of the cluster, as far as this node knows; "" for none.
func (s *Node) Worker() string {
	if w := s.worker.Load(); w != nil {
		return w.node
	}
	return ""
}

// Name returns the name of this node's data folder; "" for a store of a single machine.
func (s *Node) Name() string { return s.cluster.Node }

// CheckWorker returns [ErrNotWorker] if another node has become the worker. Within a transaction that is certain.
func (s *Node) CheckWorker(tx *store.Tx) error {
	if s.replicated && decodeWorker(tx.Get(record.MetaBucket, workerKey)).node != s.cluster.Node {
		return ErrNotWorker
	}
	return nil
}

// Claim reports whether this node is the worker, after it has tried to become that if no other node is. A single
// machine always is.
func (s *Node) Claim(now time.Time) (bool, error) {
	if !s.replicated {
		return true, nil
	}
	at, term := ticks.Of(now), ticks.Of(now.Add(workerTerm))-ticks.Of(now)
	if w := s.worker.Load(); w != nil {
		// What this node knows of the record saves a transaction: it renews its own term in the second half alone. An end
		// too far ahead is of a clock that was wrong, and is not trusted.
		mine, left := w.node == s.cluster.Node, w.until-at
		if mine && left > term/2 && left <= term || !mine && left > 0 && left <= 2*term {
			return mine, nil
		}
	}
	var found worker
	err := s.DB.Update(func(tx *store.Tx) error {
		// The time of the cluster, not before the last change: a node whose clock is behind does not take a term for
		// running that others have seen end.
		at := s.Now(tx, now)
		if found = decodeWorker(tx.Get(record.MetaBucket, workerKey)); found.node == s.cluster.Node || found.until <= at {
			found = worker{s.cluster.Node, at + term}
			tx.Put(record.MetaBucket, workerKey, found.encode())
		}
		return nil
	})
	if err != nil {
		return false, err
	}
	s.worker.Store(&found)
	return found.node == s.cluster.Node, nil
}
