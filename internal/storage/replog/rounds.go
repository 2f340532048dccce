package replog

import "sync"

// roundsInFlight is the number of batches that are served at a time. Callers that come meanwhile share the next one:
// fewer rounds cost less processor time, and that limits the rate.
const roundsInFlight = 1

// barriers are the calls of Barrier that wait.
type barriers struct {
	mu       sync.Mutex // guards the rest
	next     *batch     // calls whose round has not begun; nil for none
	inFlight int
}

func (b *batch) finish(err error) {
	if b != nil {
		b.err = err
		close(b.done)
	}
}

// join returns the batch for a new call, and whether the caller must serve batches.
func (b *barriers) join() (c *batch, lead bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next == nil {
		b.next = &batch{done: make(chan struct{})}
	}
	if lead = b.inFlight < roundsInFlight; lead {
		b.inFlight++
	}
	return b.next, lead
}

// take returns the calls whose round has not begun: what the caller publishes takes its place.
func (b *barriers) take() *batch {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.next
	b.next = nil
	return c
}

// following returns the next batch to serve, nil if none waits.
func (b *barriers) following() *batch {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.next
	b.next = nil
	if c == nil {
		b.inFlight--
	}
	return c
}

// batch are calls that share a round: the question for the end of the stream, or a mark. The nil batch is empty.
type batch struct {
	done chan struct{}
	err  error // set before done is closed
}
