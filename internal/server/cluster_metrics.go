package server

import (
	"math"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lazuli-storage/lazuli/internal/cluster"
)

// clusterMetrics are the metrics of a node of a cluster that has a number of shards.
type clusterMetrics struct {
	server *Server
	shards int
}

var (
	clusterMajority = prometheus.NewDesc("lazuli_cluster_majority",
		"1 while this node is connected to a majority of the cluster.", nil, nil)
	clusterLeads = prometheus.NewDesc("lazuli_cluster_leader", "1 while this node leads the cluster's metadata.", nil,
		nil)
	clusterCurrent = prometheus.NewDesc("lazuli_cluster_current",
		"1 while this node has caught up with the cluster's metadata.", nil, nil)
	clusterNodes = prometheus.NewDesc("lazuli_cluster_connected_nodes", "Other nodes to which this node is connected.",
		nil, nil)
	clusterChanges = prometheus.NewDesc("lazuli_cluster_leader_changes_total",
		"Changes of the leader that this node has seen.", nil, nil)
	contentMissing, shardMissing = oneOrShards("lazuli_content_missing_bytes",
		"Content of blobs that other nodes have and this node lacks. It copies it in the background. NaN until all other "+
			"nodes have answered since its start.")
	contentHealed, shardHealed = oneOrShards("lazuli_content_healed_total",
		"Damaged records of content that were replaced by copies of other nodes.")
	forwardedRequests = prometheus.NewDesc("lazuli_log_forwarded_requests_total",
		"Requests of clients of this node for which another node is the home of the log. Result passed: it has answered. "+
			"Kept: they were served here. Unknown: it was lost, and it is not known what the request has changed.",
		[]string{"log", "result"}, nil)
	shardRequests = prometheus.NewDesc("lazuli_shard_forwarded_requests_total",
		"Requests at this node for shards that it does not have; service Shard are those of the nodes themselves. Result "+
			"passed: a node with the shard has answered. Refused: none has taken them, and they were answered 503. Unknown: "+
			"the node was lost, and it is not known what the request has changed.",
		[]string{"service", "result"}, nil)
	clusterClock = prometheus.NewDesc("lazuli_cluster_clock_offset_seconds",
		"How far the clock of another node is ahead of this node's.", []string{"peer"}, nil)
)

// oneOrShards describes a metric of a node with one shard, and the same with a label for each of several.
func oneOrShards(name, help string) (one, shards *prometheus.Desc) {
	return prometheus.NewDesc(name, help, nil, nil), prometheus.NewDesc(name, help, []string{"shard"}, nil)
}

func newShardSeconds() *prometheus.HistogramVec {
	return newPassSeconds("lazuli_shard_forwarded_duration_seconds",
		"a request at this node for a shard that it does not have")
}

// Describe implements prometheus.Collector.
func (m clusterMetrics) Describe(out chan<- *prometheus.Desc) {
	missing, healed := contentMissing, contentHealed
	if m.shards > 1 {
		missing, healed = shardMissing, shardHealed
	}
	for _, d := range []*prometheus.Desc{clusterMajority, clusterLeads, clusterCurrent, clusterNodes, clusterChanges,
		clusterClock, missing, healed, forwardedRequests} {
		out <- d
	}
	if m.shards > 1 {
		out <- shardRequests
		newShardSeconds().Describe(out)
	}
}

// Collect implements prometheus.Collector.
func (m clusterMetrics) Collect(out chan<- prometheus.Metric) {
	var v cluster.View // before the services are open, the node has no majority
	open := m.server.services.Load()
	if open != nil {
		v = open.node.View()
	}
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	gauge(clusterMajority, number(v.Majority))
	gauge(clusterLeads, number(v.Leads))
	gauge(clusterCurrent, number(v.Current))
	gauge(clusterNodes, float64(v.Connected))
	out <- prometheus.MustNewConstMetric(clusterChanges, prometheus.CounterValue, float64(v.LeaderChanges))
	if open != nil {
		for _, of := range open.list() {
			content := of.blobs.State.Membership
			missing, healed, labels := contentMissing, contentHealed, []string(nil)
			if m.shards > 1 {
				missing, healed, labels = shardMissing, shardHealed, []string{strconv.Itoa(of.Number)}
			}
			gauge(missing, missingContent(content.Behind()), labels...)
			out <- prometheus.MustNewConstMetric(healed, prometheus.CounterValue, float64(content.Healed()), labels...)
		}
		for log, n := range open.forward.Stats() {
			for result, value := range map[string]uint64{"passed": n.Passed, "kept": n.Kept, "unknown": n.Unknown} {
				out <- prometheus.MustNewConstMetric(forwardedRequests, prometheus.CounterValue, float64(value), log, result)
			}
		}
	}
	if open != nil && open.elsewhere != nil {
		open.elsewhere.collect(out, shardRequests)
	}
	for peer, offset := range v.Clocks {
		gauge(clusterClock, offset.Seconds(), peer)
	}
}

// missingContent is the value of contentMissing. NaN is neither 0 nor more than 0, so that no alert and no script takes
// it for either.
func missingContent(n int64, known bool) float64 {
	if !known {
		return math.NaN()
	}
	return float64(n)
}
