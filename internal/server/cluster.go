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

// startNATS starts, or connects to, the NATS that keeps the queues. node is nil for a single server.
func (s *Server) startNATS(ctx context.Context) (nats *natsserver.Server, node *cluster.Node, err error) {
	if s.isStandby() {
		return s.standby.nats, nil, nil
	}
	n := s.config.NATS
	n.Log = s.config.Log
	switch {
	case s.config.Cluster != nil:
		site := *s.config.Cluster
		site.Shards = s.dir.Shards()
		if s.config.Archive != nil {
			site.Fence = s.config.Archive.FenceName()
		}
		node = cluster.New(site, s.config.Waiting, s.config.Now)
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

// checkFolder refuses a folder whose queues are not where this process would look for them.
func (s *Server) checkFolder() error {
	id, err := peering.ReadIdentity(s.dir.Cluster())
	if errors.Is(err, peering.ErrNoIdentity) {
		if s.config.Cluster == nil {
			return nil
		}
		if exists(s.dir.Queues()) || exists(s.dir.QueueState()) {
			return folderError("the data folder %s has queues of a single server, which would not be served: start node %s of "+
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

// electionTime is the time that the streams of a cluster may have no leader while the services are opened.
const electionTime = 3 * time.Minute

// whenElected calls open, with a replicated log until it succeeds: its streams may have no leader yet.
func (s *Server) whenElected(ctx context.Context, open func() error) error {
	for began := time.Now(); ; {
		err := open()
		if err == nil || !s.Replicated() || errors.Is(err, store.ErrOtherLog) || errors.Is(err, contentstream.ErrRefused) ||
			errors.Is(err, replica.ErrLeft) || errors.Is(err, peering.ErrLost) || time.Since(began) > electionTime {
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
func (s *Server) tableOptions(ctx context.Context, nats *natsserver.Server, of *shard) (store.Options, error) {
	if s.isStandby() {
		return store.Options{ReadOnly: true, Logger: s.config.Log}, nil
	}
	if !s.sharesTables() {
		return store.Options{Relaxed: s.config.Relaxed, Ephemeral: s.config.InMemory, Logger: s.config.Log}, nil
	}
	log, err := s.replicatedLog(ctx, nats, of, "tables")
	return store.Options{Log: log}, err
}

// queueMemtable is the size of the memtable of queues, in bytes. A message that comes and goes while it is in the
// memtable never gets to the file: a larger memtable saves most of the checkpoints of a queue in which some thousand
// messages wait. Shards, of which there may be many, have the default.
const queueMemtable = 16 << 20

// queueOptions are the options of the Queue service's store: a view of a log in all cases.
func (s *Server) queueOptions(ctx context.Context, nats *natsserver.Server, of *shard) (store.Options, error) {
	if s.isStandby() {
		return store.Options{ReadOnly: true, Logger: s.config.Log}, nil
	}
	log, err := s.replicatedLog(ctx, nats, of, "queues")
	options := queuestate.StoreOptionsOf(nats, log)
	options.Ephemeral = s.config.InMemory
	if s.dir.Shards() == 1 {
		options.MemtableSize = queueMemtable
	}
	return options, err
}

// replicatedLog opens the log of a database of a shard.
func (s *Server) replicatedLog(ctx context.Context, nats *natsserver.Server, of *shard, database string) (*replog.Log,
	error) {
	c := s.logConfig(nats, of.Log(database))
	c.Placement = s.member.Load().Placement(of.Number)
	return replog.Open(ctx, c)
}

// logConfig is the configuration of a replicated log.
func (s *Server) logConfig(nats *natsserver.Server, name string) replog.Config {
	c := queuestate.LogConfig(nats, name, s.config.Log)
	c.Ahead = func() bool {
		node := s.member.Load()
		return node != nil && node.Format() >= peering.FlightFormat
	}
	return c
}

// blobCluster configures the Blob service of a node of a cluster, or with Config.NATSBlobs; nil for a single server.
func (s *Server) blobCluster(ctx context.Context, nats *natsserver.Server, node *cluster.Node,
	of *shard) (*replica.Cluster, error) {
	if !s.sharesBlobs() {
		return nil, nil
	}
	log, err := s.replicatedLog(ctx, nats, of, "blobs")
	if err != nil {
		return nil, err
	}
	if s.config.Cluster == nil {
		return &replica.Cluster{Log: log, Streams: &replica.Streams{
			Config: contentstream.Config{Conn: nats.Conn(), Replicas: nats.Replicas(), Log: s.config.Log}}}, nil
	}
	c := &replica.Cluster{Log: log, Node: node.Folder(), Members: node.Folders}
	c.Mirror = mirror.Config{Connect: func() (*natsgo.Conn, error) { return nats.Connect("lazuli content") },
		Node: node.Name(), Shard: of.Number,
		Majority: nats.Majority, Voters: node.Voters, Log: s.config.Log}
	// All nodes that have the shard count for a majority, whether they have joined or not: its number of copies is fixed.
	// From the first move on the log of the blobs says which nodes these are.
	if hosts := node.Hosts(); hosts != nil {
		c.Mirror.Nodes, c.Mirror.Voters, c.Spread = hosts.Shards[of.Number], nil, true
		return c, nil
	}
	for _, p := range s.config.Cluster.Peers {
		c.Mirror.Nodes = append(c.Mirror.Nodes, p.Name)
	}
	return c, nil
}

// addReports makes a node of a cluster report of its logs.
func (o *services) addReports(node *cluster.Node) {
	for _, of := range o.list() {
		o.addReportsOf(node, of)
	}
}

// addReportsOf is addReports for one shard.
func (o *services) addReportsOf(node *cluster.Node, of *shard) {
	report := func(kind string, svc replicated, complete func(*LogReport)) {
		name := of.Log(kind)
		node.AddReport(name, func() any {
			r := logReport(svc)
			r.Home = o.forward.HomeOf(name)
			complete(&r)
			return r
		})
	}
	// A size that cannot be read is 0 here: the log's problem says why.
	report("tables", of.tables.State, func(r *LogReport) { r.Data, _ = of.tables.State.Size() })
	queues := of.queues.State.Database()
	report("queues", queues, func(r *LogReport) { r.Data, _ = queues.Size() })
	report("blobs", of.blobs.State.Membership, func(r *LogReport) {
		if missing, known := of.blobs.State.Membership.Behind(); known {
			r.Missing = &missing
		}
		r.Lacks = of.blobs.State.Membership.Lacks()
		usage, _ := of.blobs.State.Maintenance.Usage()
		r.Data = usage.Metadata + usage.Content
		if t := usage.Tier; t != nil {
			r.Remote, r.TierProblem = t.Remote, t.Failing
		}
	})
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

// openNodeArchive opens the archive on a node of a cluster, once that is known and before its logs are.
func (s *Server) openNodeArchive() error {
	a := s.archive()
	if a == nil || !s.Clustered() {
		return nil
	}
	id, err := peering.ReadIdentity(s.dir.Cluster())
	if err != nil {
		return err
	}
	return a.OpenNode(s.dir.Archive(), id.Cluster, s.dir.Shards())
}

// archiveNode gives the archive of a shard access to the services of a node. It implements [archive.Node].
type archiveNode struct {
	open *services
	of   *shard
}

// Leads implements [archive.Node]: the node beside the leader of the log of blobs sends.
func (n archiveNode) Leads() bool {
	return n.open.nats.Leads(replog.StreamOf(n.of.Log("blobs")))
}

// Fenced implements [archive.Node]: nodes without the fence of this one are not connected to it.
func (n archiveNode) Fenced() error {
	if f := n.open.node.Format(); f < peering.FenceFormat {
		return fmt.Errorf("the cluster's data has format %d, and a fence needs %d: run `lazuli cluster upgrade --finish` "+
			"when all nodes run this release", f, peering.FenceFormat)
	}
	return nil
}

// Current implements [archive.Node].
func (n archiveNode) Current(ctx context.Context) error {
	result := make(chan error, 1)
	go func() { // a View has a limit of its own, which may be longer
		of := n.of
		for _, db := range []*store.DB{of.tables.State.Database(), of.queues.State.Database(),
			of.blobs.State.Database()} {
			if err := db.View(func(*store.Tx) error { return nil }); err != nil {
				result <- err
				return
			}
		}
		result <- nil
	}()
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
