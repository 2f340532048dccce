package workers

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// gate blocks new calls of a function while it is paused.
type gate struct {
	mu     sync.Mutex
	closed bool
	next   chan struct{} // closed at the next change; nil until changed is called
}

// set closes or opens the gate.
func (g *gate) set(closed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed == closed {
		return
	}
	g.closed = closed
	if g.next != nil {
		close(g.next)
		g.next = nil
	}
}

func (g *gate) paused() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.closed
}

// changed returns a channel that is closed at the next change.
func (g *gate) changed() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.next == nil {
		g.next = make(chan struct{})
	}
	return g.next
}

// pass waits until the gate is open, and returns false if ctx is done.
func (g *gate) pass(ctx context.Context) bool {
	for ctx.Err() == nil {
		changed := g.changed()
		if !g.paused() {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
	return false
}

// Pause stops new calls of a function in this process until Resume. Running calls continue. Messages of queue, blob and
// table triggers stay in their queues; timer runs that become due are skipped. The pause lasts over Stop and Start, but
// not beyond the process, and does not affect other instances. Pausing a paused function does nothing.
func (a *App) Pause(function string) error { return a.setPaused(function, true) }

// Resume ends a Pause.
func (a *App) Resume(function string) error { return a.setPaused(function, false) }

// ErrNotPausable: the function is one that cannot be paused.
var ErrNotPausable = errors.New("workers: the function cannot be paused")

func (a *App) setPaused(function string, paused bool) error {
	for _, f := range a.functions {
		if f.name == function {
			if f.trigger == orchestrationTrigger {
				return fmt.Errorf("%w: %q is an orchestration: suspend its instances", ErrNotPausable, function)
			}
			if f.gate.paused() != paused {
				a.config.Logger.Info("function "+map[bool]string{true: "paused", false: "resumed"}[paused], "function", function)
			}
			f.gate.set(paused)
			return nil
		}
	}
	return fmt.Errorf("%w: %q", ErrNoFunction, function)
}
