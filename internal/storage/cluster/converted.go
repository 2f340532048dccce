package cluster

import "github.com/lazuli-storage/lazuli/internal/storage/peering"

// Converted reports whether this is a node of a cluster that begins with the data of a server alone, see
// [peering.Converted].
func (n *Node) Converted() bool {
	return n != nil && peering.Converted(n.site.Identity().Cluster)
}

// HasSeed reports whether this node's folder has data of a server alone that the cluster does not have yet.
func (n *Node) HasSeed() bool { return n != nil && n.site.Identity().Seed }

// Seeded records durably that the cluster has the data of this node's folder.
func (n *Node) Seeded() error { return n.site.Seeded() }
