package config

import (
	"github.com/lazuli-storage/lazuli/internal/cluster/peering"
	"github.com/lazuli-storage/lazuli/internal/storage/shardmap"
)

var clusterOptions = []option{
	text("cluster-node", "", "name", "Name of this node of a cluster; embedded NATS servers form it",
		func(c *Config) *string { return &c.Cluster.Node }, notEmpty),
	boolean("cluster-front", "", "Run a front-end of the cluster, which keeps no data and passes all requests to "+
		"the nodes of cluster-peers", func(c *Config) *bool { return &c.Cluster.Front }),
	text("cluster-listen", "", "host:port", "Address for the connections of the other nodes",
		func(c *Config) *string { return &c.Cluster.Listen }, hostPort),
	{name: "cluster-peers", kind: "name=host:port,...",
		usage: "All nodes of the cluster with the addresses at which they reach each other, including this node " +
			"unless it is a front-end. With cluster-copies, @ZONE may follow each address: no zone has two copies " +
			"of a shard",
		set: func(c *Config, s string) (err error) { c.Cluster.Peers, err = peering.ParsePeers(s); return err },
		get: func(c *Config) string { return peering.FormatPeers(c.Cluster.Peers) }},
	number("cluster-copies", "Number of nodes that have each shard: 3, so that each of more nodes has a part of the "+
		"shards, or 0 for all nodes. It is fixed when the cluster begins", 0, shardmap.Copies,
		func(c *Config) *int { return &c.Cluster.Copies }),
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
