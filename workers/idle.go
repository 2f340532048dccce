package workers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/lazuli-storage/lazuli/internal/azure/longpoll"
)

// idler is implemented by listeners that can report whether they are idle.
type idler interface {
	// idle reports whether the listener has no work now.
	idle(ctx context.Context) (bool, error)
}

// errNotRunning means that the app was not started or has stopped.
var errNotRunning = errors.New("workers: the app is not running")

// idleEvery is the interval of the checks of WaitIdle.
const idleEvery = 2 * time.Millisecond

// WaitIdle returns when the app's functions have no work: their queues have no visible message, no handler runs or may
// run by its limit of rate, no timer is due, and, on Lazuli, all changes of blobs and tables have been read. It is
// meant for tests with a single instance on an account without other writers. It does not wait for hidden messages
// (retries, delays). Paused functions count as idle. On services without change feeds it waits for a scan of each
// blob trigger.
func (a *App) WaitIdle(ctx context.Context) error {
	for {
		idle, err := a.idle(ctx)
		if err != nil || idle {
			return err
		}
		timer := time.NewTimer(idleEvery)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("workers: the app has not become idle: %w", context.Cause(ctx))
		}
	}
}

func (a *App) idle(ctx context.Context) (bool, error) {
	a.mu.Lock()
	r := a.current
	a.mu.Unlock()
	if r == nil {
		return false, errNotRunning
	}
	if r.engine != nil && r.engine.run.Load() == nil {
		return false, nil // The other functions wait for it.
	}
	before := a.calls()
	for i, l := range r.listeners {
		if i < len(a.functions) && a.functions[i].gate.paused() {
			continue
		}
		if l, ok := l.(idler); ok {
			if idle, err := l.idle(ctx); !idle || err != nil {
				return false, err
			}
		}
	}
	// A handler that ran during the check may have created work for a function that was idle before.
	return a.calls() == before, nil
}

// calls counts started and finished calls; a change of the number shows activity.
func (a *App) calls() (n int64) {
	for _, f := range a.functions {
		s := &f.stats
		n += s.begun.Load() + s.succeeded.Load() + s.failed.Load() + s.snoozed.Load()
	}
	return n
}

func (l *queueListener) idle(ctx context.Context) (bool, error) {
	l.wake()                                // It may be in a long pause.
	defer l.function.gate.polls.Exclude()() // A message that was just received is neither visible nor in flight.
	n := l.inFlight.Load()
	if l.limits.blocked(n) {
		return true, nil // It has no work until time passes.
	}
	if n > 0 {
		return false, nil
	}
	_, oldest, err := l.queue.depth(ctx)
	if errors.Is(err, errNoQueue) {
		return true, nil
	}
	return oldest.IsZero(), err
}

func (l *timerListener) idle(context.Context) (bool, error) {
	if l.lock.elsewhere.Load() {
		return true, nil
	}
	until := l.waits.Load()
	return until != nil && until.After(l.clock.Now()) && l.function.stats.inFlight.Load() == 0, nil
}

func (l *blobListener) idle(ctx context.Context) (bool, error) {
	if l.function.settings.events {
		return l.messages.idle(ctx)
	}
	position := l.scanner.reached.Load()
	switch {
	case position == nil, *position == "" && !l.fresh.CompareAndSwap(true, false):
		// Without a change feed, a scan must have started after this call.
		l.asked.Store(true)
		l.nudge.give()
		return false, nil
	case *position != "":
		page, err := l.scanner.changes(ctx, *position, 0)
		if err != nil || !page.known || len(page.items) > 0 {
			return false, err
		}
	}
	return l.messages.idle(ctx)
}

func (l *tableListener) idle(ctx context.Context) (bool, error) {
	position := l.reached.Load()
	if position == nil {
		l.nudge.give()
		return false, nil
	}
	page, err := l.feed.after(ctx, *position, 0)
	if hasTableCode(err, aztables.TableNotFound) && *position == longpoll.FromCreation {
		return l.messages.idle(ctx)
	}
	if err != nil || !page.known || len(page.changes) > 0 {
		l.nudge.give() // It may be in the pause after an error.
		return false, err
	}
	return l.messages.idle(ctx)
}

// nudge interrupts a pause. A nudge without a pause is kept for the next one.
type nudge chan struct{}

func newNudge() nudge { return make(nudge, 1) }

func (n nudge) give() {
	select {
	case n <- struct{}{}:
	default:
	}
}

// pause waits for d, for a nudge, or until ctx is done.
func (n nudge) pause(ctx context.Context, clock Clock, d time.Duration) {
	timer := clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-n:
	case <-ctx.Done():
	}
}
