package jetstreamfiles

import (
	"errors"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/lazuli-storage/lazuli/internal/storage/gather"
)

// Syncer makes a stream's records durable. Callers share syncs: a call waits for the first sync that starts after it. While one sync runs, new
// calls gather for the next one. No call waits for a timer.
type Syncer struct {
	target interface {
		sync() error
		close()
	}

	mu      sync.Mutex // guards the rest
	next    *round     // the round that has not started
	running bool
	failed  error // set once, never reset
	gather  gather.Gatherer
}

// round is one sync and the calls that wait for it.
type round struct {
	done    chan struct{} // closed when err is set
	err     error
	waiters int
}

func newSyncer(target interface {
	sync() error
	close()
}) *Syncer {
	return &Syncer{target: target, next: &round{done: make(chan struct{})}}
}

// NewSyncer returns the syncer of the stream with a folder. known is what is known about its last block, or the zero value.
func NewSyncer(streamDir string, known LastBlock) *Syncer {
	return newSyncer(&blocks{dir: filepath.Join(streamDir, messagesFolder), known: known})
}

// Sync returns when all records that JetStream had acknowledged for the stream before the call are on disk. After an error every later call
// fails as well, because the content of the disk is unknown.
func (y *Syncer) Sync() error { return y.wait() }

// CloseIdle closes the file descriptor of a stream that was not synced since a time, and reports whether it is closed. The next Sync opens the
// file again. A Syncer that failed or is in use stays as it is.
func (y *Syncer) CloseIdle(since time.Time) bool {
	y.mu.Lock()
	defer y.mu.Unlock()
	b, ok := y.target.(*blocks)
	return ok && y.failed == nil && !y.running && b.closeIdle(since)
}

// Lost returns a block that was synced and no longer exists or became shorter, if there is one. The files do not show that: a stream can end before
// it.
func (y *Syncer) Lost() (block int, lost bool) {
	b, ok := y.target.(*blocks)
	if !ok {
		return 0, false
	}
	return b.lost()
}

// Last returns the last block and its size at the last sync.
func (y *Syncer) Last() LastBlock {
	b, ok := y.target.(*blocks)
	if !ok {
		return LastBlock{}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.known
}

// Close ends the syncer once the running sync has ended. Later calls of Sync fail.
func (y *Syncer) Close() { y.close() }

func (y *Syncer) wait() error {
	y.mu.Lock()
	r := y.next
	r.waiters++
	y.gather.Arrived(r.waiters)
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

// runLocked runs the next round. If more calls came meanwhile, a goroutine continues with their round.
func (y *Syncer) runLocked() {
	// Publishers that the last round woke and that are about to publish again can join this round.
	y.mu.Unlock()
	runtime.Gosched()
	y.mu.Lock()
	if limit, full := y.gather.Begin(y.next.waiters, time.Now()); limit > 0 {
		y.mu.Unlock()
		gather.Wait(limit, full)
		y.mu.Lock()
		y.gather.End(y.next.waiters)
	}
	r := y.next
	y.next = &round{done: make(chan struct{})}
	err := y.failed
	y.mu.Unlock()
	began := time.Now()
	if err == nil {
		err = y.target.sync()
	}
	y.mu.Lock()
	y.gather.Committed(r.waiters, y.next.waiters, began, time.Now())
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

func (y *Syncer) close() {
	y.mu.Lock()
	for y.running {
		r := y.next
		r.waiters++
		y.mu.Unlock()
		<-r.done
		y.mu.Lock()
	}
	if y.failed == nil {
		y.failed = errors.New("jetstreamfiles: stream is closed")
	}
	y.mu.Unlock()
	y.target.close()
}
