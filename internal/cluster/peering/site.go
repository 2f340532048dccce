package peering

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lazuli-storage/lazuli/internal/storage/shardmap"
)

// Site is this node's place in its cluster. It is safe for concurrent use.
type Site struct {
	config      Config
	credentials credentials
	process     string
	log         *slog.Logger

	mu       sync.Mutex // guards the rest
	identity Identity
	refusals map[string]refusal // by the name of the node or its address
}

// refusal is the last reason for which a node was not accepted.
type refusal struct {
	reason string
	logged time.Time
	more   int // refusals since, which were not logged
}

// logEvery is the time after which a refusal for the same reason is logged again: nodes retry every second.
const logEvery = time.Minute

// Open reads the credentials and the identity of this node; a folder without one gets a new incarnation. The node has
// no cluster until [Site.Discover] has returned.
func Open(c Config) (*Site, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	s := &Site{config: c, process: newToken(12), log: c.Log, refusals: map[string]refusal{}}
	var err error
	if s.credentials, err = loadCredentials(&c); err != nil {
		return nil, err
	}
	if c.Front {
		s.identity = Identity{Node: c.Node, Incarnation: newToken(8), State: Fronting}
		return s, nil
	}
	s.identity, err = ReadIdentity(c.Dir)
	switch {
	case errors.Is(err, ErrNoIdentity):
		s.identity = Identity{Version: identityVersion, Node: c.Node, Incarnation: newToken(8), Members: map[string]string{}}
	case err != nil:
		return nil, err
	case s.identity.Node != c.Node:
		return nil, fmt.Errorf("the data folder belongs to node %s of cluster %s, and this process is to be node %s: use "+
			"each folder for one node",
			s.identity.Node, s.identity.Cluster, c.Node)
	case s.identity.Cluster != "":
		// What the folder belongs to is fixed: another number of shards or table of hosts would open it as something else.
		if err := s.identity.checkFormat(); err != nil {
			return nil, err
		}
		if err := checkShards(c.Shards, s.identity.Cluster); err != nil {
			return nil, err
		}
		if err := checkHosts(&c, &s.identity); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Identity returns a copy of the identity.
func (s *Site) Identity() Identity {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := s.identity
	id.Members = maps.Clone(id.Members)
	return id
}

// store makes an identity durable and takes it. The caller holds the lock.
func (s *Site) store(id Identity) error {
	if !s.config.Front { // which has no folder
		if err := id.write(s.config.Dir); err != nil {
			return err
		}
	}
	s.identity = id
	return nil
}

// remember stores durably the incarnation of a node. The caller holds the lock.
func (s *Site) remember(node, incarnation string) error {
	id := s.identity
	id.Members = maps.Clone(id.Members)
	id.Members[node] = incarnation
	return s.store(id)
}

// Peers returns the names and addresses of all nodes, this one included: those of the configuration, or where nodes
// have a part of the shards those of the layout.
func (s *Site) Peers() []Peer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.identity.peers(&s.config)
}

// HasPeer reports whether a node with data has the name: others that are connected are front-ends.
func (s *Site) HasPeer(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.address(name) != ""
}

// Hosts says which nodes have a shard; nil where all have all of them, and on a front-end.
func (s *Site) Hosts() *shardmap.Hosts { return s.Layout().Hosts }

// Node returns the name of this node.
func (s *Site) Node() string { return s.config.Node }

// ServerName returns the name under which this node takes part in Raft.
func (s *Site) ServerName() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return serverName(s.identity.Node, s.identity.Incarnation)
}

// serverName joins the name of a node and its incarnation: a node with another incarnation is another member of the
// Raft groups.
func serverName(node, incarnation string) string { return node + "." + incarnation }

// ServerNameOf returns the name under which an accepted node takes part in Raft, "" if the node is not known.
func (s *Site) ServerNameOf(node string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if node == s.identity.Node {
		return serverName(node, s.identity.Incarnation)
	}
	if incarnation := s.identity.Members[node]; incarnation != "" {
		return serverName(node, incarnation)
	}
	return ""
}

