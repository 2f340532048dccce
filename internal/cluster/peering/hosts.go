package peering

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/storage/shardmap"
)

// Where a node has a part of the shards only, all nodes must agree about which. Each of them computes the table from
// its list of peers when it gets the cluster's ID, and keeps it. The ID ends with the checksum of the founder's table,
// so a node whose list of peers, or whose zones, are others does not take part before a member has given it the table
// (Site.Enter). As the table lies in the folder, what changes in the list later does not change it. What moves, and
// nodes that join and leave, do to it is in the Layout: its nodes are those of the cluster.

// hostsInfix precedes the checksum of the table of hosts in the ID of a cluster that has one. It comes after the number
// of shards.
const hostsInfix = "-hosts"

// ErrHosts means that a node has another table of hosts than its cluster.
var ErrHosts = errors.New("this node and the cluster disagree about which nodes have a shard")

// hosts returns the table of a new cluster, nil where all nodes have all shards. Errors: [shardmap.ErrHosts].
func (c *Config) hosts() (*shardmap.Hosts, error) {
	switch {
	// A front-end has no list of its own: it may be given that of the nodes, with the zones.
	case c.Front:
		return nil, nil
	case c.Copies == 0:
		if slices.ContainsFunc(c.Peers, func(p Peer) bool { return p.Zone != "" }) {
			return nil, errors.New("zones of peers say where the copies of a shard go: they need cluster-copies")
		}
		return nil, nil
	case c.Copies != shardmap.Copies:
		return nil, fmt.Errorf("each shard is on %d nodes, or with 0 on all of them, and not on %d", shardmap.Copies,
			c.Copies)
	}
	var places []shardmap.Place
	for _, p := range c.Peers {
		places = append(places, shardmap.Place{Node: p.Name, Zone: p.Zone})
	}
	return shardmap.NewHosts(places, c.Shards)
}

// hostsOf returns the table of this node's configuration if it is that with which a cluster began, nil if it is not, or
// all nodes have all shards. Errors: [ErrHosts], [shardmap.ErrHosts].
func hostsOf(c *Config, cluster string) (*shardmap.Hosts, error) {
	hosts, err := c.hosts()
	if err != nil {
		return nil, err
	}
	_, want, spread := strings.Cut(cluster, hostsInfix)
	switch {
	case hosts == nil && spread:
		return nil, fmt.Errorf("%w: each node of cluster %s has a part of the shards: start the node with --cluster-copies "+
			"%d", ErrHosts, cluster, shardmap.Copies)
	case hosts != nil && !spread:
		return nil, fmt.Errorf("%w: the nodes of cluster %s have all shards: start the node without --cluster-copies",
			ErrHosts, cluster)
	case hosts != nil && hosts.Sum() != want: // of more nodes, perhaps: Site.Enter takes the cluster's own
		return nil, nil
	}
	return hosts, nil
}

// checkHosts refuses a configuration that does not fit the table in a folder.
func checkHosts(c *Config, id *Identity) error {
	if id.Hosts == nil || c.Copies == 0 {
		_, err := hostsOf(c, id.Cluster)
		return err
	}
	if err := checkTable(id.Hosts, id.Cluster); err != nil {
		return err
	}
	for _, p := range id.peers(c) {
		if p.Address == "" {
			return fmt.Errorf("%w: cluster %s has a node %s, whose address is not in the list of peers: add it", ErrHosts,
				id.Cluster, p.Name)
		}
	}
	return nil
}

// checkTable refuses a table with which a cluster has not begun.
func checkTable(h *shardmap.Hosts, cluster string) error {
	if err := h.Check(); err != nil {
		return err
	}
	if _, sum, _ := strings.Cut(cluster, hostsInfix); sum != h.Sum() {
		return fmt.Errorf("%w: the table in the data folder is not that of cluster %s", ErrHosts, cluster)
	}
	return nil
}

// peers returns the nodes of the cluster: those of the layout, or where all nodes have all shards those of the
// configuration.
func (id *Identity) peers(c *Config) []Peer {
	l := id.layout()
	if l.Hosts == nil {
		return c.Peers
	}
	list := make([]Peer, len(l.Hosts.Nodes))
	for i, p := range l.Hosts.Nodes {
		list[i] = Peer{Name: p.Node, Address: cmp.Or(c.address(p.Node), l.Addresses[p.Node]), Zone: p.Zone}
	}
	return list
}

// address returns the address of a node of the cluster, "" for an unknown name. The caller holds the lock.
func (s *Site) address(node string) string {
	for _, p := range s.identity.peers(&s.config) {
		if p.Name == node {
			return p.Address
		}
	}
	return ""
}

// Outside reports whether this node needs the table of its cluster, which its list of peers does not give: a member
// has to take it into the cluster ([Site.Enter]) before it takes part.
func (s *Site) Outside() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.identity.State == Joining && s.identity.Hosts == nil && strings.Contains(s.identity.Cluster, hostsInfix)
}

// Alias returns a name for the connection by which a node asks to be taken into a cluster. It connects as a front-end
// does, and no node with data has such a name.
func Alias() string { return "join-" + newToken(12) }

// Self returns the place and the address of this node as its list of peers has them.
func (s *Site) Self() Peer {
	for _, p := range s.config.Peers {
		if p.Name == s.config.Node {
			return p
		}
	}
	return Peer{Name: s.config.Node}
}

// Enter stores durably what a member has told this node when it took it into the cluster: the table with which the
// cluster began, and the layout, which has this node. Errors: [ErrHosts], [ErrFormat].
func (s *Site) Enter(r Roster) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := s.identity
	if r.Hosts == nil || r.Layout == nil {
		return fmt.Errorf("%w: the member has told no table", ErrHosts)
	}
	if err := checkTable(r.Hosts, id.Cluster); err != nil {
		return err
	}
	id.Hosts, id.Format = r.Hosts, max(id.Format, r.Format)
	if _, err := id.take(*r.Layout); err != nil {
		return err
	}
	if !slices.Contains(id.layout().Hosts.Names(), id.Node) {
		return fmt.Errorf("%w: the cluster has no node %s", ErrHosts, id.Node)
	}
	if err := id.checkFormat(); err != nil {
		return err
	}
	return s.store(id)
}

// tagOf is the tag of the servers that have a shard, by which JetStream places its streams.
func tagOf(shard int) string { return fmt.Sprintf("shard-%02d", shard) }

// Tags returns the tags of this node's server: of the shards whose streams it is to have, where it has a part of them.
func (s *Site) Tags() []string { return s.Layout().tags(s.Node()) }

// Placement returns the tags that a server must have to get a stream of a shard; nil where all nodes have all shards.
func (s *Site) Placement(shard int) []string {
	if s.Hosts() == nil {
		return nil
	}
	return []string{tagOf(shard)}
}
