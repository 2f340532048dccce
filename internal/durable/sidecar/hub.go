package sidecar

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/microsoft/durabletask-go/backend"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lazuli-storage/lazuli/internal/durable/hub"
	"github.com/lazuli-storage/lazuli/internal/durable/hubname"
	"github.com/lazuli-storage/lazuli/internal/durable/inflight"
	"github.com/lazuli-storage/lazuli/internal/durable/record"
	"github.com/lazuli-storage/lazuli/internal/sdk/sdkerr"
)

// openHub is a hub that calls have named, whose work is handed to the connected workers.
type openHub struct {
	name       string // as calls have it
	stored     string // as its resources have it
	backend    *hub.Backend
	client     *hub.Client
	dispatcher *dispatcher
	used       time.Time // of the last call; the server's mutex guards it
	newWorker  func() backend.TaskHubWorker
	gone       chan struct{} // closed when the hub is deleted
	log        *slog.Logger
	// replaceRunning: see Options.ReplaceRunning.
	replaceRunning bool

	mu      sync.Mutex // guards the rest
	opened  bool
	refused bool // it is one of another engine, and the log says so
	closed  bool // another hub has taken its place
	workers int  // connected
	running backend.TaskHubWorker
	idle    *time.Timer // stops running; nil while a worker is connected
}

// errHubClosed: the hub was closed between two steps of a call. Clients try again.
var errHubClosed = status.Error(codes.Unavailable, "the hub was closed; try again")

// close ends the hub if no worker takes part in its work, and reports whether it did.
func (h *openHub) close() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = h.running == nil
	return h.closed
}

// keptFor is the time for which a hub keeps running without workers, so that a worker can reconnect.
const keptFor = 5 * time.Second

func (s *Server) newHub(name string) (*openHub, error) {
	o := s.options.Durable
	var err error
	if o.Hub, err = hubname.Stored(name); err != nil {
		return nil, err
	}
	b, err := hub.New(o)
	if err != nil {
		return nil, err
	}
	h := &openHub{name: name, stored: o.Hub, backend: b, client: b.Client(), dispatcher: newDispatcher(),
		gone: make(chan struct{}), log: s.log.With("hub", name), replaceRunning: s.options.ReplaceRunning}
	h.newWorker = func() backend.TaskHubWorker { return b.NewWorker(executor{h}) }
	return h, nil
}

// open makes the hub in storage if it is not there.
func (h *openHub) open(ctx context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return errHubClosed
	}
	if h.opened {
		return nil
	}
	err := h.backend.CreateTaskHub(ctx)
	if errors.Is(err, record.ErrForeignHub) && !h.refused {
		h.refused = true
		h.log.Warn("calls to the task hub are refused", "err", err)
	}
	if err != nil && !errors.Is(err, backend.ErrTaskHubExists) {
		return err
	}
	h.opened = true
	return nil
}

// connect notes that a worker fetches work, until the function that it returns is called.
func (h *openHub) connect() (leave func(), err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, errHubClosed
	}
	if h.idle != nil {
		h.idle.Stop()
		h.idle = nil
	}
	if h.running == nil {
		w := h.newWorker()
		if err := w.Start(context.Background()); err != nil {
			return nil, err
		}
		h.running = w
		h.log.Info("workers are connected: taking part in the work of the hub")
	}
	h.workers++
	return h.leave, nil
}

func (h *openHub) leave() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.workers--; h.workers == 0 && h.running != nil {
		h.idle = time.AfterFunc(keptFor, h.stopIdle)
	}
}

func (h *openHub) stopIdle() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.workers == 0 {
		h.stopLocked()
	}
}

// removeHub stops a hub and deletes it from storage. Calls that name it are refused until it is gone; its workers are
// disconnected then.
func (s *Server) removeHub(ctx context.Context, h *openHub) error {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return errHubClosed
	}
	h.closed = true
	h.stopLocked()
	h.mu.Unlock()
	err := h.backend.DeleteTaskHub(ctx)
	s.mu.Lock()
	for key, other := range s.hubs {
		if other == h {
			delete(s.hubs, key)
		}
	}
	s.mu.Unlock()
	close(h.gone)
	if errors.Is(err, backend.ErrTaskHubNotFound) {
		return nil
	}
	return err
}

func (h *openHub) stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stopLocked()
}

// stopLocked stops the hub's part in the work; mu is held.
func (h *openHub) stopLocked() {
	if h.running == nil {
		return
	}
	if err := h.running.Shutdown(context.Background()); err != nil {
		h.log.Warn("cannot stop the hub's worker", "err", sdkerr.Short(err))
	}
	h.running = nil
	h.log.Info("no workers are connected: leaving the work of the hub to others")
}

// Unmatched returns the pending work of a hub, by the name under which it is stored, that no connected worker takes.
func (s *Server) Unmatched(hub string) []inflight.Unmatched {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, h := range s.hubs {
		if stored, err := hubname.Stored(name); err == nil && strings.EqualFold(stored, hub) {
			return h.backend.Unmatched()
		}
	}
	return nil
}

// Collector returns the metrics of the hubs that are open, whichever there are when they are asked for.
func (s *Server) Collector() prometheus.Collector { return collector{s} }

type collector struct{ s *Server }

// Describe implements prometheus.Collector. The descriptions are those of any backend, also of one without a hub: the
// registry asks before the first hub is open.
func (collector) Describe(out chan<- *prometheus.Desc) {
	new(hub.Backend).Collector().Describe(out)
}

// Collect implements prometheus.Collector.
func (c collector) Collect(out chan<- prometheus.Metric) {
	c.s.mu.Lock()
	var list []*hub.Backend
	for _, h := range c.s.hubs {
		list = append(list, h.backend)
	}
	c.s.mu.Unlock()
	for _, b := range list {
		b.Collector().Collect(out)
	}
}
