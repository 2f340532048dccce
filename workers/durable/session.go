package durable

import (
	"context"
	"sync"
	"time"
)

// session is the work of one instance in this process. One goroutine at a time holds it; messages that arrive in the
// meantime wait in it.
type session struct {
	instance string
	waiting  []*received
	active   bool // in the ready list, or held by a goroutine
	woken    bool // it is to be looked at even without messages
}

// sessions are the instances that have messages here.
type sessions struct {
	mu       sync.Mutex // guards the rest, and the sessions' fields
	closed   bool       // after the backend's Stop, until it is started again
	all      map[string]*session
	ready    readyList   // sessions of workflows
	entities readyList   // sessions of entities
	buffered map[int]int // messages by partition
}

// readyList has sessions with messages that no goroutine holds, in the order of their first message.
type readyList struct {
	list     []*session
	notEmpty chan struct{} // has a token while list may not be empty
}

func (l *readyList) add(w *session) {
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

func (l *readyList) take() *session {
	if len(l.list) == 0 {
		return nil
	}
	w := l.list[0]
	l.list = l.list[1:]
	l.signal()
	return w
}

// list returns the list that a session belongs to.
func (s *sessions) list(w *session) *readyList {
	if isEntity(w.instance) {
		return &s.entities
	}
	return &s.ready
}

func newSessions() *sessions {
	return &sessions{all: map[string]*session{}, ready: readyList{notEmpty: make(chan struct{}, 1)},
		entities: readyList{notEmpty: make(chan struct{}, 1)}, buffered: map[int]int{}}
}

// set opens the sessions for messages, or closes them.
func (s *sessions) set(open bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = !open
}

// add hands messages to their sessions. It takes none and returns false if the sessions are closed.
func (s *sessions) add(partition int, list []*received) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	for _, r := range list {
		w := s.all[r.Instance]
		if w == nil {
			w = &session{instance: r.Instance}
			s.all[r.Instance] = w
		}
		r.partition = partition
		s.buffered[partition]++
		w.waiting = append(w.waiting, r)
		if !w.active {
			w.active = true
			s.list(w).add(w)
		}
	}
	return true
}

// next returns the next session of a workflow with messages, or nil.
func (s *sessions) next() *session { return s.nextOf(&s.ready) }

func (s *sessions) nextOf(l *readyList) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return l.take()
}

// wait returns the next session of a workflow, or nil once ctx is done.
func (s *sessions) wait(ctx context.Context) *session { return s.waitOf(ctx, &s.ready) }

// waitEntity returns the next session of an entity, or nil once ctx is done.
func (s *sessions) waitEntity(ctx context.Context) *session { return s.waitOf(ctx, &s.entities) }

func (s *sessions) waitOf(ctx context.Context, l *readyList) *session {
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
func (s *sessions) wake(instance string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.all[instance]
	if w == nil {
		w = &session{instance: instance}
		s.all[instance] = w
	}
	w.woken = true
	if !w.active {
		w.active = true
		s.list(w).add(w)
	}
}

// take removes the waiting messages of a session that the caller holds.
func (s *sessions) take(w *session) []*received {
	s.mu.Lock()
	defer s.mu.Unlock()
	// A turn without messages is what the waking was for. After one with messages there is another.
	w.woken = w.woken && len(w.waiting) > 0
	n := min(len(w.waiting), maxEvents)
	list := w.waiting[:n:n]
	w.waiting = w.waiting[n:]
	return list
}

// done gives a session back, and the messages that have been handled.
func (s *sessions) done(w *session, handled []*received) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range handled {
		s.buffered[r.partition]--
	}
	if len(w.waiting) > 0 || w.woken {
		s.list(w).add(w)
		return
	}
	w.active = false
	delete(s.all, w.instance)
}

// count returns the messages of a partition that are here.
func (s *sessions) count(partition int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buffered[partition]
}

// total returns the messages that are here.
func (s *sessions) total() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, of := range s.buffered {
		n += of
	}
	return n
}

// forget removes and returns the messages of a partition that no goroutine holds.
func (s *sessions) forget(partition int) []*received {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []*received
	for _, w := range s.all {
		if len(w.waiting) == 0 || w.waiting[0].partition != partition {
			continue
		}
		list = append(list, w.waiting...)
		w.waiting = nil // A ready session without messages has no effect.
	}
	s.buffered[partition] -= len(list)
	return list
}

// holder renews the messages that this process holds, so that no other process receives them.
type holder struct {
	visibility time.Duration

	mu   sync.Mutex // guards list
	list map[*received]struct{}
}

func (h *holder) add(list ...*received) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range list {
		h.list[r] = struct{}{}
	}
}

// due returns the messages that must be renewed, and forgets those that are no longer held.
func (h *holder) due(now time.Time) []*received {
	h.mu.Lock()
	defer h.mu.Unlock()
	var list []*received
	for r := range h.list {
		until, ok := r.held()
		if !ok {
			delete(h.list, r)
		} else if until.Sub(now) < h.visibility/2 {
			list = append(list, r)
		}
	}
	return list
}
