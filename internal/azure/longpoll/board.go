package longpoll

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Board notifies goroutines that wait on a key. A nil *Board has no waiters. It is safe for concurrent use.
type Board struct {
	waiters atomic.Int64 // number of waits under way

	mu      sync.Mutex // guards the rest
	waiting map[string]*watch
	closed  chan struct{}
	once    sync.Once
	// released is closed, and replaced, by Release.
	released chan struct{}
	named    map[string]func() // ends the wait with a name
}

// watch is a key with waiters.
type watch struct {
	changed chan struct{} // closed at the next change
	holders int           // number of waits under way
}

// NewBoard returns a board without waiters.
func NewBoard() *Board {
	return &Board{waiting: make(map[string]*watch), closed: make(chan struct{}), released: make(chan struct{}),
		named: make(map[string]func())}
}

// Key returns the key of a resource of an account.
func Key(account, name string) string { return account + "\x00" + name }

// Watched reports whether anything is waited for. A caller that has made a change and finds false need not touch.
func (b *Board) Watched() bool { return b != nil && b.waiters.Load() > 0 }

// Touch wakes all waiters of the key. It never blocks.
func (b *Board) Touch(key string) {
	if !b.Watched() {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if w := b.waiting[key]; w != nil {
		close(w.changed)
		w.changed = make(chan struct{})
	}
}

// TouchAll wakes all waiters, after a change that concerns every key, such as of the clock.
func (b *Board) TouchAll() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, w := range b.waiting {
		close(w.changed)
		w.changed = make(chan struct{})
	}
}

// Release ends all current waits as if their time were over.
func (b *Board) Release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.released)
	b.released = make(chan struct{})
}

// MaxName is the maximum length of the name of a wait in bytes.
const MaxName = 64

// Name gives a wait a name, until forget is called; end is called by ReleaseName. A later wait takes the name over.
func (b *Board) Name(name string, end func()) (forget func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.named[name] = end
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.named, name)
	}
}

// ReleaseName ends the wait with a name, and reports whether there is one.
func (b *Board) ReleaseName(name string) bool {
	if b == nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	end := b.named[name]
	if end != nil {
		end()
	}
	return end != nil
}

// Close ends all waits; later ones end at once. It may be called twice.
func (b *Board) Close() {
	if b != nil {
		b.once.Do(func() {
			close(b.closed)
			b.Release() // after it, so that Ended never returns a channel that stays open
		})
	}
}

// Ended returns a channel that is closed when the waits under way end by Release or Close.
func (b *Board) Ended() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-b.closed:
		return b.closed
	default:
		return b.released
	}
}

// Wait calls poll at once and after each Touch of the key, until it returns true or an error. It returns false when the
// time is over, ctx is done, or the board is closed or released. It misses no Touch that comes after a call of poll has
// begun. pause, if not nil, returns after which time to call poll again without a Touch.
func (b *Board) Wait(ctx context.Context, key string, most time.Duration, pause func() time.Duration,
	poll func() (bool, error)) (bool, error) {
	limit := time.NewTimer(most)
	retry := time.NewTimer(most)
	defer func() { limit.Stop(); retry.Stop() }()
	w, released := b.enter(key)
	defer b.leave(key, w)
	for {
		changed := b.channel(w)
		if done, err := poll(); done || err != nil {
			return done, err
		}
		var again <-chan time.Time
		if pause != nil {
			retry.Reset(max(pause(), time.Millisecond))
			again = retry.C
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

// Waiting returns the number of Waits under way.
func (b *Board) Waiting() int { return int(b.waiters.Load()) }

func (b *Board) enter(key string) (w *watch, released <-chan struct{}) {
	b.waiters.Add(1) // before the first poll: a change after it is not missed
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
	b.waiters.Add(-1)
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
