package workers

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lazuli-storage/lazuli/internal/sdk/messages"
)

// pauser says who has paused a function.
type pauser uint8

const (
	pausedHere   pauser = 1 << iota // Pause, in this process
	pausedByRows                    // a row of the account; see report.go
)

// gate blocks new calls of a function while it is paused.
type gate struct {
	polls messages.Polls // of the function's queue

	mu     sync.Mutex    // guards the rest
	closed pauser        // all who have paused it
	next   chan struct{} // closed at the next change; nil until changed is called
}

// set closes or opens the gate on behalf of who; it is open if nothing closes it. It returns whether that has changed.
func (g *gate) set(who pauser, closed bool) (changed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	before := g.closed
	if g.closed &^= who; closed {
		g.closed |= who
	}
	if (before != 0) == (g.closed != 0) {
		return false
	}
	if g.next != nil {
		close(g.next)
		g.next = nil
	}
	return true
}

func (g *gate) paused() bool { return g.pausers() != 0 }

func (g *gate) pausers() pauser {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.closed
}

// endPoll returns when the poll under way, which the caller has interrupted, has ended; after most at the latest.
func (g *gate) endPoll(clock Clock, most time.Duration) {
	ended := make(chan struct{})
	go func() {
		defer g.polls.Exclude()()
		close(ended)
	}()
	limit := clock.NewTimer(most)
	defer limit.Stop()
	select {
	case <-ended:
	case <-limit.C():
	}
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

// maxPause is how long Pause waits for the end of a poll, at a service that does not answer.
const maxPause = 5 * time.Second

// Pause stops new calls of a function in this process until Resume. Running calls continue. Messages of queue, blob and
// table triggers stay in their queues; timer runs that become due are skipped. The pause lasts over Stop and Start, but
// not beyond the process, and does not affect other instances. Pausing a paused function does nothing.
//
// `lazuli workers pause --app` and the dashboard pause a function in all processes of an app, by a row of the account;
// see Config.Heartbeat. A function runs if neither pauses it.
func (a *App) Pause(function string) error { return a.setPaused(function, true) }

// Resume ends a Pause. A function that a row of the account pauses stays paused.
func (a *App) Resume(function string) error { return a.setPaused(function, false) }

// ErrNotPausable: the function is one that cannot be paused.
var ErrNotPausable = errors.New("workers: the function cannot be paused")

func (a *App) setPaused(function string, paused bool) error {
	for _, f := range a.functions {
		if f.name == function {
			if f.trigger == orchestrationTrigger {
				return fmt.Errorf("%w: %q is an orchestration: suspend its instances", ErrNotPausable, function)
			}
			if f.gate.set(pausedHere, paused) {
				a.config.Logger.Info("function "+map[bool]string{true: "paused", false: "resumed"}[paused], "function", function)
			}
			if paused {
				f.gate.endPoll(a.config.Clock, maxPause)
			}
			return nil
		}
	}
	return fmt.Errorf("%w: %q", ErrNoFunction, function)
}
