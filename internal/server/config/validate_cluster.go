package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// validateCluster checks the options of a cluster, and those that cannot be used with it.
func (c *Config) validateCluster() error {
	cl := &c.Cluster
	if !cl.Enabled() {
		if cl.Front || cl.Listen != "" || len(cl.Peers) > 0 || cl.Copies > 0 || cl.SecretFile != "" ||
			cl.CA != "" || cl.Cert != "" || cl.Key != "" {
			return errors.New("the options of a cluster need the name of this node: set cluster-node")
		}
		return nil
	}
	if cl.Front {
		return c.validateFront()
	}
	switch {
	// A node without the list of all would form a cluster of its own under the same names.
	case cl.Listen == "" || len(cl.Peers) == 0:
		return errors.New("cluster-node, cluster-listen and cluster-peers go together")
	case c.NATS.URL != "":
		return errors.New("cluster-node forms a cluster of embedded NATS servers: it cannot be used with nats-url")
	case c.InMemory:
		return errors.New("a node of a cluster needs a data folder: cluster-node cannot be used with in-memory")
	case c.Events && !c.Serves("blob"):
		return errors.New("the event subscriptions of a cluster are stored with its blobs: events need the service blob " +
			"together with cluster-node")
	case c.Durability == Relaxed && (c.Serves("table") || c.Serves("blob")):
		return errors.New("replicated tables and blobs have no relaxed durability: durability relaxed needs services " +
			"queue together with cluster-node")
	case c.OAuth.Development && cl.SecretFile == "":
		return errors.New("oauth dev signs tokens that all nodes accept with a key of their secret: in a cluster, it needs " +
			"cluster-secret-file")
	case c.Durable.Enabled && !c.Serves("blob"):
		return errors.New("workflows have their leases and large payloads in blobs: in a cluster, durable needs the " +
			"service blob")
	}
	if err := errors.Join(c.clusterRoles(), c.validateCopies()); err != nil {
		return err
	}
	// After the options: its errors are about addresses and files, and say nothing of what is missing.
	node := cl.Peering()
	node.Shards = c.Shards
	if err := node.Validate(); err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	return nil
}

// validateCopies refuses what would need all shards on each node.
func (c *Config) validateCopies() error {
	name := ""
	switch {
	case c.Cluster.Copies == 0:
		return nil
	case c.Shards == 1:
		return errors.New("cluster-copies divides the shards among the nodes: it needs several shards")
	case c.Faults:
		name = "faults"
	case c.Backup.HoldWrites: // no node can hold the writes of all shards
		name = "backup-hold-writes"
	case c.Seed != "":
		name = "seed"
	case c.Archive.To != "":
		name = "archive"
	default:
		return nil
	}
	return fmt.Errorf("%s needs nodes that have all shards: it cannot be used with cluster-copies", name)
}

// validateFront checks a front-end. Options for which it has no use are refused before, see checkFront.
func (c *Config) validateFront() error {
	if c.Cluster.Copies > 0 {
		return errors.New("a front-end has no shards: it needs no cluster-copies")
	}
	if c.Cluster.Listen != "" || len(c.Cluster.Peers) == 0 {
		return errors.New("a front-end needs cluster-node and cluster-peers, the nodes with data, and has no " +
			"cluster-listen: it connects to them")
	}
	if err := c.Cluster.Peering().Validate(); err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	return nil
}

// checkFront refuses the options that a front-end does not have.
func (r *Result) checkFront() error {
	if !r.Cluster.Front {
		return nil
	}
	for _, g := range groups {
		for i := range g.options {
			o := &g.options[i]
			// An image may set the data folder, and who runs the image the front-end; as with in-memory.
			if o.name == "location" && r.sources[o] < r.Source("cluster-front") {
				continue
			}
			if r.sources[o] != FromDefault && !slices.Contains(frontGroups, g.title) && !slices.Contains(frontOptions, o.name) {
				return fmt.Errorf("%s is for nodes with data: a front-end (cluster-front) has no state and checks no "+
					"requests", o.name)
			}
		}
	}
	return nil
}

// clusterRoles refuses roles whose data would be on one node alone. Every node of a cluster runs the roles.
func (c *Config) clusterRoles() error {
	r := &c.Roles
	for _, role := range r.Enabled {
		target, _, _ := strings.Cut(r.ArchiveTo, ":")
		switch {
		case role == "archive" && target == "folder":
			return errors.New("each node would archive to a folder of its own machine: in a cluster, archive-to must be a " +
				"table or a container")
		case role == "search-index" && r.SearchQueue != "":
			return errors.New("all messages of search-index-queue must come to one process: in a cluster, the search-index " +
				"role follows the table's changes")
		case role == "search-index" || role == "archive" && target == "table": // an index is each node's copy of the table
		case !c.Serves("blob"):
			return fmt.Errorf("the role %s uses blobs: in a cluster, it needs the service blob", role)
		}
	}
	return nil
}

// frontGroups are the groups of options that a front-end has, and frontOptions those of other groups. The others are
// about data, accounts, or requests that the nodes with data serve.
var (
	frontGroups  = []string{"Listeners", "Limits", "Cluster", "Process"}
	frontOptions = []string{"cert", "key", "pwd", "admin-host", "admin-port", "no-admin", "admin-allow-host",
		"admin-token", "pprof"}
)