// clusterPrefix precedes the ID in the cluster's name.
const clusterPrefix = "lazuli-"

// ClusterName returns the name of the cluster, which has its ID.
func (s *Site) ClusterName() string { return clusterPrefix + s.Identity().Cluster }

// TLS returns the configuration of connections between nodes, nil if they are not encrypted. The caller may change the
// copy.
func (s *Site) TLS() *tls.Config { return s.credentials.tls.Clone() }

// Credentials returns what this node presents to the others as user and password.
func (s *Site) Credentials() (user, password string) {
	id := s.Identity()
	h := Hello{Node: id.Node, Incarnation: id.Incarnation, Process: s.process, Cluster: id.Cluster, State: id.State,
		Format: Supported.Newest, Oldest: id.format(), Members: id.Members, Removed: map[string][]string{},
		Fence: s.config.Fence}
	if s.config.Shards > 1 {
		h.Shards = s.config.Shards
	}
	for node, list := range id.Removed {
		h.Removed[node] = list[max(0, len(list)-maxRemoved):]
	}
	return h.encode(), s.credentials.password
}

// Routes returns the URLs at which this node connects to all nodes.
func (s *Site) Routes() []*url.URL {
	user, password := s.Credentials()
	var list []*url.URL
	l := s.Layout()
	for _, p := range s.Peers() {
		if l.IsLost(p.Name) { // should its folder come back, it is not to be part of anything
			continue
		}
		list = append(list, &url.URL{Scheme: "nats-route", Host: p.Address, User: url.UserPassword(user, password)})
	}
	return list
}

// Listen returns the address for the connections of the other nodes, and Advertised the one at which they reach it.
func (s *Site) Listen() string     { return s.config.Listen }
func (s *Site) Advertised() string { return s.config.address(s.config.Node) }

// Admit reports whether a node that connects is accepted: nil, or the reason why not, which was logged. An accepted
// node is remembered durably.
func (s *Site) Admit(user, password, address string) error {
	h, err := s.admit(user, password)
	if err == nil {
		return nil
	}
	who := strangers
	if h.Node != "" && !errors.Is(err, errSecret) {
		who = h.Node
	}
	if !errors.Is(err, errWaiting) {
		s.noteRefusal(who, address, err)
	}
	return err
}

// errWaiting: a node that joins accepts only other nodes that join. What members present may be older than their
// decision about this node, but they decide about the connections that this node makes.
var errWaiting = errors.New("this node has not joined the cluster yet")

