package server

import (
	"context"
	"errors"
	"maps"

	"github.com/lazuli-storage/lazuli/internal/storage/replog"
)

// LogReport holds what a node says about a replicated log, in `lazuli cluster status`.
type LogReport struct {
	Applied    uint64 `json:"applied"` // sequence of the last record that was applied
	Lag        uint64 `json:"lag"`     // messages that were not processed yet
	CatchingUp bool   `json:"catching_up"`
	Appends    uint64 `json:"appends"`
	Conflicts  uint64 `json:"conflicts"`
	// Home is the node through which changes go, as this node sees it: the one beside the log's leader. It is empty while
	// that is not known.
	Home     string `json:"home,omitempty"`
	Snapshot uint64 `json:"snapshot"` // sequence of the last record of the newest snapshot; 0 without one
	// Data is the size of the database on this node, and for the log of the blobs also that of their content; in bytes.
	// What is in the tier of content only is not counted.
	Data int64 `json:"data"`
	// Missing is the number of bytes of content that this node lacks, of the log of the blobs. It is nil until all other
	// nodes have said what they have.
	Missing *int64 `json:"missing,omitempty"`
	// Lacks divides Missing by the node that has the content. Nodes that have not reported what they have are left out.
	// What several nodes have counts for each.
	Lacks map[string]int64 `json:"lacks,omitempty"`
	// Remote are the bytes of content that this node has only in the tier of content, and TierProblem is why it cannot
	// use that, of the log of the blobs.
	Remote      int64  `json:"remote,omitempty"`
	TierProblem string `json:"tier_problem,omitempty"`
	Problem     string `json:"problem,omitempty"`
}

// replicated is a service whose state is a view of a replicated log on a node of a cluster.
type replicated interface {
	Replication() (replog.Status, bool)
	Snapshot(context.Context) error
}

// logReport returns the report of a log, without its home and its size.
func logReport(svc replicated) LogReport {
	r, _ := svc.Replication()
	l := LogReport{Applied: r.Applied, Lag: r.Lag, CatchingUp: r.CatchingUp, Appends: r.Appends, Conflicts: r.Conflicts,
		Snapshot: r.Snapshot.Seq}
	if err := errors.Join(r.Err, r.Problem); err != nil {
		l.Problem = err.Error()
	}
	return l
}

// logs are the services with a replicated log, by the names of the logs.
func (o *services) logs() map[string]replicated {
	logs := map[string]replicated{}
	for _, s := range o.list() {
		maps.Copy(logs, s.logs())
	}
	return logs
}

// logs are those of one shard.
func (s *shard) logs() map[string]replicated {
	return map[string]replicated{s.Log("tables"): s.tables.State, s.Log("queues"): s.queues.State.Database(),
		s.Log("blobs"): s.blobs.State.Membership}
}
