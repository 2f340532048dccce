package replog

import (
	"sync"
	"sync/atomic"
	"time"
)

// stats are the numbers of Status. They can be read while apply runs.
type stats struct {
	processed, last, heard atomic.Uint64
	applied, appends       atomic.Uint64
	conflicts, damaged     atomic.Uint64
	appendTime             atomic.Int64
	caughtUp, down         atomic.Bool
	stalled                atomic.Pointer[error] // why the next record cannot be applied; nil if it can

	mu       sync.Mutex // guards the rest
	failed   error
	problem  error
	snapshot SnapshotInfo
}

func (s *stats) position(p Position) {
	s.processed.Store(p.Seq)
	s.last.Store(p.Last)
}

// hear notes that the stream has a message.
func (s *stats) hear(seq uint64) {
	for {
		old := s.heard.Load()
		if old >= seq || s.heard.CompareAndSwap(old, seq) {
			return
		}
	}
}

func (s *stats) append(d time.Duration) {
	s.appends.Add(1)
	s.appendTime.Add(int64(d))
}

func (s *stats) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = err
}

func (s *stats) note(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.problem = err
}

// SnapshotInfo describes a snapshot of what a log has produced.
type SnapshotInfo struct {
	// Seq is the sequence of the last valid record that is part of it.
	Seq uint64
	// Time is the time at which it was complete, Bytes is its size.
	Time  time.Time
	Bytes int64
	// Node is the node that made it.
	Node string
}
