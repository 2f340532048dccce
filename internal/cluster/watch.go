package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/lazuli-storage/lazuli/internal/cluster/peering"
	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/nats/natsserver"
	"github.com/lazuli-storage/lazuli/internal/storage/shardmap"
)

const (
	// watchEvery is the time between two checks of the connections and roles, askEvery the time between two questions to
	// each node.
	watchEvery = 250 * time.Millisecond
	askEvery   = 5 * time.Second
	askTimeout = 3 * time.Second
	// removeTimeout bounds the removal of a node; the cluster may have no leader for some seconds.
	removeTimeout = 15 * time.Second
	// clockLimit is the difference between the clocks of two nodes above which it is an error.
	clockLimit = 30 * time.Second
)

// nodeStatus holds what the node knows about its cluster.
type nodeStatus struct {
	connected []string // names of other nodes
	leader    string   // name of the node that leads JetStream's metadata
	current   bool     // this node has caught up with the leader
	changes   int      // of the leader
	since     time.Time
	voters    int // see Voters; 0 before the first look
}

// NodeReport holds what a node says about itself.
type NodeReport struct {
	Node        string         `json:"node"`
	Incarnation string         `json:"incarnation"`
	State       peering.State  `json:"state"`
	Format      int            `json:"format"` // the newest one of the cluster's data that its program understands
	Now         time.Time      `json:"now"`
	Leader      string         `json:"leader"` // the node that leads, as this one sees it
	Current     bool           `json:"current"`
	Connected   []string       `json:"connected"`
	NotReady    string         `json:"not_ready,omitempty"` // why it is not ready
	SyncAlways  bool           `json:"sync_always"`
	Details     map[string]any `json:"details,omitempty"` // of what is replicated, see AddReport
}

// ClusterView holds what a node knows about its cluster without asking.
type View struct {
	Majority, Leads, Current bool
	Connected                int                      // number of other nodes
	LeaderChanges            int                      // that this node has seen
	Clocks                   map[string]time.Duration // by node: how far its clock is ahead
}

// Status is the state of the cluster as one node sees it.
type Status struct {
	Cluster string `json:"cluster"` // ID
	Node    string `json:"node"`    // the node that answers
	Leader  string `json:"leader"`
	Format  int    `json:"format"` // of the cluster's data, see [Node.Upgrade]
	// Hosts says which nodes have a shard; nil where all nodes have all of them.
	Hosts *shardmap.Hosts `json:"hosts,omitempty"`
	// Move is the move of a shard's copy that is under way, nil without one.
	Move *peering.Move `json:"move,omitempty"`
	// Lost are the nodes whose shards move to others because their folders are lost.
	Lost  []string     `json:"lost,omitempty"`
	Nodes []NodeStatus `json:"nodes"`
	// Fronts are the front-ends that are connected to the node that answers.
	Fronts []FrontStatus `json:"fronts,omitempty"`
	Copies Copies        `json:"copies"` // of the streams of all nodes that answered
	// Unknown is why the state of some copies is not known, "" if it is.
	Unknown string `json:"unknown,omitempty"`
}

// NodeStatus is one node in a [Status].
type NodeStatus struct {
	Name    string `json:"name"`
	Address string `json:"address"`
	// Report holds what the node said; nil if it did not answer, and Problem says why.
	Report  *NodeReport `json:"report,omitempty"`
	Problem string      `json:"problem,omitempty"`
	// Clock is the time by which the node's clock is ahead of that of the node that answers, in seconds.
	Clock float64 `json:"clock_offset_seconds"`
}

// Errors of [Node.Status] and [Node.Remove].
var (
	// ErrNotClustered: the server is not a node of a cluster of embedded servers.
	ErrNotClustered = errors.New("this server is not a node of a cluster")
	// ErrUnknownNode: no peer has that name.
	ErrUnknownNode = errors.New("no node of the cluster has that name")
	// ErrNodeConnected: the node to be removed runs.
	ErrNodeConnected = errors.New("the node is running: stop it first")
)

