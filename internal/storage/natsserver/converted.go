package natsserver

import "github.com/lazuli-storage/lazuli/internal/storage/peering"

// Converted reports whether the server is a node of a cluster that begins with the data of a server alone, see
// [peering.Converted].
func (s *Server) Converted() bool {
	return s.node != nil && peering.Converted(s.node.site.Identity().Cluster)
}

// HasSeed reports whether this node's folder has data of a server alone that the cluster does not have yet.
func (s *Server) HasSeed() bool { return s.node != nil && s.node.site.Identity().Seed }

// Seeded records durably that the cluster has the data of this node's folder.
func (s *Server) Seeded() error { return s.node.site.Seeded() }