func (s *Site) admit(user, password string) (Hello, error) {
	// The password first: nothing that a stranger presents is parsed, or gets into the log as a name.
	if err := s.credentials.checkPassword(password); err != nil {
		return Hello{}, err
	}
	h, err := decodeHello(user)
	if err != nil {
		return h, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	id := &s.identity
	// A server also connects to its own address, which is among its routes.
	if h.Node == id.Node {
		if h.Process == s.process {
			return h, nil // this node itself
		}
		return h, fmt.Errorf("two nodes are named %s: each node of a cluster needs a name and a folder that no other one has",
			h.Node)
	}
	if h.Cluster != id.Cluster {
		return h, fmt.Errorf("it belongs to cluster %s, and this node to cluster %s: check the peers of both, or remove "+
			"the folder `cluster` of the node that was started by mistake",
			h.Cluster, id.Cluster)
	}
	if h.State == Fronting {
		return h, s.admitFront(&h, id)
	}
	// The most exact reason comes first.
	if slices.Contains(id.Removed[h.Node], h.Incarnation) {
		return h, fmt.Errorf("the data folder of node %s was removed from the cluster with `lazuli cluster leave`: start "+
			"the node with an empty folder", h.Node)
	}
	if incarnation, lost := id.layout().Lost[h.Node]; lost && incarnation == h.Incarnation {
		return h, fmt.Errorf("the data folder of node %s is lost, as `lazuli cluster leave --lost` has said, and its shards "+
			"get other nodes: start the node with an empty folder", h.Node)
	} else if lost {
		return h, fmt.Errorf("node %s is lost, and has not left the cluster yet: its name can join again then", h.Node)
	}
	switch {
	case s.address(h.Node) != "":
	case id.layout().Hosts == nil:
		return h, fmt.Errorf("node %s is not among the peers of this node: add it there first, and start this node again",
			h.Node)
	case id.State == Joining:
		return h, errWaiting // its layout may be old
	default:
		return h, fmt.Errorf("the cluster has no node %s: to join, it must start with an empty folder", h.Node)
	}
	if err := h.checkFormats(id.format()); err != nil {
		return h, err
	}
	if err := compareShards(h.Shards, s.config.Shards); err != nil {
		return h, err
	}
	if err := compareFences(h.Fence, s.config.Fence); err != nil {
		return h, err
	}
	// What this node knows of the other one comes first, then what the other one knows of this node: a decision about
	// either of them holds, whichever of the two has it.
	if known := id.Members[h.Node]; known != "" && known != h.Incarnation {
		return h, fmt.Errorf("node %s has another data folder than before: if its folder was lost, run `lazuli cluster "+
			"leave %s` on another node, and it can join with the new one; otherwise two nodes have this name",
			h.Node, h.Node)
	}
	if slices.Contains(h.Removed[id.Node], id.Incarnation) {
		return h, fmt.Errorf("it has removed the data folder of this node with `lazuli cluster leave %s`: start this node "+
			"with an empty folder", id.Node)
	}
	if known := h.Members[id.Node]; known != "" && known != id.Incarnation {
		return h, fmt.Errorf("it knows this node with another data folder: if that folder was lost, run `lazuli cluster "+
			"leave %s` on node %s, and this node can join", id.Node, h.Node)
	}
	// After all reasons that need a person: this one passes when the node has joined.
	if id.State == Joining && h.State != Joining {
		return h, errWaiting
	}
	if id.Members[h.Node] != h.Incarnation {
		// Durably before it is accepted. Otherwise a node with another folder could be accepted after a restart, and Raft
		// would count both.
		if err := s.remember(h.Node, h.Incarnation); err != nil {
			return h, fmt.Errorf("this node cannot store its peers: %w", err)
		}
		s.log.Info("accepted a node of the cluster", "node", h.Node, "incarnation", h.Incarnation)
	}
	// The decision for a newer format reaches this node also if it was away when it was made. A node that joins knows of
	// none.
	if h.State != Joining {
		if err := s.raise(h.Oldest); err != nil {
			return h, fmt.Errorf("this node cannot store the format of the cluster's data: %w", err)
		}
	}
	delete(s.refusals, h.Node)
	return h, nil
}

// admitFront reports whether a front-end that has shown the secret is accepted. It is not remembered: nothing counts on
// it. The caller holds the lock.
func (s *Site) admitFront(h *Hello, id *Identity) error {
	switch {
	case s.address(h.Node) != "":
		return fmt.Errorf("%s is the name of a node with data: give the front-end one of its own", h.Node)
	// Before that, JetStream counts the servers that it sees in order to find out how large the cluster is.
	case id.State != Member:
		return errWaiting
	}
	return h.checkFormats(id.format())
}

// Removed reports whether a server name is that of a data folder that was removed from the cluster, or is lost.
func (s *Site) Removed(serverName string) bool {
	node, incarnation, _ := strings.Cut(serverName, ".")
	s.mu.Lock()
	defer s.mu.Unlock()
	lost, is := s.identity.layout().Lost[node]
	return is && lost == incarnation || slices.Contains(s.identity.Removed[node], incarnation)
}

// strangers stands for all callers that have not shown that they are nodes: their addresses and texts are of their
// choice.
const strangers = "unknown"

// noteRefusal keeps and logs the reason for which a node was not accepted.
func (s *Site) noteRefusal(who, address string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last, now := s.refusals[who], time.Now()
	// Strangers choose their texts, so they share one entry whatever the reason, and cannot fill the log.
	if (last.reason == err.Error() || who == strangers) && now.Sub(last.logged) < logEvery {
		last.more++
		s.refusals[who] = last
		return
	}
	s.refusals[who] = refusal{reason: err.Error(), logged: now}
	s.log.Error("refused a node of the cluster", "node", who, "address", address, "err", err, "others_since", last.more)
}

// Refused returns why a node was last refused, "" if it was not refused since it was last accepted.
func (s *Site) Refused(node string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refusals[node].reason
}

// Roster holds what the members of a cluster know about each other, by the names of the nodes.
type Roster struct {
	Format  int                 `json:"format,omitempty"` // of the cluster's data
	Members map[string]string   `json:"members"`          // incarnations, that of the node that answers included
	Removed map[string][]string `json:"removed,omitempty"`
	Layout  *Layout             `json:"layout,omitempty"` // nil before the first change
	Hosts   *shardmap.Hosts     `json:"hosts,omitempty"`  // the table with which the cluster began
}

// Roster returns what this node knows.
func (s *Site) Roster() Roster {
	id := s.Identity()
	id.Members[id.Node] = id.Incarnation
	return Roster{id.format(), id.Members, id.Removed, id.Layout, id.Hosts}
}

// Learn stores durably the incarnation of a node to which this member has made a connection, unless it knows one: the
// other node accepted this one, and so did not tell what it is. A member connects to members alone.
func (s *Site) Learn(node, incarnation string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := s.identity
	if id.State != Member || node == id.Node || id.Members[node] != "" || s.address(node) == "" ||
		slices.Contains(id.Removed[node], incarnation) {
		return nil
	}
	return s.remember(node, incarnation)
}

// ErrNotAccepted means that a member has not accepted this node.
var ErrNotAccepted = errors.New("peering: the member has not accepted this node")

// Adopt stores durably what a member knows. A node that joins must know the others as they do: it would accept a node
// with another data folder, which they refuse. It returns [ErrNotAccepted] if the member has not accepted this node.
func (s *Site) Adopt(r Roster) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := s.identity
	if r.Members[id.Node] != id.Incarnation {
		return ErrNotAccepted
	}
	// The member's list wins over what this node has seen while it joined; a removal that either of them knows stays.
	members, removed := maps.Clone(id.Members), map[string][]string{}
	maps.Copy(members, r.Members)
	maps.Copy(removed, r.Removed)
	delete(members, id.Node)
	for name, incarnations := range id.Removed {
		for _, i := range incarnations {
			if !slices.Contains(removed[name], i) {
				removed[name] = append(slices.Clip(removed[name]), i)
			}
		}
	}
	// A folder that is new has the table with which the cluster began.
	if r.Layout != nil {
		if _, err := id.take(*r.Layout); err != nil {
			return err
		}
	}
	nodes := id.peers(&s.config)
	maps.DeleteFunc(members, func(name, incarnation string) bool {
		return slices.Contains(removed[name], incarnation) ||
			!slices.ContainsFunc(nodes, func(p Peer) bool { return p.Name == name })
	})
	id.Members, id.Removed, id.Format = members, removed, max(id.Format, r.Format)
	if err := id.checkFormat(); err != nil {
		return err
	}
	return s.store(id)
}

