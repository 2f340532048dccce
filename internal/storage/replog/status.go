package replog

import "time"

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

// LagLimit is the number of messages from which on a node counts as catching up.
const LagLimit = 10_000

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
