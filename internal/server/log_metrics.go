package server

import "github.com/prometheus/client_golang/prometheus"

// logMetrics are the metrics of the replicated logs.
type logMetrics struct{ server *Server }

var (
	logApplied = prometheus.NewDesc("lazuli_log_applied_sequence",
		"Sequence of the last record of a replicated log that this node has applied.", []string{"log"}, nil)
	logLag = prometheus.NewDesc("lazuli_log_lag_messages",
		"Messages of a replicated log that this node has not processed yet.", []string{"log"}, nil)
	logCatchingUp = prometheus.NewDesc("lazuli_log_catching_up", "1 while this node catches up with a replicated log.",
		[]string{"log"}, nil)
	logAppends = prometheus.NewDesc("lazuli_log_appends_total",
		"Records that this node has appended to a replicated log.", []string{"log"}, nil)
	logConflicts = prometheus.NewDesc("lazuli_log_conflicts_total",
		"Appends of this node that a record of another node overtook.", []string{"log"}, nil)
	logSeconds = prometheus.NewDesc("lazuli_log_append_seconds_total", "Total time of this node's successful appends.",
		[]string{"log"}, nil)
	logBytes = prometheus.NewDesc("lazuli_log_bytes",
		"Size of a replicated log on this node's disk; no value while the node has no copy of it.", []string{"log"}, nil)
	logSnapshotTime = prometheus.NewDesc("lazuli_log_snapshot_timestamp_seconds",
		"When the newest snapshot of a replicated log that this node has made or read was complete; no value without one.",
		[]string{"log"}, nil)
	logSnapshotBytes = prometheus.NewDesc("lazuli_log_snapshot_bytes",
		"Size of the newest snapshot of a replicated log that this node has made or read; no value without one.",
		[]string{"log"}, nil)
)

// Describe implements prometheus.Collector.
func (m logMetrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{logApplied, logLag, logCatchingUp, logAppends, logConflicts, logSeconds,
		logBytes, logSnapshotTime, logSnapshotBytes} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (m logMetrics) Collect(out chan<- prometheus.Metric) {
	open := m.server.services.Load()
	if open == nil {
		return
	}
	sizes := open.nats.StreamSizes()
	for name, svc := range open.logs() {
		r, ok := svc.Replication()
		if !ok {
			continue
		}
		if size, ok := sizes[r.Stream]; ok {
			out <- prometheus.MustNewConstMetric(logBytes, prometheus.GaugeValue, float64(size), name)
		}
		if s := r.Snapshot; !s.Time.IsZero() {
			at := float64(s.Time.UnixMilli()) / 1000
			out <- prometheus.MustNewConstMetric(logSnapshotTime, prometheus.GaugeValue, at, name)
			out <- prometheus.MustNewConstMetric(logSnapshotBytes, prometheus.GaugeValue, float64(s.Bytes), name)
		}
		for d, value := range map[*prometheus.Desc]float64{logApplied: float64(r.Applied), logLag: float64(r.Lag),
			logCatchingUp: number(r.CatchingUp)} {
			out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, name)
		}
		for d, value := range map[*prometheus.Desc]float64{logAppends: float64(r.Appends), logConflicts: float64(r.Conflicts),
			logSeconds: r.AppendTime.Seconds()} {
			out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, value, name)
		}
	}
}

// number returns 1 for true.
func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