// start watches the cluster and answers the other nodes.
func (n *Node) start() error {
	ctx, cancel := context.WithCancel(context.Background())
	n.cancel, n.done = cancel, make(chan struct{})
	for about, handle := range map[string]nats.MsgHandler{
		aboutReport:  func(m *nats.Msg) { natsserver.AnswerJSON(m, n.report()) },
		aboutMembers: func(m *nats.Msg) { natsserver.AnswerJSON(m, n.site.Roster()) },
		aboutForget:  taker(func(r removal) error { return n.forget(r.Name, r.Incarnation) }),
		aboutCopies:  n.answerCopies,
		aboutStatus:  func(m *nats.Msg) { go n.answerStatus(ctx, m) },
		aboutRaise:   taker(n.site.Raise),
	} {
		if _, err := n.server.Conn().Subscribe(subject(about, n.site.Node()), handle); err != nil {
			cancel()
			return fmt.Errorf("cluster: %w", err)
		}
	}
	if n.site.Hosts() != nil {
		for subject, handle := range map[string]nats.MsgHandler{layoutNews: n.heardLayout,
			subject(aboutJoin, n.site.Node()): func(m *nats.Msg) { go n.answerJoin(ctx, m) }} {
			if _, err := n.server.Conn().Subscribe(subject, handle); err != nil {
				cancel()
				return fmt.Errorf("cluster: %w", err)
			}
		}
		n.watching.Go(func() { n.followLayout(ctx) })
	}
	elections := &natsserver.Elections{Log: n.config.Log, Majority: func() bool { return n.NoMajority() == nil }}
	n.watching.Go(func() { elections.Watch(n.server.Running, ctx.Done()) })
	n.watch()
	// The first watch was before the loop, so that the status is known when start returns.
	go func() {
		defer close(n.done)
		asked, at := time.Time{}, time.Time{} // by the monotonic clock, and by the machine's
		tick := time.NewTicker(watchEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			n.watch()
			// A clock that was set counts from the next question on.
			stepped := (n.now().Round(0).Sub(at) - time.Since(asked)).Abs() > clockLimit
			if time.Since(asked) >= askEvery || stepped || !n.clocksKnown() {
				asked, at = time.Now(), n.now().Round(0)
				n.compareClocks(ctx)
			}
		}
	}()
	return nil
}

// Close implements [natsserver.Member].
func (n *Node) Close() {
	if n.cancel != nil {
		n.cancel()
		<-n.done
		n.watching.Wait()
	}
}

// watch updates the status, and logs what has changed.
func (n *Node) watch() {
	n.server.CheckRoom()
	e := n.server.Running()
	if e == nil {
		return
	}
	// The others go on without this node's folder, and do not accept it any more.
	if err := n.site.Lost(); err != nil {
		n.config.Log.Error("this node stops to take part in the cluster", "err", err)
		n.server.StopEmbedded()
		n.mu.Lock()
		defer n.mu.Unlock()
		n.status = nodeStatus{changes: n.status.changes, voters: n.status.voters, since: n.status.since}
		return
	}
	// The server runs and its JetStream does not. Only a new start of the server brings it back.
	if !e.JetStreamEnabled() && e.Running() {
		n.server.Fail(errors.New("JetStream has stopped"))
		return
	}
	if err := n.caches.Adjust(e); err != nil {
		n.config.Log.Warn("this node needs more memory when it copies streams", "err", err)
	}
	// A folder that was removed may still have a connection until its server restarts. It counts for no majority.
	connected := slices.DeleteFunc(n.connectedServers(), n.site.Removed)
	now := nodeStatus{connected: nodesOf(connected), leader: nodeOf(metaLeader(e)), current: e.JetStreamIsCurrent(),
		voters: n.Voters(), since: time.Now()}
	n.mu.Lock()
	before := n.status
	now.changes = before.changes
	if now.leader != before.leader && now.leader != "" {
		now.changes++
	}
	n.status = now
	n.mu.Unlock()
	n.logChanges(before, now)
	for _, serverName := range connected {
		name, incarnation, _ := strings.Cut(serverName, ".")
		if err := n.site.Learn(name, incarnation); err != nil {
			n.config.Log.Error("cannot store a peer", "peer", name, "err", err)
		}
	}
}

func (n *Node) logChanges(before, now nodeStatus) {
	log := n.config.Log.With("node", n.site.Node())
	if before.leader != now.leader {
		switch now.leader {
		case n.site.Node():
			log.Info("this node leads the cluster", "before", before.leader)
		case "":
			log.Warn("the cluster has no leader", "before", before.leader, "connected", now.connected)
		default:
			log.Info("another node leads the cluster", "leader", now.leader, "before", before.leader)
		}
	}
	for _, name := range now.connected {
		if !slices.Contains(before.connected, name) {
			log.Info("connected to a node of the cluster", "peer", name)
		}
	}
	for _, name := range before.connected {
		if !slices.Contains(now.connected, name) {
			log.Warn("lost the connection to a node of the cluster", "peer", name)
		}
	}
	if had, has := n.majority(before), n.majority(now); had && !has {
		log.Error("this node has no majority of the cluster; requests are answered 503 until it has one again", "connected",
			now.connected)
	} else if !had && has && !before.since.IsZero() {
		log.Info("this node has a majority of the cluster again", "connected", now.connected)
	}
}

