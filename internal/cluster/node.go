package cluster

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/lazuli-storage/lazuli/internal/cluster/peering"
	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/nats/natsserver"
	"github.com/lazuli-storage/lazuli/internal/storage/disk"
)

// The connections between nodes are checked that often, and closed after that many checks without an answer: a node
// whose machine has stopped answering is noticed after some ten seconds. A process that was killed is noticed at once.
const (
	routePing    = 3 * time.Second
	routePingOut = 2
)

// Node is the part of an embedded server that belongs to a cluster of them. A nil Node is that of a single server.
type Node struct {
	config  peering.Config
	waiting func(reason string)
	now     func() time.Time // the clock of this machine

	server   *natsserver.Server
	site     *peering.Site
	password string // of this process's own clients

	mu      sync.Mutex // guards the rest
	status  nodeStatus
	reports map[string]func() any
	clocks  map[string]time.Duration // by node: how far its clock is ahead
	asked   string                   // the stream that JetStream was asked to move, and the server that it leaves
	askedAt time.Time

	newLayout chan struct{} // receives after a change of the layout

	// correction is what Now adds to the clock of this machine, a time.Duration.
	correction atomic.Int64

	caches natsserver.BlockCaches // used by watch

	entered bool // this process has asked a member to take it in; used by Form

	cancel   context.CancelFunc
	done     chan struct{}
	watching sync.WaitGroup // the elections

	index *natsserver.ReadIndex
}

// New returns a node. Its Join goes into the configuration of the server. waiting, which may be nil, is called with the
// reason while the start waits for other nodes. now is the clock of this machine; nil is time.Now.
func New(c peering.Config, waiting func(reason string), now func() time.Time) *Node {
	if waiting == nil {
		waiting = func(string) {}
	}
	if now == nil {
		now = time.Now
	}
	return &Node{config: c, waiting: waiting, now: now, password: rand.Text(), reports: map[string]func() any{},
		clocks: map[string]time.Duration{}, newLayout: make(chan struct{}, 1)}
}

// Join makes a server that is about to start the node's: natsserver.Config.Member.
func (n *Node) Join(s *natsserver.Server) (natsserver.Member, error) {
	if err := n.config.Validate(); err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	n.server = s
	n.config.Dir, n.config.Log = s.Config().Dir, s.Config().Log
	return n, nil
}

// Form implements [natsserver.Member].
func (n *Node) Form(ctx context.Context) error {
	if err := disk.MkdirAll(n.config.Dir, 0o700); err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	// Before the server reads the folder: it would drop what it cannot read, and then vote.
	if err := leaveIfDamaged(n.config.Dir, n.config.Log); err != nil {
		return err
	}
	site, err := peering.Open(n.config)
	if err != nil {
		return err
	}
	n.site = site
	founds := false
	if err := site.Discover(ctx, n.waiting); err != nil {
		return fmt.Errorf("waiting for the cluster: %w", err)
	}
	for joined := true; joined; {
		if err := n.join(ctx); err != nil {
			return err
		}
		// Read before BecameMember changes the state.
		founds = site.Identity().State == peering.Founding
		if err := n.meetMembers(ctx); err != nil {
			return err
		}
		if joined, err = site.BecameMember(); err != nil {
			return err
		}
		if err := fault.Point(pointMember); err != nil {
			return err
		}
		if joined { // what a server presents to others is fixed when it starts
			n.server.StopEmbedded()
		}
	}
	if err := n.server.ConnectInProcess(); err != nil {
		return err
	}
	// After the loop: the servers of earlier rounds were stopped, and so were their connections.
	if n.index, err = natsserver.NewReadIndex(n.server.Conn(), n.server.Running); err != nil {
		return err
	}
	if err := n.start(); err != nil || !founds {
		return err
	}
	return awaitMembers(ctx, joinTime, n.connectedNodes, n.isMember)
}

// join starts the embedded server, and returns when it is part of a majority.
func (n *Node) join(ctx context.Context) error {
	for {
		again, err := n.startServer(ctx)
		if err != nil || !again {
			return err
		}
	}
}

