package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lazuli-storage/lazuli/internal/azure/faultrule"
	"github.com/lazuli-storage/lazuli/internal/azure/longpoll"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/cluster"
	"github.com/lazuli-storage/lazuli/internal/cluster/forward"
	"github.com/lazuli-storage/lazuli/internal/cluster/peering"
	"github.com/lazuli-storage/lazuli/internal/httpserver"
	"github.com/lazuli-storage/lazuli/internal/httpserver/inproc"
	"github.com/lazuli-storage/lazuli/internal/server/accounts"
	"github.com/lazuli-storage/lazuli/internal/server/archive"
	"github.com/lazuli-storage/lazuli/internal/server/backup"
	"github.com/lazuli-storage/lazuli/internal/server/events"
	"github.com/lazuli-storage/lazuli/internal/storage/datadir"
	"github.com/lazuli-storage/lazuli/internal/storage/shardmap"
)

// Front is a running front-end of a cluster: a process without data that passes all requests to the nodes with data.
// Its methods are safe for concurrent use.
type Front struct {
	config    Config
	listeners listeners
	limit     *httpserver.Limiter
	node      *cluster.Front
	passing                 // its forward is nil until the front-end knows its cluster; guarded by opened
	placed    *shardmap.Map // nil with one shard; guarded by opened

	opened  chan struct{} // closed when forward is set
	stopped chan struct{} // closed when Stop begins
	stop    sync.Once
	unserve func(context.Context)
	// follow ends what follows the nodes, and following waits for that.
	follow    context.CancelFunc
	following sync.WaitGroup
}

// ErrFront is the error of what needs the state of a node with data.
var ErrFront = errors.New("this process is a front-end, which has no data: ask a node with data")

// StartFront listens, and returns when the front-end knows its cluster; Config.Cluster.Front is set. Until then
// requests are answered 503, as they are while no node serves. Of Config it uses the addresses, limits, TLS, Cluster,
// Waiting, Log and Metrics. ctx bounds the wait for a node.
func StartFront(ctx context.Context, c Config) (_ *Front, err error) {
	c.InMemory, c.Location = true, ""
	if err := c.validate(); err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	s := &Front{config: c, limit: httpserver.NewLimiter(c.MaxRequests), opened: make(chan struct{}),
		stopped: make(chan struct{}), passing: passing{seconds: newFrontSeconds()}}
	defer func() {
		if err != nil {
			_ = s.Stop(context.Background())
		}
	}()
	if s.listeners, err = listenAll(c); err != nil {
		return nil, err
	}
	// Before the nodes are known: clients are answered 503 meanwhile, not left waiting for a connection.
	for _, srv := range s.listeners {
		srv.serve(s.handler(srv.service), c)
	}
	peers := *c.Cluster
	peers.Log = c.Log
	if s.node, err = cluster.StartFront(ctx, peers, c.Waiting); err != nil {
		return nil, err
	}
	if shards := s.node.Shards(); shards > 1 {
		if s.placed, err = shardmap.New(shards); err != nil {
			return nil, err
		}
	}
	s.forward = forward.NewFront(forward.FrontConfig{Connect: s.node.ForwardConn, Nodes: s.node.Nodes(),
		Services: serviceNames(s.node.Shards()), Logs: logNames(s.node.Shards()), Log: c.Log})
	if err := s.forward.Open(); err != nil {
		s.forward = nil
		return nil, err
	}
	close(s.opened) // from here on requests are passed on
	follow, end := context.WithCancel(context.Background())
	s.follow = end
	s.following.Go(func() { s.node.Follow(follow, func() { s.forward.SetNodes(s.node.Nodes()) }) })
	if err := s.node.Answer(s.report); err != nil {
		return nil, err
	}
	if c.Metrics != nil {
		c.Metrics.MustRegister(frontMetrics{s})
	}
	s.unserve = inproc.Serve(s.Transport().Handlers)
	return s, nil
}

// handler passes the requests of a service on.
func (s *Front) handler(svc wire.Service) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.limit.Enter() {
			fail(w, r, wire.ErrServerBusy)
			return
		}
		defer s.limit.Leave()
		select {
		case <-s.opened:
		default:
			fail(w, r, wire.ErrServerBusy.WithMessage(
				"The server waits for the nodes of its cluster. Please retry your request."))
			return
		}
		wait := func() { s.pass(w, r, svc, s.shardOf(r, svc), s.stopped) }
		if r.Header.Get(longpoll.WaitHeader) != "" {
			s.limit.Outside(wait)
			return
		}
		wait()
	})
}

