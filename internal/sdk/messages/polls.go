package messages

import (
	"sync"
	"time"
)

// Polls lets a check for idleness look at a queue while no poll is under way: a message that was just received is
// neither visible in the queue nor known to its receiver. The zero value is ready to use.
type Polls struct {
	running sync.RWMutex // read-locked by polls

	mu        sync.Mutex // guards the rest
	excluding int
	interrupt chan struct{} // closed by Exclude; nil until a poll waits
}

// Begin begins a poll that may wait for most. It returns how long it may wait now, what ends the wait, and what ends
// the poll: to be called when the messages that it has received are known as work.
func (p *Polls) Begin(most time.Duration) (wait time.Duration, stop <-chan struct{}, end func()) {
	p.running.RLock()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.excluding > 0 {
		most = 0
	}
	if p.interrupt == nil {
		p.interrupt = make(chan struct{})
	}
	return most, p.interrupt, p.running.RUnlock
}

// Exclude returns when no poll is under way; it ends those that wait. None begins until allow is called.
func (p *Polls) Exclude() (allow func()) {
	p.mu.Lock()
	p.excluding++
	if p.interrupt != nil {
		close(p.interrupt)
		p.interrupt = nil
	}
	p.mu.Unlock()
	p.running.Lock()
	return func() {
		p.running.Unlock()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.excluding--
	}
}