// startServer starts the embedded server with the identity of the node. again is set if the node has learned that its
// peers belong to another cluster than the one that it was about to found, or that they did not know it; the server has
// been stopped then.
func (n *Node) startServer(ctx context.Context) (again bool, err error) {
	if n.site.Outside() {
		if err := n.enter(ctx); err != nil {
			return false, err
		}
		n.entered = true
	}
	dir := filepath.Join(n.config.Dir, n.site.Identity().Cluster)
	if err := disk.MkdirAll(dir, 0o700); err != nil {
		return false, fmt.Errorf("cluster: %w", err)
	}
	if err := n.server.StartIn(dir); err != nil {
		return false, err
	}
	if err := fault.Point(pointStarted); err != nil {
		return false, err
	}
	again, err = n.awaitMajority(ctx)
	if err != nil || !again {
		return false, err
	}
	n.server.StopEmbedded()
	// The state of a cluster that this node has not become a member of. Nothing counts on it.
	return true, os.RemoveAll(dir)
}

const (
	majorityPoll    = 20 * time.Millisecond
	reconsiderEvery = 2 * time.Second
	waitingEvery    = 10 * time.Second
	memberTimeout   = 500 * time.Millisecond // of one question
)

// awaitMajority waits until the node has a leader and has caught up with it. again is set if the node's cluster has
// changed.
func (n *Node) awaitMajority(ctx context.Context) (again bool, err error) {
	e := n.server.Running()
	poll := time.NewTicker(majorityPoll)
	defer poll.Stop()
	asking, stop := context.WithCancel(ctx)
	defer stop()
	entered, lost := n.enterLater(asking), n.askWhetherLost(asking)
	var considered, said time.Time
	for {
		if e.JetStreamIsCurrent() && metaLeader(e) != "" {
			return false, nil
		}
		now := time.Now()
		if now.Sub(considered) >= reconsiderEvery {
			considered = now
			// A founder whose folder was lost may wait for a majority that never comes, since its peers have another
			// cluster.
			if changed, err := n.site.Reconsider(ctx); err != nil || changed {
				return changed, err
			}
			reason := n.missing(ctx)
			n.waiting(reason)
			if now.Sub(said) >= waitingEvery {
				said = now
				n.config.Log.Info("waiting for a majority of the cluster", "node", n.site.Node(), "reason", reason)
			}
		}
		select {
		case <-poll.C:
		case err := <-entered: // the other nodes accept this one from now on, at other addresses perhaps
			n.entered = true
			return true, err
		case err := <-lost:
			return false, err
		case <-ctx.Done():
			return false, fmt.Errorf("waiting for a majority of the cluster: %w: %s", context.Cause(ctx),
				n.missing(context.Background()))
		}
	}
}

// meetMembers waits until a member of the cluster that this node joins has told it who the members are, and adopts
// that. Connections that this node makes do not tell it: only a node that accepts one sees what the other one presents.
// Of a member, it checks that no other member has removed it.
func (n *Node) meetMembers(ctx context.Context) error {
	id := n.site.Identity()
	// A founder has no member to ask, and the others learn of it when they connect.
	if id.State == peering.Founding {
		return nil
	}
	conn, err := n.server.Connect("joining")
	if err != nil {
		return err
	}
	defer conn.Close()
	if id.State == peering.Member {
		return n.checkRemoved(ctx, conn)
	}
	for {
		for _, name := range n.connectedNodes() {
			roster, err := ask[peering.Roster](ctx, conn, name, aboutMembers, nil)
			if err != nil {
				continue // it joins as well, or has just lost its connection
			}
			// A member that has not accepted this node yet does not count: the next round asks again.
			if err := n.site.Adopt(roster); !errors.Is(err, peering.ErrNotAccepted) {
				return err
			}
		}
		n.waiting("no member of the cluster has accepted this node yet; their logs have the reason if they refuse it")
		select {
		case <-time.After(majorityPoll):
		case <-ctx.Done():
			return fmt.Errorf("waiting for a member of the cluster: %w", context.Cause(ctx))
		}
	}
}

// joinTime is the time that the founder of a cluster waits for the nodes that are connected to it; see awaitMembers.
const joinTime = 10 * time.Second

