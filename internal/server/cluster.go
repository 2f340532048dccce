package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"github.com/lazuli-storage/lazuli/internal/cluster"
	"github.com/lazuli-storage/lazuli/internal/cluster/contentstream"
	"github.com/lazuli-storage/lazuli/internal/cluster/mirror"
	"github.com/lazuli-storage/lazuli/internal/cluster/peering"
	"github.com/lazuli-storage/lazuli/internal/nats/natsserver"
	"github.com/lazuli-storage/lazuli/internal/state/blob/replica"
	queuestate "github.com/lazuli-storage/lazuli/internal/state/queue"
	"github.com/lazuli-storage/lazuli/internal/storage/replog"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// startNATS starts, or connects to, the NATS that keeps the queues. node is nil for a server alone.
func (s *Server) startNATS(ctx context.Context) (nats *natsserver.Server, node *cluster.Node, err error) {
	if s.isStandby() {
		return s.standby.nats, nil, nil
	}
	n := s.config.NATS
	n.Log = s.config.Log
	switch {
	case s.config.Cluster != nil:
		node = cluster.New(*s.config.Cluster, s.config.Waiting, s.config.Now)
		n.Member, n.Exhausted = node.Join, s.space.Exhausted
		n.Dir, n.Relaxed = s.dir.Cluster(), s.config.Relaxed
	case n.URL == "" && !s.config.InMemory:
		n.Dir, n.Relaxed = s.dir.Queues(), s.config.Relaxed
	}
	nats, err = natsserver.StartContext(ctx, n)
	if err == nil && node != nil {
		node.AwaitClocks(ctx)
		s.member.Store(node)
	}
	return nats, node, err
}

// now is the clock of the services: on a node of a cluster the time of the cluster, which one wrong clock does not
// change.
func (s *Server) now() time.Time {
	if node := s.member.Load(); node != nil {
		return node.Now()
	}
	return s.config.Now()
}

// checkFolder refuses a folder whose queues are not where this process would look for them.
func (s *Server) checkFolder() error {
	id, err := peering.ReadIdentity(s.dir.Cluster())
	if errors.Is(err, peering.ErrNoIdentity) {
		if s.config.Cluster == nil {
			return nil
		}
		if exists(s.dir.Queues()) || exists(s.dir.QueueState()) {
			return folderError("the data folder %s has queues of a server alone, which would not be served: start node %s of "+
				"the cluster with an empty folder, or convert the folder first (`lazuli cluster convert`)",
				s.dir.Path(), s.config.Cluster.Node)
		}
		return nil
	}
	if err != nil {
		return err
	}
	if s.config.Cluster == nil && id.Seed {
		return folderError("the data folder %s was converted for node %s of a cluster that has not begun: start that node "+
			"with --cluster-node, --cluster-listen and --cluster-peers, or take the conversion back with `lazuli cluster "+
			"convert --undo`",
			s.dir.Path(), id.Node)
	}
	if s.config.Cluster == nil {
		return folderError("the data folder %s belongs to node %s of cluster %s, whose queues would not be served: start "+
			"it with --cluster-node, --cluster-listen and --cluster-peers",
			s.dir.Path(), id.Node, id.Cluster)
	}
	return nil
}

// FolderError is the error for a data folder of another kind of server: of a node of a cluster, or of a server alone.
type FolderError struct{ text string }

func (e *FolderError) Error() string { return e.text }

func folderError(format string, args ...any) error { return &FolderError{fmt.Sprintf(format, args...)} }

// electionTime is the time that the streams of a cluster may have no leader while the services are opened.
const electionTime = 3 * time.Minute

// sharesTables reports whether the tables are a view of a replicated log.
func (s *Server) sharesTables() bool { return s.config.Cluster != nil || s.config.NATSTables }

// sharesBlobs reports whether the metadata of blobs are one.
func (s *Server) sharesBlobs() bool { return s.config.Cluster != nil || s.config.NATSBlobs }