// majority reports whether the node is connected to enough others.
func (n *Node) majority(st nodeStatus) bool {
	return len(st.connected)+1 > cmp.Or(st.voters, len(n.site.Peers()))/2
}

// Voters returns the number of nodes of which a majority is needed: as JetStream counts, those that have joined. A name
// that was added to the list of peers counts from the moment on at which its node has been here; otherwise two running
// nodes of three would have no majority of five names, while the third starts again with the longer list.
//
// A node that is not a member yet counts the names: it does not know who has joined. A cluster never has less than
// three, or the names if they are fewer.
func (n *Node) Voters() int {
	names := len(n.site.Peers())
	if n.site.Identity().State != peering.Member {
		return names
	}
	return max(len(n.Folders()), min(3, names))
}

// NoMajority returns an [natsserver.ErrNoMajority] with the nodes that are missing, nil if there is a majority.
func (n *Node) NoMajority() error {
	n.mu.Lock()
	st := n.status
	n.mu.Unlock()
	if err := n.site.Lost(); err != nil {
		return fmt.Errorf("%w: %w", natsserver.ErrNoMajority, err)
	}
	if n.majority(st) {
		return nil
	}
	var missing []string
	for _, p := range n.site.Peers() {
		if p.Name != n.site.Node() && !slices.Contains(st.connected, p.Name) {
			missing = append(missing, p.Name)
		}
	}
	return fmt.Errorf("%w: %s cannot be reached", natsserver.ErrNoMajority, strings.Join(missing, " and "))
}

// Ready returns why the node is not ready.
func (n *Node) Ready() error {
	if err := n.NoMajority(); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.status.leader == "":
		return errors.New("the cluster is electing a leader")
	case !n.status.current:
		return errors.New("this node has not caught up with the cluster")
	}
	return nil
}

// The questions to a node.
const (
	aboutReport  = "report"  // its NodeReport
	aboutMembers = "members" // who the members of the cluster are; only members answer
	aboutForget  = "forget"  // a removal to note; the answer is the reason of a refusal
	aboutCopies  = "copies"  // its Copies
	aboutStatus  = "status"  // its Status, for a front-end
	aboutJoin    = "join"    // a newcomer to take in; the answer is a welcome
	aboutRaise   = "raise"   // a format of the cluster's data to take; the answer is the reason of a refusal
)

// subject is the subject at which a node is asked.
func subject(about, name string) string { return "lazuli.cluster." + about + "." + name }

// ask asks another node.
func ask[T any](ctx context.Context, conn *nats.Conn, name, about string, question any) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	return natsserver.AskJSON[T](ctx, conn, subject(about, name), question)
}

// tell tells another node a decision; the error has the reason of a refusal.
func (n *Node) tell(ctx context.Context, name, about string, decision any) error {
	refused, err := ask[string](ctx, n.server.Conn(), name, about, decision)
	if err == nil && refused != "" {
		err = errors.New(refused)
	}
	return err
}

// taker handles what [Node.tell] sends: take takes the decision, or refuses it.
func taker[T any](take func(T) error) nats.MsgHandler {
	return func(m *nats.Msg) {
		var decision T
		refused := ""
		err := json.Unmarshal(m.Data, &decision)
		if err == nil {
			err = take(decision)
		}
		if err != nil {
			refused = err.Error()
		}
		natsserver.AnswerJSON(m, refused)
	}
}

func (n *Node) report() *NodeReport {
	id := n.site.Identity()
	n.mu.Lock()
	st, reports := n.status, maps.Clone(n.reports)
	n.mu.Unlock()
	r := &NodeReport{Node: id.Node, Incarnation: id.Incarnation, State: id.State, Format: peering.Supported.Newest,
		Now: n.now(), Leader: st.leader,
		Current: st.current, Connected: st.connected, SyncAlways: !n.server.Relaxed()}
	if err := n.server.Healthy(); err != nil {
		r.NotReady = err.Error()
	}
	for name, f := range reports {
		if r.Details == nil {
			r.Details = map[string]any{}
		}
		r.Details[name] = f()
	}
	return r
}

