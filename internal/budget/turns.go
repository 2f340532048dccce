package budget

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"
)

// Turns shares processors among accounts: a request that computes for longer than a few milliseconds takes its turns,
// and accounts take them in rotation, however many requests each has. Short requests do not take part, and a request
// that waits for its client or a disk gives its processor up. The methods are safe for concurrent use.
type Turns struct {
	mu      sync.Mutex // guards the rest
	free    int        // processors that no request has
	waiting map[string][]chan struct{}
	order   []string // accounts with waiting requests; the first is next
}

const (
	// before is the work that a request does before it takes part.
	before = 5 * time.Millisecond
	// turn is the work after which a request lets others go on, if there are any.
	turn = 10 * time.Millisecond
)

// Processors has the turns on the processors of this process.
var Processors = newTurns(runtime.GOMAXPROCS(0))

// newTurns returns the turns on n processors.
func newTurns(n int) *Turns { return &Turns{free: n, waiting: make(map[string][]chan struct{})} }

// take waits for a processor. It returns the cause of the context's end.
func (t *Turns) take(ctx context.Context, account string) error {
	t.mu.Lock()
	if t.free > 0 {
		t.free--
		t.mu.Unlock()
		return nil
	}
	mine := make(chan struct{})
	if len(t.waiting[account]) == 0 {
		t.order = append(t.order, account)
	}
	t.waiting[account] = append(t.waiting[account], mine)
	t.mu.Unlock()
	select {
	case <-mine:
		return nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	list := t.waiting[account]
	if i := slices.Index(list, mine); i >= 0 {
		t.set(account, slices.Delete(list, i, i+1))
	} else {
		t.next() // it was given a processor meanwhile
	}
	return context.Cause(ctx)
}

// give gives a processor to the next account.
func (t *Turns) give() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.next()
}

// next is give; t.mu is held.
func (t *Turns) next() {
	if len(t.order) == 0 {
		t.free++
		return
	}
	account := t.order[0]
	list := t.waiting[account]
	close(list[0])
	t.order = append(t.order[1:], account)
	t.set(account, list[1:])
}

// set replaces the waiting requests of an account, which is in t.order.
func (t *Turns) set(account string, list []chan struct{}) {
	if len(list) > 0 {
		t.waiting[account] = list
		return
	}
	delete(t.waiting, account)
	t.order = slices.DeleteFunc(t.order, func(a string) bool { return a == account })
}

// contended reports whether a request waits.
func (t *Turns) contended() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.order) > 0
}
