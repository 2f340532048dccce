package server

import "github.com/prometheus/client_golang/prometheus"

// Damage holds what the running services have found damaged in their files.
type Damage struct {
	// TableReads, BlobReads and ContentReads are the reads since the services were opened that failed because of damage:
	// of the table database, of the blob database, and of content.
	TableReads, BlobReads, ContentReads int64
	// MessagesSetAside is the number of messages that cannot be read, in the queues that have been used since the start;
	// Queues is the number of queues that are not used because records of them were lost.
	MessagesSetAside, Queues int
}

// Damage returns what was found damaged; ok is false while the services are not open.
func (s *Server) Damage() (d Damage, ok bool) {
	open := s.services.Load()
	if open == nil {
		return Damage{}, false
	}
	for _, of := range open.list() {
		metadata, content := of.blobs.State.Damages()
		messages, queues := of.queues.State.Damage()
		d.TableReads += of.tables.State.Damages()
		d.BlobReads += metadata
		d.ContentReads += content
		d.MessagesSetAside += messages
		d.Queues += queues
	}
	return d, true
}

var (
	damagedReads = prometheus.NewDesc("lazuli_damaged_reads_total",
		"Reads that failed because the data on disk is damaged, by part: tables, blobs (metadata), content.",
		[]string{"part"}, nil)
	messagesSetAside = prometheus.NewDesc("lazuli_queue_messages_set_aside",
		"Messages that cannot be read because of damage, in the queues that have been used since the start.", nil, nil)
	damagedQueues = prometheus.NewDesc("lazuli_damaged_queues",
		"Queues that are not used because records of them were lost.", nil, nil)
)

// damageCollector exports Damage as metrics.
type damageCollector struct{ s *Server }

// Describe implements prometheus.Collector.
func (c damageCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- damagedReads
	ch <- messagesSetAside
	ch <- damagedQueues
}

// Collect implements prometheus.Collector.
func (c damageCollector) Collect(ch chan<- prometheus.Metric) {
	d, ok := c.s.Damage()
	if !ok {
		return
	}
	for part, n := range map[string]int64{"tables": d.TableReads, "blobs": d.BlobReads, "content": d.ContentReads} {
		ch <- prometheus.MustNewConstMetric(damagedReads, prometheus.CounterValue, float64(n), part)
	}
	ch <- prometheus.MustNewConstMetric(messagesSetAside, prometheus.GaugeValue, float64(d.MessagesSetAside))
	ch <- prometheus.MustNewConstMetric(damagedQueues, prometheus.GaugeValue, float64(d.Queues))
}
