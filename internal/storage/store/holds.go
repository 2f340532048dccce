package store

import (
	"maps"
	"sync"
	"time"
)

// A moment of several replicated logs. Each log has an order of its own, so the states that a node has of several logs
// at one time need not fit: it may have the last record of one log and lag behind another one.
//
// A hold is a record without entries: an attachment with holdKey. Each node that applies it appends nothing to that log
// for [HoldLease], or until it is released. A record that was under way is not valid, since it does not name the hold
// as its predecessor: its node runs the closures again, and waits. So after a hold the log has no record of any node,
// whether that one can be reached or not, until the first node goes on.
//
// Who pins several logs appends a hold to each, and pins them when it has applied all of them. If less than the lease
// has passed since it began to append the first, then no node has appended anything after any of the holds: each node
// began to wait later than that, and waits longer. So every pin ends at its hold. If a write was acknowledged before
// another began, and the pins have the second, they have the first: otherwise the first stands after a hold, so it was
// appended after all pins were made, and the second later still.
//
// It needs clocks that run at about the same speed, and none that show the same time: [PinHeld] wants half of the
// lease. A node that loses its memory of a hold waits for a lease when it opens the store.

// HoldLease is the time for which a hold keeps the nodes from appending to a log, unless it is released before.
const HoldLease = time.Second

// holdKey is the key of the attachment that makes a record a hold. Its value is the number of the hold, 8 bytes,
// little-endian. A release that does not know the key refuses a log with it.
const holdKey = "\x00hold"

// holds are those that this node has applied, and that were not released.
type holds struct {
	mu    sync.Mutex
	until map[uint64]time.Time // by number
	// released are those whose release may come before the hold is applied here, with the time.
	released map[uint64]time.Time
	changed  chan struct{} // closed when one is released; nil if nothing waits
}

// keepReleased is the time for which a release waits for its hold. A node that lags by more holds for a lease.
const keepReleased = 10 * HoldLease

func (h *holds) add(number uint64, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, released := h.released[number]; released {
		return
	}
	if h.until == nil {
		h.until = map[uint64]time.Time{}
	}
	h.until[number] = now.Add(HoldLease)
}

func (h *holds) release(number uint64, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.released == nil {
		h.released = map[uint64]time.Time{}
	}
	maps.DeleteFunc(h.released, func(_ uint64, at time.Time) bool { return now.Sub(at) > keepReleased })
	h.released[number] = now
	delete(h.until, number)
	if h.changed != nil {
		close(h.changed)
		h.changed = nil
	}
}

// left returns how long writes have to wait, 0 for not at all, and a channel that is closed when that may have changed.
func (h *holds) left(now time.Time) (left time.Duration, changed <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for number, until := range h.until {
		if d := until.Sub(now); d > 0 {
			left = max(left, d)
		} else {
			delete(h.until, number)
		}
	}
	if left > 0 && h.changed == nil {
		h.changed = make(chan struct{})
	}
	return left, h.changed
}

// held reports whether a hold is in force.
func (h *holds) held() bool {
	left, _ := h.left(time.Now())
	return left > 0
}

// await waits until no hold is in force.
func (h *holds) await() {
	for {
		left, changed := h.left(time.Now())
		if left <= 0 {
			return
		}
		timer := time.NewTimer(left)
		select {
		case <-timer.C:
		case <-changed:
		}
		timer.Stop()
	}
}
