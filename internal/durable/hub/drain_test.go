package hub

import (
	"context"
	"runtime"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// engineWorker notes what is done with it. A fetch ends some time after its context.
type engineWorker struct {
	fetching chan struct{}

	mu   sync.Mutex // guards list
	list []string
}

func (w *engineWorker) note(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.list = append(w.list, what)
}

// Start implements backend.TaskWorker.
func (w *engineWorker) Start(context.Context) { w.note("started") }

// ProcessNext implements backend.TaskWorker.
func (w *engineWorker) ProcessNext(ctx context.Context) (bool, error) {
	w.fetching <- struct{}{}
	<-ctx.Done()
	for range 1000 {
		runtime.Gosched()
	}
	w.note("fetch ended")
	return true, nil
}

// StopAndDrain implements backend.TaskWorker.
func (w *engineWorker) StopAndDrain() { w.note("drained") }

func TestWorkerStopsFetchingBeforeItDrains(t *testing.T) {
	t.Parallel()
	inner := &engineWorker{fetching: make(chan struct{}, 2)}
	w := &drained{TaskWorker: inner}
	w.Start(t.Context())
	<-inner.fetching
	w.StopAndDrain()
	if diff := cmp.Diff([]string{"fetch ended", "drained"}, inner.list); diff != "" {
		t.Errorf("the engine's worker (-want +got):\n%s", diff)
	}
	(&drained{TaskWorker: inner}).StopAndDrain() // one that was not started
}
