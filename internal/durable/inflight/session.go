package inflight

import (
	"context"
	"sync"
	"time"

	"github.com/lazuli-storage/lazuli/internal/durable/record"
)

// Session is the work of one instance in this process. One goroutine at a time holds it; messages that arrive in the
// meantime wait in it.
type Session struct {
	Instance string
	waiting  []*Received
	active   bool // in the ready list, or held by a goroutine
	woken    bool // it is to be looked at even without messages
}

// Sessions are the instances that have messages here.
type Sessions struct {
	mu       sync.Mutex // guards the rest, and the sessions' fields
	closed   bool       // after the backend's Stop, until it is started again
	all      map[string]*Session
	ready    readyList   // sessions of workflows
	entities readyList   // sessions of entities
	buffered map[int]int // messages by partition
}

// readyList has sessions with messages that no goroutine holds, in the order of their first message.
type readyList struct {
	list     []*Session
	notEmpty chan struct{} // has a token while list may not be empty
}

func (l *readyList) add(w *Session) {
	l.list = append(l.list, w)
	l.signal()
}

func (l *readyList) signal() {
	if len(l.list) > 0 {
		select {
		case l.notEmpty <- struct{}{}:
		default:
		}
	}
}

func (l *readyList) take() *Session {
	if len(l.list) == 0 {
		return nil
	}
	w := l.list[0]
	l.list = l.list[1:]
	l.signal()
	return w
}

// list returns the list that a session belongs to.
func (s *Sessions) list(w *Session) *readyList {
	if record.IsEntity(w.Instance) {
		return &s.entities
	}
	return &s.ready
}

func NewSessions() *Sessions {
	return &Sessions{all: map[string]*Session{}, ready: readyList{notEmpty: make(chan struct{}, 1)},
		entities: readyList{notEmpty: make(chan struct{}, 1)}, buffered: map[int]int{}}
}

// Set opens the sessions for messages, or closes them.
func (s *Sessions) Set(open bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = !open
}

// Add hands messages to their sessions. It takes none and returns false if the sessions are closed.
func (s *Sessions) Add(partition int, list []*Received) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	for _, r := range list {
		w := s.all[r.Instance]
		if w == nil {
			w = &Session{Instance: r.Instance}
			s.all[r.Instance] = w
		}
		r.Partition = partition
		s.buffered[partition]++
		w.waiting = append(w.waiting, r)
		if !w.active {
			w.active = true
			s.list(w).add(w)
		}
	}
	return true
}

// Next returns the next session of a workflow with messages, or nil.
func (s *Sessions) Next() *Session { return s.nextOf(&s.ready) }

func (s *Sessions) nextOf(l *readyList) *Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return l.take()
}

// Wait returns the next session of a workflow, or nil once ctx is done.
func (s *Sessions) Wait(ctx context.Context) *Session { return s.waitOf(ctx, &s.ready) }

// WaitEntity returns the next session of an entity, or nil once ctx is done.
func (s *Sessions) WaitEntity(ctx context.Context) *Session { return s.waitOf(ctx, &s.entities) }

func (s *Sessions) waitOf(ctx context.Context, l *readyList) *Session {
	for {
		if w := s.nextOf(l); w != nil {
			return w
		}
		select {
		case <-l.notEmpty:
		case <-ctx.Done():
			return nil
		}
	}
}

// maxEvents bounds the events of one work item.
const maxEvents = 1000

// wake makes a goroutine look at the session of a workflow, even if it has no messages.
func (s *Sessions) wake(instance string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.all[instance]
	if w == nil {
		w = &Session{Instance: instance}
		s.all[instance] = w
	}
	w.woken = true
	if !w.active {
		w.active = true
		s.list(w).add(w)
	}
}

// Take removes the waiting messages of a session that the caller holds.
func (s *Sessions) Take(w *Session) []*Received {
	s.mu.Lock()
	defer s.mu.Unlock()
	// A turn without messages is what the waking was for. After one with messages there is another.
	w.woken = w.woken && len(w.waiting) > 0
	n := min(len(w.waiting), maxEvents)
	list := w.waiting[:n:n]
	w.waiting = w.waiting[n:]
	return list
}

// Done gives a session back, and the messages that have been handled.
func (s *Sessions) Done(w *Session, handled []*Received) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range handled {
		s.buffered[r.Partition]--
	}
	if len(w.waiting) > 0 || w.woken {
		s.list(w).add(w)
		return
	}
	w.active = false
	delete(s.all, w.Instance)
}

// Count returns the messages of a partition that are here.
func (s *Sessions) Count(partition int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buffered[partition]
}

// Total returns the messages that are here.
func (s *Sessions) Total() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, of := range s.buffered {
		n += of
	}
	return n
}

// Len returns the number of instances with work here.
func (s *Sessions) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.all)
}

// Forget removes and returns the messages of a partition that no goroutine holds.
func (s *Sessions) Forget(partition int) []*Received {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []*Received
	for _, w := range s.all {
		if len(w.waiting) == 0 || w.waiting[0].Partition != partition {
			continue
		}
		list = append(list, w.waiting...)
		w.waiting = nil // A ready session without messages has no effect.
	}
	s.buffered[partition] -= len(list)
	return list
}

// Holder renews the messages that this process holds, so that no other process receives them.
type Holder struct {
	visibility time.Duration

	mu   sync.Mutex // guards list
	list map[*Received]struct{}
}

// NewHolder returns a holder of messages that are hidden for visibility each time.
func NewHolder(visibility time.Duration) *Holder {
	return &Holder{visibility: visibility, list: map[*Received]struct{}{}}
}

func (h *Holder) Add(list ...*Received) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range list {
		h.list[r] = struct{}{}
	}
}

// Due returns the messages that must be renewed, and forgets those that are no longer held.
func (h *Holder) Due(now time.Time) []*Received {
	h.mu.Lock()
	defer h.mu.Unlock()
	var list []*Received
	for r := range h.list {
		until, ok := r.Held()
		if !ok {
			delete(h.list, r)
		} else if until.Sub(now) < h.visibility/2 {
			list = append(list, r)
		}
	}
	return list
}
