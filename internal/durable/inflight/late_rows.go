package inflight

import (
	"sync"
	"time"

	"github.com/lazuli-storage/lazuli/internal/durable/record"
)

// rowLinger is the time for which the row of a workflow that goes on may be behind its history. The row of one that
// ends is written in its last checkpoint.
const rowLinger = 250 * time.Millisecond

// LateRows are the rows in Instances that a checkpoint has left for later, because they say nothing new to clients. The
// next checkpoint of an instance that comes soon enough writes one row for both. Until then the messages that caused
// the checkpoints are kept: if the process dies before, they come again, and the next owner sends what the last
// checkpoint had to send once more, which receivers drop, and writes the row.
type LateRows struct {
	sessions *Sessions

	mu   sync.Mutex // guards the rest
	open bool       // between the backend's Start and Stop
	list map[string]*lateRow
}

// lateRow is the history that a row is behind. It belongs to the instance's session.
type lateRow struct {
	h     *record.History
	timer *time.Timer
	due   bool      // the next checkpoint writes the row
	kept  []Handled // messages that are deleted when the row is written
}

// Handled is a message that has no effect any more, and what is to be called when it is deleted.
type Handled struct {
	*Received
	Deleted func()
}

// NewLateRows returns a place for the rows of instances that have these sessions.
func NewLateRows(sessions *Sessions) *LateRows {
	return &LateRows{sessions: sessions, list: map[string]*lateRow{}}
}

func (l *LateRows) Set(open bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open = open
}

// Put leaves a row for later, and reports false if it is to be written now.
func (l *LateRows) Put(instance string, h *record.History) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.open {
		return false
	}
	w := l.list[instance]
	switch {
	case w == nil:
		w = &lateRow{}
		w.timer = time.AfterFunc(rowLinger, func() { l.expired(instance, w) })
		l.list[instance] = w
	case w.due:
		// The session was woken to write this row. Left once more, the row of a busy workflow would stay behind without a
		// limit.
		return false
	}
	// The timer runs from the first checkpoint that has left the row: a later one replaces the history, not the time.
	w.h = h
	return true
}

// expired has the row written as soon as the session is free.
func (l *LateRows) expired(instance string, w *lateRow) {
	l.mu.Lock()
	w.due = true
	l.mu.Unlock()
	l.sessions.wake(instance)
}

// Get returns the history that an instance's row is behind, or nil.
func (l *LateRows) Get(instance string) *record.History {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w := l.list[instance]; w != nil {
		return w.h
	}
	return nil
}

// Keep keeps messages until the row of an instance is written. It is false if rows are not left for later any more.
func (l *LateRows) Keep(instance string, list []Handled) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.list[instance]
	// Once the stop has begun, endLate may have collected what was kept already. So the caller has to give the messages
	// back.
	if w == nil || !l.open {
		return false
	}
	w.kept = append(w.kept, list...)
	return true
}

// Written removes an instance whose row is as new as its history, and returns the messages that were kept for it.
func (l *LateRows) Written(instance string) []Handled {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.list[instance]
	if w == nil {
		return nil
	}
	// A timer that has just fired wakes the session once more, which then finds no row to write.
	w.timer.Stop()
	delete(l.list, instance)
	return w.kept
}

// Again makes a row that could not be written be tried again later.
func (l *LateRows) Again(instance string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w := l.list[instance]; w != nil {
		w.timer.Reset(time.Second)
	}
}

// Unkept removes and returns the messages that are kept for rows.
func (l *LateRows) Unkept() (list []*Received) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range l.list {
		for _, m := range w.kept {
			list = append(list, m.Received)
		}
		w.kept = nil
	}
	return list
}

// HurryOne makes the session of an instance write its row now.
func (l *LateRows) HurryOne(instance string) {
	if l.Get(instance) != nil {
		l.sessions.wake(instance)
	}
}

// Hurry makes the sessions write their rows now, and reports whether there are any.
func (l *LateRows) Hurry() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for instance := range l.list {
		l.sessions.wake(instance)
	}
	return len(l.list) > 0
}
