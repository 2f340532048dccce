package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/lazuli-storage/lazuli/internal/storage/natsserver"
	"github.com/lazuli-storage/lazuli/internal/storage/peering"
	"github.com/lazuli-storage/lazuli/internal/storage/replog"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/tablesvc"
)

// natsConfig is the configuration of the NATS that keeps the queues.
func (s *Stack) natsConfig() natsserver.Config {
	n := s.config.NATS
	n.Log = s.config.Log
	switch {
	case s.config.Cluster != nil:
		n.Cluster, n.Waiting = s.config.Cluster, s.config.Waiting
		n.Dir, n.Relaxed = s.dir.Cluster(), s.config.Relaxed
	case n.URL == "" && !s.config.InMemory:
		n.Dir, n.Relaxed = s.dir.Queues(), s.config.Relaxed
	}
	return n
}

// checkFolder refuses a folder whose queues are not where this process would look for them.
func (s *Stack) checkFolder() error {
	id, err := peering.ReadIdentity(s.dir.Cluster())
	if errors.Is(err, peering.ErrNoIdentity) {
		if s.config.Cluster == nil {
			return nil
		}
		if _, err := os.Stat(s.dir.Queues()); err == nil {
			return fmt.Errorf("the data folder %s has queues of a server alone, which would not be served: start node %s of the cluster with an empty folder",
				s.dir.Path(), s.config.Cluster.Node)
		}
		return nil
	}
	if err != nil {
		return err
	}
	if s.config.Cluster == nil {
		return fmt.Errorf("the data folder %s belongs to node %s of cluster %s, whose queues would not be served: start it with --cluster-node, --cluster-listen and --cluster-peers",
			s.dir.Path(), id.Node, id.Cluster)
	}
	return nil
}

// electionTime is how long the streams of a cluster may have no leader while the services are opened.
const electionTime = 3 * time.Minute

// whenElected calls open, on a node of a cluster until it succeeds: its streams may have no leader yet.
func (s *Stack) whenElected(ctx context.Context, open func() error) error {
	for began := time.Now(); ; {
		err := open()
		if err == nil || s.config.Cluster == nil || time.Since(began) > electionTime {
			return err
		}
		s.config.Log.Info("waiting until the cluster serves its streams", "err", err)
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		}
	}
}

// tableOptions are the options of the Table service's store: on a node of a cluster, it is a view of a replicated log.
func (s *Stack) tableOptions(ctx context.Context, nats *natsserver.Server) (store.Options, error) {
	if s.config.Cluster == nil {
		return store.Options{Relaxed: s.config.Relaxed, Ephemeral: s.config.InMemory}, nil
	}
	log, err := replog.Open(ctx, replog.Config{Conn: nats.Conn(), Name: "tables", Replicas: nats.Replicas(), Node: nats.ClusterNode(),
		Majority: func() bool { return nats.ClusterView().Majority }, Log: s.config.Log})
	return store.Options{Log: log}, err
}

// Clustered reports whether the stack is a node of a cluster.
func (s *Stack) Clustered() bool { return s.config.Cluster != nil }

// servesBlobs reports whether the Blob service is served. On a node of a cluster it is not: blobs are not replicated.
func (s *Stack) servesBlobs() bool { return s.config.Cluster == nil }

// replicates reports whether the tables are a view of a replicated log.
func (o *services) replicates() bool {
	_, ok := o.tables.Replication()
	return ok
}

// tablesReady returns why the node's tables lag behind the cluster's, nil if they do not.
func (o *services) tablesReady() error {
	r, ok := o.tables.Replication()
	switch {
	case !ok:
		return nil
	case r.Err != nil:
		return fmt.Errorf("the tables do not follow the cluster any more: %w", r.Err)
	case !r.Available:
		return errors.New("no majority answers for the tables")
	case r.CatchingUp:
		return fmt.Errorf("the tables lag by %d messages", r.Lag)
	}
	return nil
}

// LogReport is what a node says about a replicated log, in `lazuli cluster status`.
type LogReport struct {
	Applied    uint64 `json:"applied"` // sequence of the last record that was applied
	Lag        uint64 `json:"lag"`     // messages that were not processed yet
	CatchingUp bool   `json:"catching_up"`
	Appends    uint64 `json:"appends"`
	Conflicts  uint64 `json:"conflicts"`
	Snapshot   uint64 `json:"snapshot"` // sequence of the last record of the newest snapshot; 0 without one
	Problem    string `json:"problem,omitempty"`
}

func logReport(tables *tablesvc.Service) LogReport {
	r, _ := tables.Replication()
	l := LogReport{Applied: r.Applied, Lag: r.Lag, CatchingUp: r.CatchingUp, Appends: r.Appends, Conflicts: r.Conflicts, Snapshot: r.Snapshot.Seq}
	if err := errors.Join(r.Err, r.Problem); err != nil {
		l.Problem = err.Error()
	}
	return l
}

// ClusterStatus asks all nodes of the cluster. Errors: [natsserver.ErrNotClustered].
func (s *Stack) ClusterStatus(ctx context.Context) (*natsserver.ClusterStatus, error) {
	open := s.services.Load()
	if open == nil {
		return nil, errNotOpen
	}
	return open.nats.ClusterStatus(ctx)
}

// SnapshotLogs puts a snapshot into each replicated log, for nodes that join, and returns the reports of the logs by name. Errors:
// [natsserver.ErrNotClustered], [natsserver.ErrNoMajority].
func (s *Stack) SnapshotLogs(ctx context.Context) (map[string]LogReport, error) {
	if err := s.gate.enter(ctx); err != nil {
		return nil, err
	}
	defer s.gate.leave()
	open := s.services.Load()
	if open == nil {
		return nil, errNotOpen
	}
	if !open.replicates() {
		return nil, natsserver.ErrNotClustered
	}
	if err := open.tables.Snapshot(ctx); err != nil {
		if errors.Is(err, replog.ErrUnavailable) {
			err = fmt.Errorf("%w: %w", natsserver.ErrNoMajority, err)
		}
		return nil, err
	}
	return map[string]LogReport{"tables": logReport(open.tables)}, nil
}

// RemoveNode removes a stopped node from the cluster, see [natsserver.Server.RemoveNode].
func (s *Stack) RemoveNode(ctx context.Context, name string) error {
	open := s.services.Load()
	if open == nil {
		return errNotOpen
	}
	return open.nats.RemoveNode(ctx, name)
}
