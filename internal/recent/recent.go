// Package recent keeps the latest calls of a function.
package recent

// Kept is the number of calls that are kept, and of those that failed.
const Kept = 20

// Calls holds the last calls, and besides the last that failed: those that succeed do not push them out. Its zero value
// holds none. It is not safe for concurrent use.
type Calls[T any] struct {
	last, failed [Kept]entry[T]
	n, failures  uint64
}

type entry[T any] struct {
	number uint64 // from 1; 0 is an empty place
	call   T
}

// Add adds a call, and returns its number.
func (c *Calls[T]) Add(call T) (number uint64) {
	c.n++
	c.last[c.n%Kept] = entry[T]{c.n, call}
	return c.n
}

// Fail keeps a call, whose number Add returned, as one that failed.
func (c *Calls[T]) Fail(number uint64, call T) {
	c.failures++
	c.failed[c.failures%Kept] = entry[T]{number, call}
}

// All returns the calls, the newest first, at most twice Kept. Those that Add has not added among the last Kept follow
// in the order in which they failed.
func (c *Calls[T]) All() []T {
	var list []T
	for i := range uint64(Kept) {
		if e := &c.last[(c.n-i)%Kept]; i < c.n {
			list = append(list, e.call)
		}
	}
	for i := range uint64(Kept) {
		if e := &c.failed[(c.failures-i)%Kept]; i < c.failures && e.number+Kept <= c.n {
			list = append(list, e.call)
		}
	}
	return list
}
