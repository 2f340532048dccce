package inflight

import (
	"slices"
	"sync"
)

// startedMost bounds the instances that this process remembers to have started.
const startedMost = 1000

// Started are instances that this process has started and that exist.
type Started struct {
	mu    sync.Mutex // guards the rest
	list  map[string]bool
	order []string
}

func (s *Started) Add(instance string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.list == nil {
		s.list = map[string]bool{}
	}
	if len(s.order) == startedMost {
		delete(s.list, s.order[0])
		s.order = s.order[1:]
	}
	s.list[instance] = true
	s.order = append(s.order, instance)
}

// Take forgets an instance, and reports whether it was known.
func (s *Started) Take(instance string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.list[instance]
	delete(s.list, instance)
	return found
}

// Watches are the calls of this process that wait for a change of an instance.
type Watches struct {
	mu   sync.Mutex // guards list
	list map[string][]chan struct{}
}

// NewWatches returns a place for calls that wait.
func NewWatches() *Watches { return &Watches{list: map[string][]chan struct{}{}} }

// Watch returns a channel that is closed when this process has next written the instance's row. forget must be called.
func (w *Watches) Watch(instance string) (changed <-chan struct{}, forget func()) {
	c := make(chan struct{})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.list[instance] = append(w.list[instance], c)
	return c, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		rest := slices.DeleteFunc(w.list[instance], func(x chan struct{}) bool { return x == c })
		if len(rest) == 0 {
			delete(w.list, instance)
		} else {
			w.list[instance] = rest
		}
	}
}

// Waiting reports whether a call of this process waits for a change of the instance.
func (w *Watches) Waiting(instance string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.list[instance]) > 0
}

func (w *Watches) Changed(instance string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.list[instance] {
		close(c)
	}
	delete(w.list, instance)
}