// BecameMember records durably that this node is part of a majority; a node that joins has called [Site.Adopt] before.
// It returns true if the node has joined: then it must present itself to the others as a member from now on, with new
// [Site.Credentials].
func (s *Site) BecameMember() (joined bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.identity.State == Member {
		return false, nil
	}
	id := s.identity
	joined, id.State = id.State == Joining, Member
	if err := id.write(s.config.Dir); err != nil {
		return false, err
	}
	s.identity.State = Member
	s.log.Info("this node is a member of the cluster", "node", id.Node, "cluster", id.Cluster)
	return joined, nil
}

// Forget removes an incarnation of a node, so that the node can join with another data folder, and not with this one.
// An empty incarnation means the one that this node knows.
func (s *Site) Forget(node, incarnation string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.identity.Members[node]
	if incarnation == "" {
		incarnation = known
	}
	// A repeated call for an old incarnation changes nothing: the node may have joined with its next folder since.
	if incarnation == "" || known != incarnation && slices.Contains(s.identity.Removed[node], incarnation) {
		return nil
	}
	id := s.identity
	id.Members, id.Removed = maps.Clone(id.Members), maps.Clone(id.Removed)
	if known == incarnation {
		delete(id.Members, node)
	}
	if id.Removed == nil {
		id.Removed = map[string][]string{}
	}
	id.Removed[node] = append(slices.Clone(id.Removed[node]), incarnation)
	if err := s.store(id); err != nil {
		return err
	}
	delete(s.refusals, node)
	return nil
}