// shardOf returns the shard of a request. A node finds it by itself, so that what this does not know, such as the host
// of a website, only takes a longer way.
func (s *Front) shardOf(r *http.Request, svc wire.Service) datadir.Shard {
	number := 0
	if s.placed != nil {
		if account, ok := accountOf(svc, r, wire.Options{PathStyle: s.config.PathStyle}); ok {
			number = s.placed.Of(named[svc], account)
		}
	}
	return datadir.ShardOf("", number)
}

// report returns the status that this front-end sends to the nodes.
func (s *Front) report() cluster.FrontReport {
	r := cluster.FrontReport{Serving: s.forward.Serving()}
	if err := s.Ready(); err != nil {
		r.NotReady = err.Error()
	}
	return r
}

// Ready returns nil while nodes take requests, otherwise the reason why they do not.
func (s *Front) Ready() error {
	select {
	case <-s.stopped:
		return errors.New("stopping")
	default:
	}
	if len(s.forward.Serving()) > 0 {
		return nil
	}
	if connected := s.node.Connected(); len(connected) > 0 {
		return fmt.Errorf("no node with data serves; connected: %s", strings.Join(connected, ", "))
	}
	return errors.New("no node with data is connected; lazuli cluster status has the reasons")
}

// Complete is Ready: a front-end has no copies.
func (s *Front) Complete(context.Context) error { return s.Ready() }

// Stop waits for requests under way until ctx is done, and ends them. Another call does nothing.
func (s *Front) Stop(ctx context.Context) error {
	s.stop.Do(func() {
		close(s.stopped)
		var wait sync.WaitGroup
		wait.Go(func() { s.listeners.shutdownAll(ctx) })
		if s.unserve != nil {
			wait.Go(func() { s.unserve(ctx) })
		}
		wait.Wait()
		if s.follow != nil {
			s.follow()
			s.following.Wait()
		}
		if s.forward != nil {
			s.forward.Close()
		}
		if s.node != nil {
			s.node.Close()
		}
	})
	return nil
}

// Addr returns the address that a service listens on, host:port; "" for a service that does not listen.
func (s *Front) Addr(svc wire.Service) string { return s.listeners.addressOf(svc) }

// URL returns an account's endpoint of a service; see [Server.URL].
func (s *Front) URL(svc wire.Service, account string) string {
	return s.listeners.endpointOf(svc, account, s.config.TLS != nil)
}

// Path is "": there is no data folder.
func (s *Front) Path() string { return "" }

// Shards is 0: there is no data.
func (s *Front) Shards() int { return 0 }

// Transport carries requests to the services inside the process, at the addresses of [Front.URL].
func (s *Front) Transport() *inproc.Transport {
	t := &inproc.Transport{Handlers: make(map[string]http.Handler)}
	for _, srv := range s.listeners {
		if u, err := url.Parse(s.URL(srv.service, "")); err == nil {
			t.Handlers[u.Host] = s.handler(srv.service)
		}
	}
	return t
}

// InProcess refuses all requests: those without a credential are for a server that has the state.
func (s *Front) InProcess() http.RoundTripper { return refusing{} }

// InProcessURL returns an endpoint for InProcess.
func (s *Front) InProcessURL(svc wire.Service, account string) string {
	return "http://" + hosts[svc] + "/" + account
}

type refusing struct{}

// RoundTrip implements http.RoundTripper.
func (refusing) RoundTrip(*http.Request) (*http.Response, error) { return nil, ErrFront }

// The rest of what a running server has needs state.

// Faults returns nil: rules are those of nodes with data.
func (s *Front) Faults() *faultrule.Set { return nil }

// AccountManager returns nil: accounts are added at a node with data.
func (s *Front) AccountManager() *accounts.Manager { return nil }

// Events returns nil.
func (s *Front) Events() *events.Manager { return nil }

// EventsElsewhere returns [ErrFront].
func (s *Front) EventsElsewhere() error { return ErrFront }

// ClockChanged does nothing.
func (s *Front) ClockChanged() {}

// Reset fails with [ErrFront], as do the other operations on the whole state.
func (s *Front) Reset(context.Context, Scope) (map[wire.Service]int, error) { return nil, ErrFront }

