package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/cluster/peering"
)

// Cluster makes the server a node of a cluster of embedded NATS servers. The zero value is a server alone.
type Cluster struct {
	// Node is the name of this node; "" is a server alone.
	Node string
	// Front makes the process a front-end, which has no data and is not among Peers.
	Front bool
	// Listen is the address for the other nodes, host:port.
	Listen string
	// Peers are all nodes with their addresses, this one included.
	Peers []peering.Peer
	// SecretFile is a file with the secret that all nodes share. CA, Cert and Key are PEM files for mutual TLS between the
	// nodes.
	SecretFile, CA, Cert, Key string
}

// Enabled reports whether the server is a node of a cluster.
func (c *Cluster) Enabled() bool { return c.Node != "" }

// Peering returns the configuration of the node. The folder and the log are missing.
func (c *Cluster) Peering() *peering.Config {
	return &peering.Config{Node: c.Node, Front: c.Front, Listen: c.Listen, Peers: c.Peers, SecretFile: c.SecretFile,
		CAFile: c.CA, CertFile: c.Cert, KeyFile: c.Key}
}

// validateCluster checks the options of a cluster, and those that cannot be used with it.
func (c *Config) validateCluster() error {
	cl := &c.Cluster
	if !cl.Enabled() {
		if cl.Front || cl.Listen != "" || len(cl.Peers) > 0 || cl.SecretFile != "" || cl.CA != "" || cl.Cert != "" ||
			cl.Key != "" {
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
	case c.Durable.Enabled && !c.Serves("blob"):
		return errors.New("workflows have their leases and large payloads in blobs: in a cluster, durable needs the " +
			"service blob")
	}
	if err := c.clusterRoles(); err != nil {
		return err
	}
	// After the options: its errors are about addresses and files, and say nothing of what is missing.
	if err := cl.Peering().Validate(); err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	return nil
}

// validateFront checks a front-end. Options for which it has no use are refused before, see checkFront.
func (c *Config) validateFront() error {
	if c.Cluster.Listen != "" || len(c.Cluster.Peers) == 0 {
		return errors.New("a front-end needs cluster-node and cluster-peers, the nodes with data, and has no " +
			"cluster-listen: it connects to them")
	}
	if err := c.Cluster.Peering().Validate(); err != nil {
		return fmt.Errorf("cluster: %w", err)
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

var clusterOptions = []option{
	text("cluster-node", "", "name", "Name of this node of a cluster; embedded NATS servers form it",
		func(c *Config) *string { return &c.Cluster.Node }, notEmpty),
	boolean("cluster-front", "", "Be a front-end of the cluster: keep no data, and pass all requests to the nodes of "+
		"cluster-peers", func(c *Config) *bool { return &c.Cluster.Front }),
	text("cluster-listen", "", "host:port", "Address for the connections of the other nodes",
		func(c *Config) *string { return &c.Cluster.Listen }, hostPort),
	{name: "cluster-peers", kind: "name=host:port,...",
		usage: "All nodes of the cluster with the addresses at which they reach each other; this one is among them unless " +
			"it is a front-end",
		set: func(c *Config, s string) (err error) { c.Cluster.Peers, err = peering.ParsePeers(s); return err },
		get: func(c *Config) string { return peering.FormatPeers(c.Cluster.Peers) }},
	text("cluster-secret-file", "", "file",
		"File with a secret of 32 or more characters that all nodes share; it authenticates and encrypts their connections",
		func(c *Config) *string { return &c.Cluster.SecretFile }, notEmpty),
	text("cluster-ca", "", "file",
		"CA certificate for the connections between nodes, in PEM, instead of certificates derived from the secret",
		func(c *Config) *string { return &c.Cluster.CA }, notEmpty),
	text("cluster-cert", "", "file", "Certificate of this node, for servers and clients, in PEM",
		func(c *Config) *string { return &c.Cluster.Cert }, notEmpty),
	text("cluster-key", "", "file", "Private key of cluster-cert, in PEM",
		func(c *Config) *string { return &c.Cluster.Key }, notEmpty),
}