// awaitMembers waits until the nodes that are or were connected to the founder of a cluster have become members, or the
// limit has passed. They start again when they are accepted. A stream that is created before that may lose its leader,
// and cannot be used until an election timeout has passed.
func awaitMembers(ctx context.Context, limit time.Duration, connected func() []string,
	isMember func(ctx context.Context, name string) bool) error {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	members := map[string]bool{}
	for limited.Err() == nil {
		for _, name := range connected() {
			if _, known := members[name]; !known {
				members[name] = false // counts also when its connection is lost
			}
		}
		all := true
		for name, is := range members {
			members[name] = is || isMember(limited, name)
			all = all && members[name]
		}
		if all {
			return nil
		}
		select {
		case <-time.After(majorityPoll):
		case <-limited.Done():
		}
	}
	if ctx.Err() != nil {
		return fmt.Errorf("waiting for the nodes of the cluster: %w", context.Cause(ctx))
	}
	return nil
}

// isMember reports whether a node is a member: others do not answer.
func (n *Node) isMember(ctx context.Context, name string) bool {
	ctx, cancel := context.WithTimeout(ctx, memberTimeout)
	defer cancel()
	_, err := ask[peering.Roster](ctx, n.server.Conn(), name, aboutMembers, nil)
	return err == nil
}

// missing says which nodes this one is not connected to, and why.
func (n *Node) missing(ctx context.Context) string {
	return cmp.Or(missing(ctx, n.site, n.connectedNodes()), "electing a leader")
}

// missing says why nodes are not connected, "" if all are.
func missing(ctx context.Context, site *peering.Site, connected []string) string {
	reasons := site.CheckPeers(ctx)
	var texts []string
	for _, p := range site.Peers() {
		if p.Name == site.Node() || slices.Contains(connected, p.Name) {
			continue
		}
		texts = append(texts, p.Name+": "+cmp.Or(site.Refused(p.Name), reasons[p.Name],
			"it has not accepted this node yet; its log has the reason if it refuses"))
	}
	return strings.Join(texts, "; ")
}

// Converted reports whether this is a node of a cluster that begins with the data of a single server, see
// [peering.Converted].
func (n *Node) Converted() bool {
	return n != nil && peering.Converted(n.site.Identity().Cluster)
}

// HasSeed reports whether this node's folder has data of a single server that the cluster does not have yet.
func (n *Node) HasSeed() bool { return n != nil && n.site.Identity().Seed }

// Seeded records durably that the cluster has the data of this node's folder.
func (n *Node) Seeded() error { return n.site.Seeded() }

// ErrRemoved means that the data folder of a node was removed from the cluster.
var ErrRemoved = errors.New("the data folder of this node was removed from the cluster with `lazuli cluster leave`: " +
	"start it with an empty folder")

// checkRemoved returns ErrRemoved if a connected node says so. Members refuse the connections of a folder that was
// removed, but one that was not restarted since then still connects to it.
func (n *Node) checkRemoved(ctx context.Context, conn *nats.Conn) error {
	return n.removedBy(ctx, conn, n.connectedNodes())
}

// removedBy is checkRemoved by what some nodes say.
func (n *Node) removedBy(ctx context.Context, conn *nats.Conn, nodes []string) error {
	id := n.site.Identity()
	for _, name := range nodes {
		roster, err := ask[peering.Roster](ctx, conn, name, aboutMembers, nil)
		if err != nil {
			continue
		}
		if roster.Layout != nil && roster.Layout.IsRemoved(id.Node, id.Incarnation) {
			return fmt.Errorf("%w (says node %s)", peering.ErrLost, name)
		}
		if slices.Contains(roster.Removed[id.Node], id.Incarnation) {
			return fmt.Errorf("%w (says node %s)", ErrRemoved, name)
		}
	}
	return nil
}

// Configure implements [natsserver.Member].
func (n *Node) Configure(o *server.Options) error {
	host, p, err := net.SplitHostPort(n.site.Listen())
	if err != nil {
		return err
	}
	port, err := strconv.Atoi(p)
	if err != nil {
		return err
	}
	if host == "" {
		host = "0.0.0.0"
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, p)) // the server itself would only log the error
	if err != nil {
		return fmt.Errorf("the address for the nodes of the cluster is in use: %w", err)
	}
	l.Close()
	user, password := n.site.Credentials()
	o.ServerName, o.Tags = n.site.ServerName(), n.site.Tags()
	o.SyncAlways = !n.server.Relaxed()
	o.MaxPayload = natsserver.NodeMaxPayload
	o.Routes = n.site.Routes()
	o.Cluster = server.ClusterOpts{Name: n.site.ClusterName(), Host: host, Port: port, Advertise: n.site.Advertised(),
		Username: user, Password: password,
		AuthTimeout: 30, TLSTimeout: 30, PingInterval: routePing, MaxPingsOut: routePingOut, NoAdvertise: true,
		Compression: server.CompressionOpts{Mode: server.CompressionOff}}
	o.Cluster.TLSConfig = n.site.TLS()
	if n.server.Config().Listen == "" {
		o.Host, o.Port, o.DontListen = "127.0.0.1", server.RANDOM_PORT, false
	}
	o.CustomRouterAuthentication = admission{n}
	o.CustomClientAuthentication = localClients{n}
	return nil
}

