package workers

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// gate keeps a function from taking new work while it is paused.
type gate struct {
	mu     sync.Mutex
	closed bool
	next   chan struct{} // closed at the next change; nil until somebody asks
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

// Pause keeps a function of this process from taking new work until Resume; what it has in work goes on. Queue, blob and table triggers
// leave their messages where they are; a timer's runs that come due meanwhile are left out. It holds from now on, over a Stop and a Start,
// but not past the process, and does not concern other instances. Pausing twice is as good as once.
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
