package observe

import (
	"strconv"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// Metrics has the counters of all services of a process. It is safe for concurrent use.
type Metrics struct {
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	sent     *prometheus.CounterVec

	mu     sync.RWMutex
	series map[key]series // found once: resolving labels costs more than the rest of an observation
}

type key struct {
	service   wire.Service
	operation string
	status    int
}

type series struct {
	requests, sent prometheus.Counter
	seconds        prometheus.Observer
}

// NewMetrics registers the counters with reg. The labels are the service, the operation's name in the REST reference
// ("" for a request that was refused before its operation was known), and the HTTP status.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	labels := []string{"service", "operation", "status"}
	m := &Metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "lazuli_requests_total",
			Help: "Requests answered, by operation and HTTP status; status 0 for connections that broke before an answer."},
			labels),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "lazuli_request_duration_seconds",
			Help:    "Time from a request's head to the end of its answer, without the waits for changes that clients ask for.",
			Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}}, labels),
		sent: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "lazuli_response_bytes_total",
			Help: "Bytes of response bodies."}, labels),
		series: make(map[key]series),
	}
	reg.MustRegister(m.requests, m.seconds, m.sent)
	return m
}

// Observe counts one request. It is for [frontend.Common.Observe].
func (m *Metrics) Observe(r *wire.Request, o frontend.Outcome) {
	s := m.get(key{r.Endpoint(), r.Operation, o.Status})
	s.requests.Inc()
	s.sent.Add(float64(o.Written))
	s.seconds.Observe(o.Duration.Seconds())
}

// get returns the counters of a key. Their number is bounded by the operations and statuses: clients cannot add any.
func (m *Metrics) get(k key) series {
	m.mu.RLock()
	s, ok := m.series[k]
	m.mu.RUnlock()
	if ok {
		return s
	}
	labels := []string{k.service.String(), k.operation, strconv.Itoa(k.status)}
	s = series{m.requests.WithLabelValues(labels...), m.sent.WithLabelValues(labels...),
		m.seconds.WithLabelValues(labels...)}
	m.mu.Lock()
	m.series[k] = s
	m.mu.Unlock()
	return s
}