// Save fails with [ErrFront].
func (s *Front) Save(context.Context, string, bool) error { return ErrFront }

// Restore fails with [ErrFront].
func (s *Front) Restore(context.Context, string) error { return ErrFront }

// Snapshots fails with [ErrFront].
func (s *Front) Snapshots() ([]datadir.Snapshot, error) { return nil, ErrFront }

// RemoveSnapshot fails with [ErrFront].
func (s *Front) RemoveSnapshot(string) error { return ErrFront }

// Moment fails with [ErrFront].
func (s *Front) Moment(context.Context) (*Moment, error) { return nil, ErrFront }

// HeldMoment fails with [ErrFront].
func (s *Front) HeldMoment(context.Context) (*Moment, error) { return nil, ErrFront }

// Backup fails with [ErrFront].
func (s *Front) Backup(context.Context, bool, backup.Held) (backup.Source, error) {
	return nil, ErrFront
}

// ArchiveMoment fails with [ErrFront].
func (s *Front) ArchiveMoment(context.Context, int, backup.Held) (backup.Source, error) {
	return nil, ErrFront
}

// Promoted returns nil: a front-end is no standby.
func (s *Front) Promoted() <-chan struct{} { return nil }

// StandbyStatus fails with [ErrFront].
func (s *Front) StandbyStatus() (archive.Status, error) { return archive.Status{}, ErrFront }

// ArchiveSent says that a front-end has no archive.
func (s *Front) ArchiveSent() (sent archive.Sent, ok bool) { return sent, false }

// Promote fails with [ErrFront].
func (s *Front) Promote(context.Context, bool) (Promotion, error) { return Promotion{}, ErrFront }

// SnapshotLogs fails with [ErrFront].
func (s *Front) SnapshotLogs(context.Context) (map[string]LogReport, error) { return nil, ErrFront }

// RemoveNode fails with [ErrFront].
func (s *Front) RemoveNode(context.Context, string) error { return ErrFront }

// LoseNode returns [ErrFront].
func (s *Front) LoseNode(context.Context, string, bool) error { return ErrFront }

// UpgradeCluster fails with [ErrFront].
func (s *Front) UpgradeCluster(context.Context, bool) (*cluster.Upgrade, error) { return nil, ErrFront }

// MoveShard fails with [ErrFront].
func (s *Front) MoveShard(context.Context, int, string, string) (*peering.Move, error) {
	return nil, ErrFront
}

// SetAutomatic fails with [ErrFront].
func (s *Front) SetAutomatic(context.Context, bool) error { return ErrFront }

// CancelMove fails with [ErrFront].
func (s *Front) CancelMove(context.Context) (*peering.Move, error) { return nil, ErrFront }

// Layout fails with [ErrFront]: a front-end asks the nodes which of them have a shard.
func (s *Front) Layout() (peering.Layout, error) { return peering.Layout{}, ErrFront }

// ClusterStatus returns the state of the cluster as a node with data sees it.
func (s *Front) ClusterStatus(ctx context.Context) (*cluster.Status, error) {
	return s.node.Status(ctx)
}

// frontMetrics are the metrics of a front-end.
type frontMetrics struct{ front *Front }

var (
	frontRequests = prometheus.NewDesc("lazuli_front_requests_total",
		"Requests of clients of this front-end. Result passed: a node with data has answered. Refused: no node has taken "+
			"them, and they were answered 503. Unknown: the node was lost, and it is not known what the request has changed.",
		[]string{"service", "result"}, nil)
	frontServing = prometheus.NewDesc("lazuli_front_serving_nodes",
		"Nodes with data to which this front-end passes requests.", nil, nil)
)

func newFrontSeconds() *prometheus.HistogramVec {
	return newPassSeconds("lazuli_front_request_duration_seconds", "a request at this front-end")
}

// Describe implements prometheus.Collector.
func (m frontMetrics) Describe(out chan<- *prometheus.Desc) {
	out <- frontRequests
	out <- frontServing
	newFrontSeconds().Describe(out)
}

// Collect implements prometheus.Collector.
func (m frontMetrics) Collect(out chan<- prometheus.Metric) {
	out <- prometheus.MustNewConstMetric(frontServing, prometheus.GaugeValue, float64(len(m.front.forward.Serving())))
	m.front.collect(out, frontRequests)
}