// User implements [natsserver.Member].
func (n *Node) User() (name, password string) { return ownUser, n.password }

// Logger implements [natsserver.Member].
func (n *Node) Logger() server.Logger {
	return &nodeLogger{Logger: natsserver.Logger{Out: n.config.Log}}
}

// Index implements [natsserver.Member].
func (n *Node) Index() (*natsserver.ReadIndex, error) {
	if n.index == nil {
		return nil, fmt.Errorf("%w: the node has not joined yet", natsserver.ErrNoReadIndex)
	}
	return n.index, nil
}

// LeaderOf returns the name of the node whose server leads a stream, as far as this node knows; "" while it has no
// leader.
func (n *Node) LeaderOf(ctx context.Context, stream string) (string, error) {
	if n == nil || n.index == nil {
		return "", ErrNotClustered
	}
	id, err := n.index.Leader(ctx, stream)
	if err != nil || id == "" {
		return "", err
	}
	for _, p := range n.site.Peers() {
		if name := n.site.ServerNameOf(p.Name); name != "" && natsserver.PeerID(name) == id {
			return p.Name, nil
		}
	}
	return "", nil
}

// admission accepts the connections of other nodes.
type admission struct{ node *Node }

// Check implements server.Authentication.
func (a admission) Check(c server.ClientAuthentication) bool {
	address := c.RemoteAddress()
	if address == nil {
		return false // the connection ended while it waited for this check
	}
	o := c.GetOpts()
	return a.node.site.Admit(o.Username, o.Password, address.String()) == nil
}

// localClients accepts the clients of this process, by a random password, and others only at the address that
// Config.Listen opens: a server that is part of a cluster always listens for clients.
type localClients struct{ node *Node }

// The users of this process: systemUser has the system account, ownUser the account that has the streams.
const (
	systemUser = "system"
	ownUser    = "lazuli"
)

// Check implements server.Authentication.
func (l localClients) Check(c server.ClientAuthentication) bool {
	s := l.node.server
	e := s.Running()
	o := c.GetOpts()
	own := hmac.Equal([]byte(o.Password), []byte(l.node.password))
	if e == nil || !own && (s.Config().Listen == "" || o.Username == systemUser) {
		return false
	}
	account := e.GlobalAccount()
	if o.Username == systemUser {
		account = e.SystemAccount()
	}
	c.RegisterUser(&server.User{Account: account})
	return true
}

// metaLeader returns the server name of the leader of JetStream's metadata, "" without a leader.
func metaLeader(e *server.Server) string {
	info, err := e.Jsz(&server.JSzOptions{})
	if err != nil || info.Meta == nil {
		return ""
	}
	return info.Meta.Leader
}

// connectedNodes returns the names of the nodes to which the server has connections.
func (n *Node) connectedNodes() []string { return nodesOf(n.connectedServers()) }

// nodesOf returns the names of the nodes that have the server names, in order.
func nodesOf(serverNames []string) []string {
	var names []string
	for _, serverName := range serverNames {
		if name := nodeOf(serverName); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// connectedServers returns the server names of the nodes to which the server has connections; there may be several
// connections to one.
//
// Front-ends are not among them: everything that counts nodes counts these.
func (n *Node) connectedServers() (names []string) {
	e := n.server.Running()
	if e == nil {
		return nil
	}
	return serversOf(e, func(name string) bool { return name == n.site.Node() || n.site.HasPeer(name) })
}

// serversOf returns the names of the servers to which a server has connections, of the nodes that want accepts.
func serversOf(e *server.Server, want func(node string) bool) (names []string) {
	info, err := e.Routez(nil)
	if err != nil {
		return nil
	}
	for _, r := range info.Routes {
		if node := nodeOf(r.RemoteName); node != "" && want(node) {
			names = append(names, r.RemoteName)
		}
	}
	return names
}
