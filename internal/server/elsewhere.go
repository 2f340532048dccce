package server

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lazuli-storage/lazuli/internal/azure/longpoll"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/cluster/forward"
	"github.com/lazuli-storage/lazuli/internal/httpserver"
	"github.com/lazuli-storage/lazuli/internal/storage/datadir"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// In a cluster with a table of hosts (internal/storage/shardmap/hosts.go) a node has a part of the shards. It opens
// nothing of the others, and passes requests for their accounts to a node that has them, as a front-end does: both by
// passing. See docs/design/shards.md.

// passing passes requests to nodes that have their shards, and measures how long that takes.
type passing struct {
	forward *forward.Front
	seconds *prometheus.HistogramVec
}

// newPassSeconds makes the histogram of a passing.
func newPassSeconds(name, of string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name,
		Help: "Time from " + of + " to the end of its answer, bodies included, without the waits for changes that clients " +
			"ask for.",
		Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}}, []string{"service"})
}

// collect exports what became of the requests, by service: the shards are those of other nodes.
func (p *passing) collect(out chan<- prometheus.Metric, requests *prometheus.Desc) {
	sums := map[string]forward.FrontStats{}
	for name, n := range p.forward.Stats() {
		service, _, _ := strings.Cut(name, "-")
		sum := sums[service]
		sum.Passed, sum.Refused, sum.Unknown = sum.Passed+n.Passed, sum.Refused+n.Refused, sum.Unknown+n.Unknown
		sums[service] = sum
	}
	for service, n := range sums {
		for result, value := range map[string]uint64{"passed": n.Passed, "refused": n.Refused, "unknown": n.Unknown} {
			out <- prometheus.MustNewConstMetric(requests, prometheus.CounterValue, float64(value), service, result)
		}
	}
	p.seconds.Collect(out)
}

// elsewhere passes the requests for shards that this node does not have to nodes that have them.
type elsewhere struct {
	passing
	// limit bounds the requests under way. The nodes that serve them count them as well.
	limit *httpserver.Limiter
	ended func() <-chan struct{} // is closed when waits for changes end
}

// handler passes the requests of a service for one shard on. That a request was passed on before is no reason to refuse
// it: a front-end does not know all names of accounts. It goes to a node that has the shard, which serves it.
func (e *elsewhere) handler(svc wire.Service, of datadir.Shard) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !e.limit.Enter() {
			fail(w, r, wire.ErrServerBusy)
			return
		}
		defer e.limit.Leave()
		wait := func() { e.pass(w, r, svc, of, e.ended()) }
		if r.Header.Get(longpoll.WaitHeader) != "" {
			e.limit.Outside(wait)
			return
		}
		wait()
	})
}

// pass forwards a request for a shard to a node that has the shard, and answers it with an error if no node takes it.
// Requests that wait for changes end when stopped is closed.
func (p *passing) pass(w http.ResponseWriter, r *http.Request, svc wire.Service, of datadir.Shard,
	stopped <-chan struct{}) {
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodOptions
	// Messages that are read become invisible. A wait ends soonest where the change arrives first.
	waits := r.Header.Get(longpoll.WaitHeader) != "" || r.Header.Get(longpoll.ReleaseHeader) != ""
	changes := !reads || svc == wire.Queue || waits && svc == wire.Table
	var released <-chan struct{}
	if waits {
		released = stopped
	}
	begun := time.Now()
	err := p.forward.Serve(w, r, serviceOf(svc.String(), of), of.Log(logOf[svc]), changes,
		reads && svc != wire.Queue, released)
	if !waits { // a wait says how seldom something changes
		p.seconds.WithLabelValues(svc.String()).Observe(time.Since(begun).Seconds())
	}
	switch {
	case err == nil:
	case errors.Is(err, forward.ErrNoNode):
		fail(w, r, wire.ErrServerBusy.WithMessage(
			"No node of the cluster takes the request. Please retry your request."))
	case errors.Is(err, store.ErrUnknown) && svc == wire.Queue:
		fail(w, r, wire.ErrServerBusy) // as a node with data answers
	case errors.Is(err, store.ErrUnknown):
		fail(w, r, wire.ErrOperationTimedOut.WithMessage(
			"The node that had the request was lost. The operation may or may not have been completed."))
	case r.Context().Err() != nil: // the client is gone
	default:
		panic(http.ErrAbortHandler) // the rest of the answer is lost, and the client must see that
	}
}

// logOf are the names of the logs that the services append to.
var logOf = map[wire.Service]string{wire.Blob: "blobs", wire.DataLake: "blobs", wire.Queue: "queues",
	wire.Table: "tables"}

// serviceOf is the name that the service of a shard has between nodes. That of shard 0 is what it is without shards.
func serviceOf(service string, of datadir.Shard) string { return of.Log(service) }

// serviceNames are the names of the services in requests that are passed on, of a number of shards.
func serviceNames(shards int) (names []string) {
	for svc := range logOf {
		for n := range shards {
			names = append(names, serviceOf(svc.String(), datadir.ShardOf("", n)))
		}
	}
	return names
}

// fail answers a request that no service sees. It does not parse the request, whose account may not be known.
func fail(w http.ResponseWriter, r *http.Request, e *wire.Error) {
	w.Header()["x-ms-error-code"] = []string{e.Code}
	if e.Status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
	}
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(e.Status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(wire.NewXML(256).Open("Error").Text("Code", e.Code).Text("Message", e.Message).Close("Error").Bytes())
	}
}

// retryAfter is the number of seconds after which a client may try again.
const retryAfter = 1
