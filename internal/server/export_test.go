package server

import "github.com/prometheus/client_golang/prometheus"

// Waiting returns how many requests wait for a change.
func (s *Server) Waiting() int { return s.services.Load().board.Waiting() }

// ClusterMetrics returns the descriptions of the metrics of a node of a cluster with several shards.
func ClusterMetrics() (list []string) {
	out := make(chan *prometheus.Desc, 100)
	clusterMetrics{shards: 2}.Describe(out)
	logMetrics{}.Describe(out)
	close(out)
	for d := range out {
		list = append(list, d.String())
	}
	return list
}

// FrontMetrics returns the metrics of a front-end, which can only be described.
func FrontMetrics() prometheus.Collector { return frontMetrics{} }

// IncompleteNode returns the reason that [Server.Complete] gives for a node.
var IncompleteNode = incompleteNode
