package frontend

import "sync/atomic"

// Limiter bounds how many requests are served at once. One limiter may be shared by several services. Nil is no
// limit. A request beyond the limit is answered [wire.ErrServerBusy], for the client to send again later: waiting
// here would hold its connection and its body while others come.
type Limiter struct {
	max int64
	now atomic.Int64
}

// NewLimiter makes a limiter for max requests at once; nil if max is not positive.
func NewLimiter(max int) *Limiter {
	if max <= 0 {
		return nil
	}
	return &Limiter{max: int64(max)}
}

// Enter reports whether one more request may be served. Each success needs a Leave.
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

// Outside calls wait, during which the request does not count: it holds a connection and works on nothing.
func (l *Limiter) Outside(wait func()) {
	if l == nil {
		wait()
		return
	}
	l.now.Add(-1)
	defer l.now.Add(1)
	wait()
}

// Leave ends a request that entered.
func (l *Limiter) Leave() {
	if l != nil {
		l.now.Add(-1)
	}
}