// sharesQueues reports whether other processes have a view of the queues' log as well.
func (s *Server) sharesQueues() bool { return s.config.Cluster != nil || s.config.NATS.URL != "" }

// Replicated reports whether the state of a service is a view of a log that other processes have as well: requests are
// answered 503 while its leader is elected.
func (s *Server) Replicated() bool { return s.sharesTables() || s.sharesBlobs() || s.sharesQueues() }

// whenElected calls open, with a replicated log until it succeeds: its streams may have no leader yet.
func (s *Server) whenElected(ctx context.Context, open func() error) error {
	for began := time.Now(); ; {
		err := open()
		if err == nil || !s.Replicated() || errors.Is(err, store.ErrOtherLog) || errors.Is(err, contentstream.ErrRefused) ||
			time.Since(began) > electionTime {
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

// tableOptions are the options of the Table service's store: a view of a replicated log on a node of a cluster, and
// with Config.NATSTables.
func (s *Server) tableOptions(ctx context.Context, nats *natsserver.Server, name string) (store.Options, error) {
	if s.isStandby() {
		return store.Options{ReadOnly: true, Logger: s.config.Log}, nil
	}
	if !s.sharesTables() {
		return store.Options{Relaxed: s.config.Relaxed, Ephemeral: s.config.InMemory, Logger: s.config.Log}, nil
	}
	log, err := s.replicatedLog(ctx, nats, name)
	return store.Options{Log: log}, err
}

// queueOptions are the options of the Queue service's store: a view of a log in all cases.
func (s *Server) queueOptions(ctx context.Context, nats *natsserver.Server, name string) (store.Options, error) {
	if s.isStandby() {
		return store.Options{ReadOnly: true, Logger: s.config.Log}, nil
	}
	options, err := queuestate.StoreOptionsOf(ctx, nats, name, s.config.Log)
	options.Ephemeral = s.config.InMemory
	return options, err
}

func (s *Server) replicatedLog(ctx context.Context, nats *natsserver.Server, name string) (*replog.Log, error) {
	return replog.Open(ctx, s.logConfig(nats, name))
}

// logConfig is the configuration of a replicated log.
func (s *Server) logConfig(nats *natsserver.Server, name string) replog.Config {
	return queuestate.LogConfig(nats, name, s.config.Log)
}

// blobCluster configures the Blob service of a node of a cluster, or with Config.NATSBlobs; nil for a server alone.
func (s *Server) blobCluster(ctx context.Context, nats *natsserver.Server, node *cluster.Node,
	name string) (*replica.Cluster, error) {
	if !s.sharesBlobs() {
		return nil, nil
	}
	log, err := s.replicatedLog(ctx, nats, name)
	if err != nil {
		return nil, err
	}
	if s.config.Cluster == nil {
		return &replica.Cluster{Log: log, Streams: &replica.Streams{
			Config: contentstream.Config{Conn: nats.Conn(), Replicas: nats.Replicas(), Log: s.config.Log}}}, nil
	}
	c := &replica.Cluster{Log: log, Node: node.Folder(), Members: node.Folders}
	c.Mirror = mirror.Config{Connect: func() (*natsgo.Conn, error) { return nats.Connect("lazuli content") },
		Node:     node.Name(),
		Majority: nats.Majority, Voters: node.Voters, Log: s.config.Log}
	for _, p := range s.config.Cluster.Peers {
		c.Mirror.Nodes = append(c.Mirror.Nodes, p.Name)
	}
	return c, nil
}

// Clustered reports whether the server is a node of a cluster.
func (s *Server) Clustered() bool { return s.config.Cluster != nil }

// replicated is a service whose state is a view of a replicated log on a node of a cluster.
type replicated interface {
	Replication() (replog.Status, bool)
	Snapshot(context.Context) error
}

// logs are the services with a replicated log, by the names of the logs.
func (o *services) logs() map[string]replicated {
	logs := map[string]replicated{}
	for _, s := range o.shards {
		logs[s.Log("tables")], logs[s.Log("queues")] = s.tables.State, s.queues.State.Database()
		logs[s.Log("blobs")] = s.blobs.State.Membership
	}
	return logs
}

// addReports makes a node of a cluster report of its logs.
func (o *services) addReports(node *cluster.Node) {
	for name, log := range o.logs() {
		node.AddReport(name, func() any {
			r := o.reportOf(name, log)
			if blobs, ok := log.(*replica.Node); ok {
				if missing, known := blobs.Behind(); known {
					r.Missing = &missing
				}
			}
			return r
		})
	}
}

// logsReady returns why the node's state lags behind the cluster's, nil if it does not. Content of blobs that the node
// lacks is no reason: it is fetched on demand.
func (o *services) logsReady() error {
	for name, svc := range o.logs() {
		r, ok := svc.Replication()
		switch {
		case !ok:
		case r.Err != nil:
			return fmt.Errorf("the %s do not follow the cluster any more: %w", name, r.Err)
		case !r.Available:
			return fmt.Errorf("no majority answers for the %s", name)
		case r.CatchingUp:
			return fmt.Errorf("the %s lag by %d messages", name, r.Lag)
		}
	}
	return nil
}

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
	// Missing is the number of bytes of content that this node lacks, of the log of the blobs. It is nil until all other
	// nodes have said what they have.
	Missing *int64 `json:"missing,omitempty"`
	Problem string `json:"problem,omitempty"`
}

func logReport(svc replicated) LogReport {
	r, _ := svc.Replication()
	l := LogReport{Applied: r.Applied, Lag: r.Lag, CatchingUp: r.CatchingUp, Appends: r.Appends, Conflicts: r.Conflicts,
		Snapshot: r.Snapshot.Seq}
	if err := errors.Join(r.Err, r.Problem); err != nil {
		l.Problem = err.Error()
	}
	return l
}

// ClusterStatus asks all nodes of the cluster. Errors: [cluster.ErrNotClustered].
func (s *Server) ClusterStatus(ctx context.Context) (*cluster.Status, error) {
	open := s.services.Load()
	if open == nil {
		return nil, errNotOpen
	}
	return open.node.Status(ctx)
}

// SnapshotLogs puts a snapshot into each replicated log, for nodes that join, and returns the reports of the logs by
// name. Errors: [cluster.ErrNotClustered], [natsserver.ErrNoMajority].
func (s *Server) SnapshotLogs(ctx context.Context) (map[string]LogReport, error) {
	if err := s.gate.enter(ctx); err != nil {
		return nil, err
	}
	defer s.gate.leave()
	open := s.services.Load()
	if open == nil {
		return nil, errNotOpen
	}
	if !s.Clustered() {
		return nil, cluster.ErrNotClustered
	}
	reports := map[string]LogReport{}
	for name, svc := range open.logs() {
		if err := svc.Snapshot(ctx); err != nil {
			if errors.Is(err, replog.ErrUnavailable) {
				err = fmt.Errorf("%w: %w", natsserver.ErrNoMajority, err)
			}
			return nil, err
		}
		reports[name] = logReport(svc)
	}
	return reports, nil
}

// UpgradeCluster returns how far an upgrade of the cluster has come, and finishes it, see [cluster.Node.Upgrade].
func (s *Server) UpgradeCluster(ctx context.Context, finish bool) (*cluster.Upgrade, error) {
	open := s.services.Load()
	if open == nil {
		return nil, errNotOpen
	}
	return open.node.Upgrade(ctx, finish)
}

// RemoveNode removes a stopped node from the cluster, see [cluster.Node.Remove].
func (s *Server) RemoveNode(ctx context.Context, name string) error {
	open := s.services.Load()
	if open == nil {
		return errNotOpen
	}
	return open.node.Remove(ctx, name)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
