package hub

import (
	"context"
	"time"

	"github.com/microsoft/durabletask-go/backend"
)

// drained is a worker of the engine whose stop waits for the loop that fetches work. The engine's own loop can begin
// another fetch while the stop waits for the last one, which panics ("WaitGroup is reused before previous Wait has
// returned").
type drained struct {
	backend.TaskWorker
	cancel context.CancelFunc
	done   chan struct{}
}

// Pauses of the loop. The backend itself waits for work; it returns without it when it stops or fails.
const (
	pauseIdle   = 50 * time.Millisecond
	pauseFailed = 5 * time.Second
)

// Start implements backend.TaskWorker.
func (w *drained) Start(ctx context.Context) {
	ctx, w.cancel = context.WithCancel(ctx)
	w.done = make(chan struct{})
	go func() {
		defer close(w.done)
		for ctx.Err() == nil {
			found, err := w.ProcessNext(ctx)
			switch {
			case found:
			case err != nil:
				sleep(ctx, systemClock{}, pauseFailed)
			default:
				sleep(ctx, systemClock{}, pauseIdle)
			}
		}
	}()
}

// StopAndDrain implements backend.TaskWorker.
func (w *drained) StopAndDrain() {
	if w.cancel != nil {
		w.cancel()
		<-w.done
	}
	w.TaskWorker.StopAndDrain()
}
