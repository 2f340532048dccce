package workers

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// idler is a listener that can tell whether it has anything to do.
type idler interface {
	// idle reports whether there is nothing that the listener could do now.
	idle(ctx context.Context) (bool, error)
}

// errNotRunning: the app was not started, or has stopped.
var errNotRunning = errors.New("workers: the app is not running")

// idleEvery is how often WaitIdle looks.
const idleEvery = 2 * time.Millisecond

// WaitIdle returns when there is nothing left that the app's functions could do now, at one moment: their queues have no visible message,
// no handler runs, no timer is due, and, on Lazuli, every change of blobs and tables was told. It is meant for tests, and for a single
// instance on an account that nobody else writes to. Messages that are hidden, for a retry or a delay, are not waited for; paused functions
// count as idle. Without Lazuli's feeds it cannot see a new blob before a scan has.
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
	before := a.calls()
	for i, l := range r.listeners {
		if a.functions[i].gate.paused() {
			continue
		}
		if l, ok := l.(idler); ok {
			if idle, err := l.idle(ctx); !idle || err != nil {
				return false, err
			}
		}
	}
	// A handler that ran while we looked may have made work for a function that was found idle before.
	return a.calls() == before, nil
}

// calls counts the handler calls that have begun and ended, so that a change shows that something was done.
func (a *App) calls() (n int64) {
	for _, f := range a.functions {
		s := &f.stats
		n += s.begun.Load() + s.succeeded.Load() + s.failed.Load() + s.snoozed.Load()
	}
	return n
}

func (l *queueListener) idle(ctx context.Context) (bool, error) {
	if l.busy.Load() > 0 || l.inFlight.Load() > 0 {
		return false, nil
	}
	_, oldest, err := l.queue.depth(ctx)
	if errors.Is(err, errNoQueue) {
		return true, nil
	}
	if !oldest.IsZero() {
		l.wake() // It may be in the middle of a long pause.
	}
	// A message that was just received is not visible, and not yet in flight: it shows as busy.
	return oldest.IsZero() && l.busy.Load() == 0 && l.inFlight.Load() == 0, err
}

func (l *timerListener) idle(context.Context) (bool, error) {
	if l.lock.elsewhere.Load() {
		return true, nil
	}
	until := l.waits.Load()
	return until != nil && until.After(l.clock.Now()) && l.function.stats.inFlight.Load() == 0, nil
}

func (l *blobListener) idle(ctx context.Context) (bool, error) {
	position := l.scanner.reached.Load()
	switch {
	case position == nil, *position == "" && !l.fresh.CompareAndSwap(true, false):
		// Where nobody tells of changes, a scan must have begun since somebody asked.
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
	if err != nil || !page.known || len(page.changes) > 0 {
		return false, err
	}
	return l.messages.idle(ctx)
}

// nudge ends a pause early. Nudges that nobody waits for are kept, as one.
type nudge chan struct{}

func newNudge() nudge { return make(nudge, 1) }

func (n nudge) give() {
	select {
	case n <- struct{}{}:
	default:
	}
}

// pause waits for d, unless ctx is done or it is nudged.
func (n nudge) pause(ctx context.Context, clock Clock, d time.Duration) {
	timer := clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-n:
	case <-ctx.Done():
	}
}
