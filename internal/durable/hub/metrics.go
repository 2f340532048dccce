package hub

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// counters are the metrics of a backend, each with the label hub.
var counters = []struct {
	name, help string
	value      func(*stats) *atomic.Int64
}{
	{"lazuli_durable_checkpoints_total", "Checkpoints of workflows that were committed.",
		func(s *stats) *atomic.Int64 { return &s.checkpoints }},
	{"lazuli_durable_checkpoint_conflicts_total",
		"Checkpoints that were refused because another process had written the history.",
		func(s *stats) *atomic.Int64 { return &s.conflicts }},
	{"lazuli_durable_activities_total", "Activities that ran and whose result was sent.",
		func(s *stats) *atomic.Int64 { return &s.activities }},
	{"lazuli_durable_entity_batches_total", "Batches of operations of entities that were committed.",
		func(s *stats) *atomic.Int64 { return &s.entityBatches }},
	{"lazuli_durable_entity_operations_total", "Operations of entities that ran.",
		func(s *stats) *atomic.Int64 { return &s.entityOperations }},
	{"lazuli_durable_messages_total", "Messages that were received.",
		func(s *stats) *atomic.Int64 { return &s.received }},
	{"lazuli_durable_messages_dropped_total",
		"Messages that were dropped: copies, and messages for tasks or instances that are not running.",
		func(s *stats) *atomic.Int64 { return &s.dropped }},
	{"lazuli_durable_messages_poisoned_total", "Messages that could not be read, moved to the poison queue.",
		func(s *stats) *atomic.Int64 { return &s.poisoned }},
	{"lazuli_durable_history_loads_total", "Histories that were read from their table.",
		func(s *stats) *atomic.Int64 { return &s.loads }},
}

var partitionsOwned = prometheus.NewDesc("lazuli_durable_partitions_owned",
	"Partitions whose messages this process receives.", []string{"hub"}, nil)

// Collector returns the backend's metrics, with the label hub.
func (b *Backend) Collector() prometheus.Collector { return collector{b} }

type collector struct{ b *Backend }

// Describe implements prometheus.Collector. The descriptions are the same for every backend.
func (c collector) Describe(out chan<- *prometheus.Desc) {
	for _, m := range counters {
		out <- prometheus.NewDesc(m.name, m.help, []string{"hub"}, nil)
	}
	out <- partitionsOwned
}

// Collect implements prometheus.Collector.
func (c collector) Collect(out chan<- prometheus.Metric) {
	hub := c.b.options.Hub
	for _, m := range counters {
		out <- prometheus.MustNewConstMetric(prometheus.NewDesc(m.name, m.help, []string{"hub"}, nil),
			prometheus.CounterValue, float64(m.value(&c.b.stats).Load()), hub)
	}
	c.b.mu.Lock()
	l := c.b.leases
	c.b.mu.Unlock()
	owned := 0
	if l != nil { // A backend that was not started owns nothing.
		owned = len(l.IDs())
	}
	out <- prometheus.MustNewConstMetric(partitionsOwned, prometheus.GaugeValue, float64(owned), hub)
}
