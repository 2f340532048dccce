package natsserver

import (
	"errors"
	"runtime"
	"sync"
)

// syncer shares syncs: a call waits for the first sync that starts after it. While one runs, all that come gather for
// the next, and nobody waits for a timer.
type syncer struct {
	target interface {
		sync() error
		close()
	}

	mu      sync.Mutex // guards the rest
	next    *round     // has not started
	running bool
	failed  error // set once, for good
}

// round is one sync and those who wait for it.
type round struct {
	done    chan struct{} // closed when err is set
	err     error
	waiters int
}

func newSyncer(target interface {
	sync() error
	close()
}) *syncer {
	return &syncer{target: target, next: &round{done: make(chan struct{})}}
}

func (y *syncer) wait() error {
	y.mu.Lock()
	r := y.next
	r.waiters++
	if !y.running {
		y.running = true
		y.runLocked()
		y.mu.Unlock()
		return r.err
	}
	y.mu.Unlock()
	<-r.done
	return r.err
}

// runLocked runs the next round; if meanwhile others came, a goroutine goes on with theirs.
func (y *syncer) runLocked() {
	// Those who were woken by the last round and are about to publish again get into this one.
	y.mu.Unlock()
	runtime.Gosched()
	y.mu.Lock()
	r := y.next
	y.next = &round{done: make(chan struct{})}
	err := y.failed
	y.mu.Unlock()
	if err == nil {
		err = y.target.sync()
	}
	y.mu.Lock()
	if err != nil && y.failed == nil {
		y.failed = err
	}
	r.err = err
	close(r.done)
	if y.next.waiters == 0 {
		y.running = false
		return
	}
	go func() {
		y.mu.Lock()
		y.runLocked()
		y.mu.Unlock()
	}()
}

func (y *syncer) close() {
	y.mu.Lock()
	for y.running {
		r := y.next
		r.waiters++
		y.mu.Unlock()
		<-r.done
		y.mu.Lock()
	}
	if y.failed == nil {
		y.failed = errors.New("natsd: stream is closed")
	}
	y.mu.Unlock()
	y.target.close()
}