// reportOf asks a node for its report, and returns how far its clock is ahead.
func (n *Node) reportOf(ctx context.Context, name string) (*NodeReport, time.Duration, error) {
	sent, began := n.now(), time.Now()
	r, err := ask[NodeReport](ctx, n.server.Conn(), name, aboutReport, nil)
	if err != nil {
		return nil, 0, err
	}
	return &r, clockOffset(sent, time.Since(began), r.Now), nil
}

// clockOffset returns how far another clock is ahead, as far as it is certain: the answer was written at some time
// within took.
func clockOffset(sent time.Time, took time.Duration, theirs time.Time) time.Duration {
	// Round(0) drops the monotonic clock, which says nothing about another machine.
	early, late := theirs.Sub(sent.Round(0)), theirs.Sub(sent.Add(took).Round(0))
	switch {
	case late > 0:
		return late
	case early < 0:
		return early
	}
	return 0
}

// compareClocks asks all connected nodes for their time.
func (n *Node) compareClocks(ctx context.Context) {
	n.mu.Lock()
	connected := n.status.connected
	n.mu.Unlock()
	var wait sync.WaitGroup
	for _, name := range connected {
		wait.Go(func() {
			if _, offset, err := n.reportOf(ctx, name); err == nil {
				n.noteClock(name, offset)
			}
		})
	}
	wait.Wait()
}

// noteClock keeps a clock's offset, and logs when it gets beyond the limit.
func (n *Node) noteClock(name string, offset time.Duration) {
	n.mu.Lock()
	before := n.clocks[name]
	n.clocks[name] = offset
	own := correction(n.clocks, n.status.connected)
	was := time.Duration(n.correction.Swap(int64(own)))
	n.mu.Unlock()
	if offset.Abs() > clockLimit && before.Abs() <= clockLimit {
		n.config.Log.Error("the clocks of two nodes differ: synchronise them; the time of requests is that of the majority "+
			"of the nodes", "node", n.site.Node(), "peer", name, "ahead", offset.Round(time.Second).String())
	} else if offset.Abs() <= clockLimit && before.Abs() > clockLimit {
		n.config.Log.Info("the clocks of two nodes agree again", "node", n.site.Node(), "peer", name)
	}
	if (own != 0) != (was != 0) {
		n.config.Log.Warn("the time of this node's requests is its clock with a correction, which makes it that of the "+
			"majority of the nodes", "node", n.site.Node(), "correction", own.Round(time.Second).String())
	}
}

// correction returns what is to be added to the own clock: the difference to the median of the clocks of the connected
// nodes and the own one, if that is beyond the limit. All nodes take the same median, so that a message that one of
// them hands out is hidden for all, whatever their own clocks say. Of two clocks in the middle, it is the earlier.
func correction(clocks map[string]time.Duration, connected []string) time.Duration {
	offsets := []time.Duration{0}
	for _, name := range connected {
		if offset, ok := clocks[name]; ok {
			offsets = append(offsets, offset)
		}
	}
	slices.Sort(offsets)
	if median := offsets[(len(offsets)-1)/2]; median.Abs() > clockLimit {
		return median
	}
	return 0
}

// Now returns the time of the cluster: that of the machine's clock, unless it differs from those of a majority of the
// nodes. It is not monotonic.
func (n *Node) Now() time.Time {
	return n.now().Add(time.Duration(n.correction.Load()))
}

// clocksKnown reports whether the clocks of all connected nodes are known.
func (n *Node) clocksKnown() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !slices.ContainsFunc(n.status.connected, func(name string) bool {
		_, known := n.clocks[name]
		return !known
	})
}