// waitingRounds is the number of rounds of questions after which the reason for waiting is logged again.
const waitingRounds = 20

// Discover returns when the node knows its cluster. It takes the ID of a peer, or makes one up if this node is the
// founder and no peer has one. waiting is called with the reason, from time to time, while it waits.
func (s *Site) Discover(ctx context.Context, waiting func(reason string)) error {
	for round := 0; ; round++ {
		if s.Identity().Cluster != "" {
			return nil
		}
		found := s.probeAll(ctx)
		for _, p := range found {
			// An existing cluster comes first, also for the founder: its folder may have been lost after it had founded one.
			if p.Cluster != "" && s.config.Front {
				return s.settle(p.Cluster, Fronting)
			}
			if p.Cluster != "" {
				return s.settle(p.Cluster, Joining)
			}
		}
		if s.config.Node == s.config.founder() {
			hosts, err := s.config.hosts()
			if err != nil {
				return err
			}
			return s.settle(newCluster(s.config.Shards, hosts), Founding)
		}
		reason := fmt.Sprintf("no peer has founded the cluster yet; node %s founds it", s.config.founder())
		for _, p := range found {
			if p.Err != nil {
				reason += fmt.Sprintf("; %s: %v", p.Peer.Name, p.Err)
			}
		}
		waiting(reason)
		if round%waitingRounds == 0 {
			level := slog.LevelInfo
			if strings.Contains(reason, distrust) {
				level = slog.LevelWarn
			}
			s.log.Log(ctx, level, "waiting for the cluster", "node", s.config.Node, "reason", reason)
		}
		select {
		case <-time.After(probePause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// settle stores the cluster's ID, and the table of hosts that belongs to it. Errors: [ErrShards], [ErrHosts].
func (s *Site) settle(cluster string, state State) error {
	var hosts *shardmap.Hosts
	if state != Fronting { // which has no folder
		if err := checkShards(s.config.Shards, cluster); err != nil {
			return err
		}
		var err error
		if hosts, err = hostsOf(&s.config, cluster); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	id := s.identity
	id.Cluster, id.State, id.Members, id.Format, id.Hosts = cluster, state, map[string]string{}, 0, hosts
	id.Layout, id.Arriving = nil, 0
	// A new cluster has the newest format; a node that joins gets it from a member.
	if state == Founding {
		id.Format = Supported.Newest
	}
	if err := s.store(id); err != nil {
		return err
	}
	s.log.Info("the node has a cluster", "node", id.Node, "cluster", cluster, "state", string(state))
	return nil
}

// Reconsider checks whether the peers belong to another cluster than this node, which is not a member yet: a founder
// whose folder was lost has made up an ID while its peers could not be reached. It then takes their ID and returns
// true: the caller must start from an empty state.
func (s *Site) Reconsider(ctx context.Context) (changed bool, err error) {
	id := s.Identity()
	// A node with data keeps the cluster that it was converted for.
	if id.State == Member || id.State == Fronting || id.Cluster == "" || id.Seed {
		return false, nil
	}
	votes := map[string]int{}
	for _, p := range s.probeAll(ctx) {
		if p.Cluster != "" {
			votes[p.Cluster]++
		}
	}
	others := len(s.config.Peers) - 1
	// A founder has made its ID up, so one peer with another one is enough. A node that joins took its ID from a peer,
	// and gives it up only if all others agree on another one.
	for cluster, n := range votes {
		if cluster != id.Cluster && (id.State == Founding || n == others) {
			return true, s.settle(cluster, Joining)
		}
	}
	return false, nil
}
