package messages

import (
	"context"
	"sync"
)

// sharing has what waits for a request. One request at a time is under way; what comes meanwhile shares the next one.
type sharing[T any] struct {
	// gather, if not nil, is called before a request, to wait for more to share it.
	gather func()
	// next returns how many of those that wait the next request takes: one at least, unless none waits.
	next func(waiting []T) int
	// send sends a request.
	send func(ctx context.Context, list []T)

	mu      sync.Mutex // guards the rest
	leading bool       // a goroutine sends until nothing waits
	waiting []T
}

// add lets something wait for a request, and returns how many wait. The requests may outlive ctx.
func (s *sharing[T]) add(ctx context.Context, list ...T) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = append(s.waiting, list...)
	if !s.leading {
		s.leading = true
		go s.lead(context.WithoutCancel(ctx))
	}
	return len(s.waiting)
}

// lead sends until nothing waits.
func (s *sharing[T]) lead(ctx context.Context) {
	for {
		if s.gather != nil {
			s.gather()
		}
		list := s.take()
		if len(list) == 0 {
			return
		}
		s.send(ctx, list)
	}
}

// take returns what the next request takes; after nothing, the caller leads no longer.
func (s *sharing[T]) take() []T {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.next(s.waiting)
	list := s.waiting[:n:n]
	s.waiting = s.waiting[n:]
	if n == 0 {
		s.leading, s.waiting = false, nil
	}
	return list
}

// count returns how many wait.
func (s *sharing[T]) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waiting)
}
