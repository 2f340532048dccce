package httpserver

import "sync/atomic"

// Limiter limits the number of open connections, or of requests served at once. Several servers may share one. A nil
// *Limiter is no limit. It is safe for concurrent use.
//
// It never makes anything wait: what is beyond the limit is refused, for the client to try again later. Waiting would
// hold a connection and a body while others arrive.
type Limiter struct {
	max int64
	now atomic.Int64
}

// NewLimiter returns a limiter for max at once; nil if max is not positive.
func NewLimiter(max int) *Limiter {
	if max <= 0 {
		return nil
	}
	return &Limiter{max: int64(max)}
}

// Enter reports whether one more is within the limit. Call Leave after each success.
func (l *Limiter) Enter() bool {
	if l == nil {
		return true
	}
	if l.now.Add(1) > l.max {
		l.now.Add(-1)
		return false
	}
	return true
}

// Leave releases the slot that Enter acquired.
func (l *Limiter) Leave() {
	if l != nil {
		l.now.Add(-1)
	}
}

// Outside calls wait and meanwhile does not count the caller, which only holds a connection.
func (l *Limiter) Outside(wait func()) {
	if l == nil {
		wait()
		return
	}
	l.now.Add(-1)
	defer l.now.Add(1)
	wait()
}

// InUse returns how many are counted now.
func (l *Limiter) InUse() int {
	if l == nil {
		return 0
	}
	return int(l.now.Load())
}
