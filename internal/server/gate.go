package server

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// errBusy means that requests were still under way at the end of the wait for them.
var errBusy = errors.New("requests are under way")

// gate lets requests pass, and can be shut while the state is being replaced: requests that arrive meanwhile wait.
// Passing costs two additions.
type gate struct {
	inside atomic.Int64
	closed atomic.Bool

	mu      sync.Mutex    // guards opened
	opened  chan struct{} // closed when the gate opens again
	drained chan struct{} // receives when the last request has left a closed gate
}

func newGate() *gate { return &gate{drained: make(chan struct{}, 1)} }

// enter waits until the gate is open. It fails when ctx ends. Call leave after each success.
func (g *gate) enter(ctx context.Context) error {
	for {
		g.inside.Add(1)
		if !g.closed.Load() {
			return nil
		}
		g.leave()
		g.mu.Lock()
		opened := g.opened
		g.mu.Unlock()
		select {
		case <-opened:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// enterOpen is enter for a gate that does not open again: it returns false if it is shut.
func (g *gate) enterOpen() bool {
	g.inside.Add(1)
	if !g.closed.Load() {
		return true
	}
	g.leave()
	return false
}

func (g *gate) leave() {
	if g.inside.Add(-1) == 0 && g.closed.Load() {
		select {
		case g.drained <- struct{}{}:
		default:
		}
	}
}

// nudgeEvery is the interval at which shut calls nudge.
const nudgeEvery = 5 * time.Millisecond

// shut closes the gate and waits until no request is inside; nudge ends the requests that only wait for changes. If ctx
// ends first, shut opens the gate again and fails with errBusy. Only one caller at a time may shut it.
func (g *gate) shut(ctx context.Context, nudge func()) error {
	g.mu.Lock()
	g.opened = make(chan struct{})
	g.mu.Unlock()
	g.closed.Store(true)
	tick := time.NewTicker(nudgeEvery)
	defer tick.Stop()
	for g.inside.Load() != 0 {
		select {
		case <-g.drained:
		case <-tick.C:
			nudge()
		case <-ctx.Done():
			g.open()
			return errBusy
		}
	}
	return nil
}

// open lets requests pass again.
func (g *gate) open() {
	g.closed.Store(false)
	g.mu.Lock()
	close(g.opened)
	g.mu.Unlock()
}

// around serves requests with the handler after they have passed the gate.
func (g *gate) around(handler func() http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.enter(r.Context()) != nil {
			return // the client has closed the connection
		}
		defer g.leave()
		handler().ServeHTTP(w, r)
	})
}

// notOpen answers while the services are not open: before a node of a cluster has a majority.
func notOpen(w http.ResponseWriter, r *http.Request) {
	fail(w, r, wire.ErrServerBusy.WithMessage(
		"The server is starting, or waits for a majority of its cluster. Please retry your request."))
}
