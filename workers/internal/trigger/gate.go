package trigger

import (
	"context"
	"sync"
	"time"

	"github.com/lazuli-storage/lazuli/internal/sdk/messages"
	"github.com/lazuli-storage/lazuli/workers/internal/calls"
)

// pauser says who has paused a function.
type pauser uint8

const (
	PausedHere   pauser = 1 << iota // Pause, in this process
	PausedByRows                    // a row of the account; see report.go
)

// gate blocks new calls of a function while it is paused.
type gate struct {
	polls messages.Polls // of the function's queue

	mu     sync.Mutex    // guards the rest
	closed pauser        // all who have paused it
	next   chan struct{} // closed at the next change; nil until changed is called
}

// Set closes or opens the gate on behalf of who; it is open if nothing closes it. It returns whether that has changed.
func (g *gate) Set(who pauser, closed bool) (changed bool) {
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

// Paused reports whether anyone has paused the function.
func (g *gate) Paused() bool { return g.Pausers() != 0 }

// Pausers returns who has.
func (g *gate) Pausers() pauser {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.closed
}

// EndPoll returns when the poll under way, which the caller has interrupted, has ended; after most at the latest.
func (g *gate) EndPoll(clock calls.Clock, most time.Duration) {
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

// Changed returns a channel that is closed at the next change.
func (g *gate) Changed() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.next == nil {
		g.next = make(chan struct{})
	}
	return g.next
}

// Pass waits until the gate is open, and returns false if ctx is done.
func (g *gate) Pass(ctx context.Context) bool {
	for ctx.Err() == nil {
		changed := g.Changed()
		if !g.Paused() {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
	return false
}
