package sweep

import (
	"context"
	"sync"
)

// Loop runs background work when it is woken, one run at a time. Start it once and stop it once.
type Loop struct {
	wake   chan struct{} // of one element: one pending wake-up is enough
	cancel context.CancelFunc
	done   sync.WaitGroup
}

// Start calls work now and after each [Loop.Wake]. work returns when nothing is left to do, or when its context is
// done.
func Start(work func(context.Context)) *Loop {
	ctx, cancel := context.WithCancel(context.Background())
	l := &Loop{wake: make(chan struct{}, 1), cancel: cancel}
	l.Wake()
	l.done.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-l.wake:
				work(ctx)
			}
		}
	})
	return l
}

// Wake asks for a run. It never blocks.
func (l *Loop) Wake() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Stop ends the work and waits for that. It may be called twice.
func (l *Loop) Stop() {
	l.cancel()
	l.done.Wait()
}
