package ticks

import (
	"sync/atomic"
	"time"
)

// Source assigns a unique time to every change of one process, so that entity tags and snapshot ids never repeat. The
// zero value is ready for use; it is safe for concurrent use.
type Source struct{ last atomic.Int64 }

// Observe makes Next return only later ticks than t, which another node has assigned.
func (s *Source) Observe(t Ticks) {
	for {
		last := s.last.Load()
		if last >= int64(t) || s.last.CompareAndSwap(last, int64(t)) {
			return
		}
	}
}

// Next returns now, or the first later tick that was not returned before.
func (s *Source) Next(now time.Time) Ticks {
	t := int64(Of(now))
	for {
		last := s.last.Load()
		next := max(t, last+1)
		if s.last.CompareAndSwap(last, next) {
			return Ticks(next)
		}
	}
}