// AwaitClocks waits until the clocks of the connected nodes are known, or for some seconds: before that, requests would
// have the time of a clock that may be wrong.
func (n *Node) AwaitClocks(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	tick := time.NewTicker(majorityPoll)
	defer tick.Stop()
	for !n.clocksKnown() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// Name returns the name of this node, "" for a single server.
func (n *Node) Name() string {
	if n == nil {
		return ""
	}
	return n.config.Node
}

// Hosts says which nodes have a shard; nil where all nodes have all of them, and for a single server.
func (n *Node) Hosts() *shardmap.Hosts {
	if n == nil {
		return nil
	}
	return n.site.Hosts()
}

// Placement returns the tags that a server must have to get a stream of a shard; nil where all nodes have all of them.
func (n *Node) Placement(shard int) []string {
	if n == nil {
		return nil
	}
	return n.site.Placement(shard)
}

// Format returns the format of the cluster's data, see [peering.Supported].
func (n *Node) Format() int { return n.site.Format() }

// Folder returns the name of this node's data folder: another folder has another name, also if it is that of the same
// node. It is "" for a single server.
func (n *Node) Folder() string {
	if n == nil {
		return ""
	}
	return n.site.ServerName()
}

// Folders returns the names of the data folders of the nodes that were accepted, this one included.
func (n *Node) Folders() (names []string) {
	if n == nil {
		return nil
	}
	for _, p := range n.site.Peers() {
		if name := n.site.ServerNameOf(p.Name); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// View returns what the node knows; the zero value unless the server is a node of a cluster.
func (n *Node) View() View {
	if n == nil {
		return View{}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return View{Majority: n.majority(n.status), Leads: n.status.leader == n.site.Node(), Current: n.status.current,
		Connected: len(n.status.connected), LeaderChanges: n.status.changes, Clocks: maps.Clone(n.clocks)}
}

// AddReport adds a part of the node's report: f is called for each one and must be quick. It does nothing on a server
// alone.
func (n *Node) AddReport(name string, f func() any) {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.reports[name] = f
}

// RemoveReport takes a part of the node's report away.
func (n *Node) RemoveReport(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.reports, name)
}

// Status asks all nodes. Errors: [ErrNotClustered].
func (n *Node) Status(ctx context.Context) (*Status, error) {
	if n == nil {
		return nil, ErrNotClustered
	}
	n.mu.Lock()
	st := n.status
	n.mu.Unlock()
	out := &Status{Cluster: n.site.Identity().Cluster, Node: n.site.Node(), Leader: st.leader,
		Format: n.site.Format(), Hosts: n.site.Hosts(), Move: n.site.Layout().Moving()}
	for _, p := range n.site.Peers() {
		out.Nodes = append(out.Nodes, NodeStatus{Name: p.Name, Address: p.Address})
	}
	out.Lost = slices.Sorted(maps.Keys(n.site.Layout().Lost))
	reasons := map[string]string{}
	// Only if a node is missing: the check connects to the peers and takes time.
	if len(st.connected)+1 < len(out.Nodes) {
		reasons = n.site.CheckPeers(ctx)
	}
	var wait sync.WaitGroup
	wait.Go(func() { out.Fronts = n.fronts(ctx) })
	wait.Go(func() {
		var err error
		if out.Copies, err = n.allCopies(ctx); err != nil {
			out.Unknown = err.Error()
		}
	})
	stopped := n.server.Failed()
	for i := range out.Nodes {
		at := &out.Nodes[i]
		wait.Go(func() {
			switch {
			case at.Name == n.site.Node():
				at.Report = n.report()
				return
			case slices.Contains(out.Lost, at.Name):
				at.Problem = "lost: its shards move to other nodes, and then it leaves"
			case stopped != nil:
				at.Problem = "this node does not ask: " + stopped.Error()
			case slices.Contains(st.connected, at.Name):
				r, offset, err := n.reportOf(ctx, at.Name)
				if err == nil {
					at.Report, at.Clock = r, offset.Seconds()
					return
				}
				at.Problem = err.Error()
			default:
				at.Problem = cmp.Or(n.site.Refused(at.Name), reasons[at.Name], "not connected")
			}
		})
	}
	wait.Wait()
	return out, nil
}

// answerStatus answers a front-end, whose question is not worth more than statusTimeout.
func (n *Node) answerStatus(ctx context.Context, m *nats.Msg) {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	if s, err := n.Status(ctx); err == nil {
		natsserver.AnswerJSON(m, s)
	}
}

// nodeOf returns the name of a node from its server name.
func nodeOf(serverName string) string {
	name, _, _ := strings.Cut(serverName, ".")
	return name
}

// Remove removes a node that does not run from the cluster: its copies are placed on other nodes, and a node of its
// name can join with an empty folder. Where nodes have a part of the shards, and this one has none, the cluster has one
// node less from then on. It may be called again after an error. Errors: [ErrNotClustered],
// [ErrUnknownNode], [ErrNodeConnected], [natsserver.ErrNoMajority], [ErrCopies].
func (n *Node) Remove(ctx context.Context, name string) error {
	if n == nil {
		return ErrNotClustered
	}
	if !slices.ContainsFunc(n.site.Peers(), func(p peering.Peer) bool { return p.Name == name }) {
		return ErrUnknownNode
	}
	n.mu.Lock()
	st := n.status
	n.mu.Unlock()
	if name == n.site.Node() || slices.Contains(st.connected, name) {
		return ErrNodeConnected
	}
	if err := n.NoMajority(); err != nil {
		return err
	}
	// The status is up to a quarter of a second old, and a node that restarts its server is away for a moment.
	if err := n.staysAway(ctx, name); err != nil {
		return err
	}
	// Before anything changes. A copy that is not current could be the only other one with a record.
	if err := n.mayLoseNode(ctx); err != nil {
		return err
	}
	return n.remove(ctx, name, n.site.ServerNameOf(name), st.connected)
}

// remove is what Remove does when nothing speaks against it. serverName has the folder; it is empty if this node has
// never accepted one of that name: then Raft has no such member to remove.
func (n *Node) remove(ctx context.Context, name, serverName string, others []string) error {
	if serverName != "" {
		if err := n.removePeer(ctx, serverName); err != nil {
			return err
		}
		if err := n.awaitLeft(ctx, serverName); err != nil {
			return err
		}
	}
	_, incarnation, _ := strings.Cut(serverName, ".")
	// JetStream first, then the others, this node last: while this node knows the folder, the command can be run again
	// and goes on where it failed.
	for _, other := range others {
		if err := n.tell(ctx, other, aboutForget, removal{name, incarnation}); err != nil {
			return fmt.Errorf("node %s was removed, but %s still knows it: run the command again: %w", name, other, err)
		}
	}
	if err := errors.Join(n.forget(name, incarnation), fault.Point(pointForgotten)); err != nil {
		return err
	}
	left, err := n.removeEmpty(ctx, name)
	if err != nil {
		return fmt.Errorf("the data folder of node %s was removed, but the cluster still has its name: run the command "+
			"again: %w", name, err)
	}
	n.config.Log.Info("removed a node from the cluster", "node", name, "name_too", left)
	return nil
}

// awayFor is the time that a node must not have been connected before it is removed: a node that restarts its server
// connects again within a second.
const awayFor = 2 * time.Second

// staysAway returns [ErrNodeConnected] if a node connects within awayFor.
func (n *Node) staysAway(ctx context.Context, name string) error {
	end := time.After(awayFor)
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		if slices.Contains(n.connectedNodes(), name) {
			return ErrNodeConnected
		}
		select {
		case <-tick.C:
		case <-end:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// notMember is JetStream's error code for a server that is not a member of the cluster.
const notMember = 10044

// removePeer removes a server from JetStream's metadata. It succeeds if the server is not a member.
func (n *Node) removePeer(ctx context.Context, serverName string) error {
	// Only the system account may remove a server, so this is another user than that of the node's own connection.
	conn, err := nats.Connect("", nats.InProcessServer(n.server.InProcess()), nats.UserInfo(systemUser, n.password))
	if err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	defer conn.Close()
	request, err := json.Marshal(server.JSApiMetaServerRemoveRequest{Peer: natsserver.PeerID(serverName)})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	m, err := conn.RequestWithContext(ctx, server.JSApiRemoveServer, request)
	if err != nil {
		return fmt.Errorf("removing %s: %w", serverName, err)
	}
	var answer server.JSApiMetaServerRemoveResponse
	if err := json.Unmarshal(m.Data, &answer); err != nil {
		return fmt.Errorf("removing %s: %w", serverName, err)
	}
	// An earlier run of the command may have removed it already.
	if answer.Error != nil && answer.Error.ErrCode != notMember {
		return fmt.Errorf("removing %s: %s", serverName, answer.Error.Description)
	}
	return nil
}

// removal names a folder to forget. If the command is run again, the asked node may have accepted the next one of that
// node already, which it must keep.
type removal struct {
	Name        string `json:"name"`
	Incarnation string `json:"incarnation"`
}

// forget removes what this node knows of an incarnation of another one, durably, unless it is connected. A node with
// the folder that was removed is refused from then on.
func (n *Node) forget(name, incarnation string) error {
	if slices.Contains(n.connectedServers(), name+"."+incarnation) {
		return ErrNodeConnected
	}
	return n.site.Forget(name, incarnation)
}
