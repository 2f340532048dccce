package workers

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// idler is implemented by listeners that can report whether they are idle.
type idler interface {
	// idle reports whether the listener has no work now.
	Idle(ctx context.Context) (bool, error)
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
		idle, err := a.Idle(ctx)
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

func (a *App) Idle(ctx context.Context) (bool, error) {
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
		if i < len(a.functions) && a.functions[i].core.Gate.Paused() {
			continue
		}
		if l, ok := l.(idler); ok {
			if idle, err := l.Idle(ctx); !idle || err != nil {
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
		n += f.core.Stats.Activity()
	}
	return n
}
