package config

import "github.com/lazuli-storage/lazuli/internal/cluster/peering"

// Cluster makes the server a node of a cluster of embedded NATS servers. The zero value is a single server.
type Cluster struct {
	// Node is the name of this node; "" is a single server.
	Node string
	// Front makes the process a front-end, which has no data and is not among Peers.
	Front bool
	// Listen is the address for the other nodes, host:port.
	Listen string
	// Peers are all nodes with their addresses, this one included.
	Peers []peering.Peer
	// Copies is the number of nodes that have each shard; 0 is all nodes.
	Copies int
	// SecretFile is a file with the secret that all nodes share. CA, Cert and Key are PEM files for mutual TLS between
	// the nodes.
	SecretFile, CA, Cert, Key string
}

// Enabled reports whether the server is a node of a cluster.
func (c *Cluster) Enabled() bool { return c.Node != "" }

// Peering returns the configuration of the node. The folder and the log are missing.
func (c *Cluster) Peering() *peering.Config {
	node := c.Node
	if c.Front {
		node = peering.FrontName(node)
	}
	return &peering.Config{Node: node, Front: c.Front, Listen: c.Listen, Peers: c.Peers, Copies: c.Copies,
		SecretFile: c.SecretFile, CAFile: c.CA, CertFile: c.Cert, KeyFile: c.Key}
}
