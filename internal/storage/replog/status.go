package replog

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Status is the state of a log on one node.
type Status struct {
	// Name and ID identify the log, Stream is that of its records, Node the node.
	Name, ID, Stream, Node string
	// Applied is the sequence of the last valid record that was applied, Processed that of the last message.
	Applied, Processed uint64
	// Last is the highest sequence that this node has heard of, and Lag how many messages it has not processed.
	Last, Lag uint64
	// CatchingUp is true until the node has processed all messages for the first time, and while it lags by more than
	// LagLimit messages.
	CatchingUp bool
	// Available is false while no majority of the log's servers answers.
	Available bool
	// Records is the number of records applied since Open, Appends the number of those that this node has appended,
	// Conflicts the number of appends that another record overtook.
	Records, Appends, Conflicts uint64
	// AppendTime is the total time of the successful appends.
	AppendTime time.Duration
	// Damaged is the number of messages that had a wrong checksum and were read from another replica.
	Damaged uint64
	// Snapshot is the last snapshot in the cluster that this node knows of; the zero value if it knows none.
	Snapshot SnapshotInfo
	// Problem is the last error of reading the log; nil if there was none since it was last available.
	Problem error
	// Err is the error that ended following, nil while the log follows.
	Err error
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

// LagLimit is the number of messages from which on a node counts as catching up.
const LagLimit = 10_000

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

// Status returns the state of the log. It does not wait for apply.
func (l *Log) Status() Status {
	s := &l.stats
	st := Status{
		Name: l.config.Name, ID: l.id, Stream: l.stream, Node: l.config.Node,
		Applied: s.last.Load(), Processed: s.processed.Load(), Last: s.heard.Load(),
		Available: !s.down.Load(), Records: s.applied.Load(), Appends: s.appends.Load(), Conflicts: s.conflicts.Load(),
		AppendTime: time.Duration(s.appendTime.Load()), Damaged: s.damaged.Load(),
	}
	st.Last = max(st.Last, st.Processed)
	st.Lag = st.Last - st.Processed
	st.CatchingUp = !s.caughtUp.Load() || st.Lag > LagLimit
	s.mu.Lock()
	defer s.mu.Unlock()
	st.Problem, st.Err, st.Snapshot = s.problem, s.failed, s.snapshot
	return st
}

// patience is the time that a call waits for a majority.
func (l *Log) patience() time.Duration {
	timeout := time.Duration(l.timeout.Load())
	if l.stats.down.Load() {
		return min(downTimeout, timeout)
	}
	return timeout
}

// checkMajority returns an error if it is known that no majority can be reached, or that this node cannot apply what
// comes next.
func (l *Log) checkMajority() error {
	if l.config.Failed != nil {
		if err := l.config.Failed(); err != nil {
			return &diskError{err}
		}
	}
	// What waits for this node to apply something would wait for its disk.
	if cause := l.stats.stalled.Load(); cause != nil {
		return &diskError{*cause}
	}
	if l.config.Majority == nil || l.config.Majority() {
		return nil
	}
	return fmt.Errorf("%w: this node is not connected to a majority", ErrUnavailable)
}

// SetTimeout changes Config.Timeout for later calls.
func (l *Log) SetTimeout(d time.Duration) { l.timeout.Store(int64(d)) }

// available notes the outcome of an append or a mark. While the log is unavailable, calls wait for a short time only,
// and the follower tries a mark now and then.
func (l *Log) available(err error) {
	switch {
	case err == nil:
		l.stats.caughtUp.Store(true)
		if l.stats.down.CompareAndSwap(true, false) {
			l.stats.note(nil)
			l.config.Log.Info("the log is available again")
		}
	case errors.Is(err, ErrUnavailable) || errors.Is(err, ErrUnknown):
		// A server that says why it has failed has logged that itself.
		if !l.stats.down.CompareAndSwap(false, true) || l.config.Failed != nil && l.config.Failed() != nil {
			return
		}
		until := "a majority of its servers answers"
		if errors.Is(err, ErrDisk) {
			until = "this node can write to its disk"
		}
		l.config.Log.Error("the log is not available; reads and writes are refused until "+until, "err", err)
	}
}

// probe tries a mark if the log is unavailable.
func (l *Log) probe() {
	if l.stats.down.Load() && l.probing.TryLock() {
		l.running.Add(1)
		l.spawn(func() {
			defer l.running.Done()
			defer l.probing.Unlock()
			_ = l.Barrier()
		})
	}
}
