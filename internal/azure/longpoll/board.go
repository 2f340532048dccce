package longpoll

import (
	"context"
	"sync"
	"time"
)

// Board wakes who waits for a key. The nil Board is one on which nobody can wait. It is safe for concurrent use.
type Board struct {
	mu      sync.Mutex
	waiting map[string]*watch
	closed  chan struct{}
	once    sync.Once
	// released is closed, and replaced, by Release.
	released chan struct{}
}

// watch is a key that somebody waits for.
type watch struct {
	changed chan struct{} // closed at the next change
	holders int           // who is between Watch and stop
}

// NewBoard makes a board.
func NewBoard() *Board {
	return &Board{waiting: make(map[string]*watch), closed: make(chan struct{}), released: make(chan struct{})}
}

// Key joins the names that make up a key.
func Key(account, name string) string { return account + "\x00" + name }

// Touch wakes everybody who waits for the key. It never blocks.
func (b *Board) Touch(key string) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if w := b.waiting[key]; w != nil {
		close(w.changed)
		w.changed = make(chan struct{})
	}
}

// TouchAll wakes everybody, after something that concerns all: the clock was set.
func (b *Board) TouchAll() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, w := range b.waiting {
		close(w.changed)
		w.changed = make(chan struct{})
	}
}

// Release ends the waits of those who wait now, as if their time were over.
func (b *Board) Release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.released)
	b.released = make(chan struct{})
}

// Close wakes everybody for good: nobody waits any more. Calling it twice is fine.
func (b *Board) Close() {
	if b != nil {
		b.once.Do(func() { close(b.closed) })
	}
}

// Wait calls look until it returns true or an error, at first and after each Touch of the key; it ends with false when the time
// is over, ctx is done, or the board is closed or lets go of those who wait. No change between a look and the wait that follows it is missed. next, if not nil,
// returns how long after a look to look again without a Touch.
func (b *Board) Wait(ctx context.Context, key string, most time.Duration, next func() time.Duration, look func() (bool, error)) (bool, error) {
	limit := time.NewTimer(most)
	pause := time.NewTimer(most)
	defer func() { limit.Stop(); pause.Stop() }()
	w, released := b.enter(key)
	defer b.leave(key, w)
	for {
		changed := b.channel(w)
		if done, err := look(); done || err != nil {
			return done, err
		}
		var again <-chan time.Time
		if next != nil {
			pause.Reset(max(next(), time.Millisecond))
			again = pause.C
		}
		select {
		case <-changed:
		case <-again:
		case <-limit.C:
			return false, nil
		case <-ctx.Done():
			return false, nil
		case <-b.closed:
			return false, nil
		case <-released:
			return false, nil
		}
	}
}

// Waiting returns how many Waits are under way.
func (b *Board) Waiting() (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, w := range b.waiting {
		n += w.holders
	}
	return n
}

func (b *Board) enter(key string) (w *watch, released <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	w = b.waiting[key]
	if w == nil {
		w = &watch{changed: make(chan struct{})}
		b.waiting[key] = w
	}
	w.holders++
	return w, b.released
}

func (b *Board) leave(key string, w *watch) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if w.holders--; w.holders == 0 {
		delete(b.waiting, key)
	}
}

func (b *Board) channel(w *watch) <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return w.changed
}
