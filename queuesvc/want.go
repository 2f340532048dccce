package queuesvc

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/lazuli-storage/lazuli/queuesvc/internal/state"
)

// wants has the Get Messages that wait for messages, in the order in which they began to wait. A Put Message takes one
// and serves it in its own transaction: a message then reaches its receiver after one commit, not after two.
type wants struct {
	count atomic.Int64 // of those that no Put Message has taken

	mu  sync.Mutex // guards all, and what wants have that were not taken
	all map[string][]*want
}

// want is a Get Messages that waits.
type want struct {
	state.Want
	key   string
	taken bool
	got   []state.Message
	done  chan struct{} // closed after got is set; nil while the want does not wait
}

// add lets w wait.
func (a *wants) add(w *want) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.all == nil {
		a.all = map[string][]*want{}
	}
	w.taken, w.got, w.done = false, nil, make(chan struct{})
	a.all[w.key] = append(a.all[w.key], w)
	a.count.Add(1)
}

// take returns the want that has waited longest for a key, nil if none waits. The caller calls finish.
func (a *wants) take(key string) *want {
	if a.count.Load() == 0 {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.all[key]) == 0 {
		return nil
	}
	w := a.all[key][0]
	a.remove(w)
	w.taken = true
	return w
}

// asked returns what w asks for; nil for no want.
func (w *want) asked() *state.Want {
	if w == nil {
		return nil
	}
	return &w.Want
}

// finish ends what take has begun. w may be nil.
func (w *want) finish(got []state.Message) {
	if w != nil {
		w.got = got
		close(w.done)
	}
}

// withdraw ends the wait of w, if it waits, and returns what a Put Message has got for it.
func (a *wants) withdraw(w *want) []state.Message {
	a.mu.Lock()
	switch {
	case w.done == nil:
		a.mu.Unlock()
		return nil
	case !w.taken:
		a.remove(w)
		w.done = nil
		a.mu.Unlock()
		return nil
	}
	a.mu.Unlock()
	<-w.done
	w.done = nil
	return w.got
}

// remove takes w off its list. The caller holds mu.
func (a *wants) remove(w *want) {
	list := a.all[w.key]
	if i := slices.Index(list, w); len(list) == 1 {
		delete(a.all, w.key)
	} else {
		a.all[w.key] = slices.Delete(list, i, i+1)
	}
	a.count.Add(-1)
}
