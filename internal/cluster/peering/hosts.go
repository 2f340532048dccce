package peering

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/storage/shardmap"
)

// Where a node has a part of the shards only, all nodes must agree about which. Each of them computes the table from
// its list of peers when it gets the cluster's ID, and keeps it. The ID ends with the checksum of the founder's table,
// so a node whose list of peers, or whose zones, are others is refused before its server starts. As the table lies in
// the folder, what changes in the list later does not change it. What moves do to it is in the Layout.

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

// hostsOf returns the table of this node's configuration, which must be that of a cluster. Errors: [ErrHosts],
// [shardmap.ErrHosts].
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
	case hosts != nil && hosts.Sum() != want:
		return nil, fmt.Errorf("%w: start the node with the list of peers, and the zones, with which cluster %s began; it "+
			"cannot get further nodes", ErrHosts, cluster)
	}
	return hosts, nil
}

// checkHosts refuses a configuration that does not fit the table in a folder.
func checkHosts(c *Config, id *Identity) error {
	if id.Hosts == nil || c.Copies == 0 {
		_, err := hostsOf(c, id.Cluster)
		return err
	}
	if err := id.Hosts.Check(); err != nil {
		return err
	}
	if _, sum, _ := strings.Cut(id.Cluster, hostsInfix); sum != id.Hosts.Sum() {
		return fmt.Errorf("%w: the table in the data folder is not that of cluster %s", ErrHosts, id.Cluster)
	}
	var names []string
	for _, p := range c.Peers {
		names = append(names, p.Name)
	}
	slices.Sort(names)
	if have := id.Hosts.Names(); !slices.Equal(names, have) {
		return fmt.Errorf("%w: cluster %s has the nodes %s, which cannot be changed, and the list of peers has %s", ErrHosts,
			id.Cluster, strings.Join(have, ", "), strings.Join(names, ", "))
	}
	return nil
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
