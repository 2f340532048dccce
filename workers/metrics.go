package workers

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lazuli-storage/lazuli/workers/internal/trigger"
)

// Collector returns a collector for the app's metrics, to be registered with a Prometheus registry. While the app runs,
// every scrape sends two requests for each queue to the storage account, for the metrics of queued messages; they time
// out after 3 s.
func (a *App) Collector() prometheus.Collector { return collector{a} }

type collector struct{ app *App }

// depthTimeout limits the requests for queued messages during a scrape.
const depthTimeout = 3 * time.Second

// metric is a metric family with one value for each function.
type metric struct {
	name, help string
	kind       prometheus.ValueType
	value      func(*trigger.Stats) float64
}

var metrics = []metric{
	{"lazuli_worker_in_flight", "In-flight messages and timer runs.", prometheus.GaugeValue,
		func(s *trigger.Stats) float64 { return float64(s.InFlight.Load()) }},
	{"lazuli_worker_succeeded_total", "Handler calls that succeeded.", prometheus.CounterValue,
		func(s *trigger.Stats) float64 { return float64(s.Succeeded.Load()) }},
	{"lazuli_worker_failed_total", "Handler calls that failed.", prometheus.CounterValue,
		func(s *trigger.Stats) float64 { return float64(s.Failed.Load()) }},
	{"lazuli_worker_poisoned_total", "Messages moved to the poison queue.", prometheus.CounterValue,
		func(s *trigger.Stats) float64 { return float64(s.Poisoned.Load()) }},
	{"lazuli_worker_snoozed_total", "Messages put back without counting the attempt.", prometheus.CounterValue,
		func(s *trigger.Stats) float64 { return float64(s.Snoozed.Load()) }},
	{"lazuli_worker_released_total", "Messages released because the app stopped.", prometheus.CounterValue,
		func(s *trigger.Stats) float64 { return float64(s.Released.Load()) }},
	{"lazuli_worker_put_back_total", "Deliveries put back by the rate limit of a key.", prometheus.CounterValue,
		func(s *trigger.Stats) float64 { return float64(s.PutBack.Load()) }},
	{"lazuli_worker_lease_renewals_total", "Renewals of leases on messages.", prometheus.CounterValue,
		func(s *trigger.Stats) float64 { return float64(s.LeaseRenewals.Load()) }},
	{"lazuli_worker_leases_lost_total", "Leases on messages that were lost.", prometheus.CounterValue,
		func(s *trigger.Stats) float64 { return float64(s.LeaseLost.Load()) }},
	{"lazuli_worker_stuck_total", "Handlers abandoned because they did not return.", prometheus.CounterValue,
		func(s *trigger.Stats) float64 { return float64(s.Stuck.Load()) }},
}

var (
	metricLabels = []string{"host", "function", "trigger"}
	descriptions = func() map[string]*prometheus.Desc {
		all := map[string]*prometheus.Desc{}
		add := func(name, help string) { all[name] = prometheus.NewDesc(name, help, metricLabels, nil) }
		for _, m := range metrics {
			add(m.name, m.help)
		}
		add("lazuli_worker_paused", "1 if the function is paused.")
		add("lazuli_worker_duration_seconds", "Duration of handler calls.")
		add("lazuli_worker_message_age_seconds", "Time from the insertion of a message to the call of its handler.")
		add("lazuli_worker_queue_messages", "Messages in the function's queue, hidden ones included.")
		add("lazuli_worker_queue_oldest_seconds", "Age of the queue's first visible message; 0 if none is visible.")
		return all
	}()
)

// Describe implements prometheus.Collector.
func (c collector) Describe(descs chan<- *prometheus.Desc) {
	for _, d := range descriptions {
		descs <- d
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(out chan<- prometheus.Metric) {
	for _, f := range c.app.functions {
		labels := []string{c.app.config.HostID, f.core.Name, f.core.Trigger}
		value := func(name string, kind prometheus.ValueType, v float64) {
			out <- prometheus.MustNewConstMetric(descriptions[name], kind, v, labels...)
		}
		for _, m := range metrics {
			value(m.name, m.kind, m.value(&f.core.Stats))
		}
		paused := 0.0
		if f.core.Gate.Paused() {
			paused = 1
		}
		value("lazuli_worker_paused", prometheus.GaugeValue, paused)
		out <- relabelled{f.core.Stats.Duration, descriptions["lazuli_worker_duration_seconds"], c.app.config.HostID, f}
		if f.fromQueue() {
			out <- relabelled{f.core.Stats.Age, descriptions["lazuli_worker_message_age_seconds"], c.app.config.HostID, f}
		}
	}
	// Last, since it waits for the account: what this process counts is there without it.
	c.depths(out)
}

// depths reads the number of messages and the oldest message of all queues, concurrently.
func (c collector) depths(out chan<- prometheus.Metric) {
	c.app.mu.Lock()
	r := c.app.current
	c.app.mu.Unlock()
	if r == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), depthTimeout)
	defer cancel()
	var wg sync.WaitGroup
	for i, f := range c.app.functions {
		source, ok := r.listeners[i].(trigger.Queued)
		if !ok {
			continue
		}
		wg.Go(func() {
			n, oldest, err := source.MessageQueue().Depth(ctx)
			if err != nil {
				return // No value on errors, or if the queue does not exist.
			}
			age := 0.0
			if !oldest.IsZero() {
				age = max(c.app.config.Clock.Now().Sub(oldest).Seconds(), 0)
			}
			labels := []string{c.app.config.HostID, f.core.Name, f.core.Trigger}
			out <- prometheus.MustNewConstMetric(descriptions["lazuli_worker_queue_messages"], prometheus.GaugeValue, float64(n),
				labels...)
			out <- prometheus.MustNewConstMetric(descriptions["lazuli_worker_queue_oldest_seconds"], prometheus.GaugeValue, age,
				labels...)
		})
	}
	wg.Wait()
}
