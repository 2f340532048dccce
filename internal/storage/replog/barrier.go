package replog

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// marksInFlight is the number of marks that are published at a time. Callers that come while there are as many share the next one.
const marksInFlight = 4

// barriers are the calls of Barrier that wait.
type barriers struct {
	mu       sync.Mutex // guards the rest
	next     *batch     // calls whose mark has not been published; nil for none
	inFlight int
}

// batch are calls that share a mark. The nil batch is empty.
type batch struct {
	done chan struct{}
	err  error // set before done is closed
}

func (b *batch) finish(err error) {
	if b != nil {
		b.err = err
		close(b.done)
	}
}

// join returns the batch for a new call, and whether the caller must publish its mark.
func (b *barriers) join() (c *batch, lead bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next == nil {
		b.next = &batch{done: make(chan struct{})}
	}
	c = b.next
	if b.inFlight < marksInFlight {
		b.inFlight++
		b.next = nil
		return c, true
	}
	return c, false
}

// take returns the calls whose mark has not been published: what the caller publishes takes its place.
func (b *barriers) take() *batch {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.next
	b.next = nil
	return c
}

// following returns the next batch to publish a mark for, nil if none waits.
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

// Barrier returns nil once this node has applied every record whose Append, on any node, returned before the call.
//
// Errors: ErrUnavailable, ErrClosed, and the errors after which a log no longer follows.
func (l *Log) Barrier() error {
	if err := l.Err(); err != nil {
		return err
	}
	if err := l.checkMajority(); err != nil {
		return err
	}
	c, lead := l.barriers.join()
	if lead {
		go func() {
			for b := c; b != nil; b = l.barriers.following() {
				l.pass(b)
			}
		}()
	}
	<-c.done
	return c.err
}

// mark publishes a mark for calls that an Append could not serve.
func (l *Log) mark(b *batch) {
	if b != nil {
		go l.pass(b)
	}
}

// pass serves the calls of a batch.
func (l *Log) pass(b *batch) {
	err := l.tryPass()
	l.available(err)
	b.finish(err)
}

// tryPass publishes a mark and waits until this node has processed it.
func (l *Log) tryPass() error {
	ctx, cancel := context.WithTimeout(l.life, l.patience())
	defer cancel()
	h := header{kind: kindMark, writer: l.writer, counter: l.counter.Add(1), at: time.Now().UnixNano()}
	data := encode(h, nil)
	m := &passing{done: make(chan struct{})}
	l.mu.Lock()
	l.marks[h.counter] = m
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		delete(l.marks, h.counter)
		l.mu.Unlock()
	}()
	answer := l.publish(ctx, kindMark, data, false)
	var retry <-chan time.Time
	for {
		select {
		case <-m.done:
			return l.Err()
		case r := <-answer:
			answer = nil
			if r.err != nil {
				l.stats.note(r.err)
				retry = time.After(retryPause)
				break
			}
			l.offer(r.seq, data)
			l.checkProcessed(r.seq, func() bool { return m.passed })
			l.wakeUp()
		case <-retry:
			answer, retry = l.publish(ctx, kindMark, data, false), nil
		case <-ctx.Done():
			if l.life.Err() != nil {
				return ErrClosed
			}
			return ErrUnavailable
		}
		if err := l.Err(); err != nil {
			return err
		}
	}
}

// passing is a mark that was not processed.
type passing struct {
	passed bool // guarded by Log.mu
	done   chan struct{}
}

// markLocked notes that a mark was processed.
func (l *Log) markLocked(h header) {
	if m := l.marks[h.counter]; h.writer == l.writer && m != nil && !m.passed {
		m.passed = true
		close(m.done)
	}
}

// checkProcessed stops the log if a message that the stream has just stored has the sequence of another one that this node has processed: then
// the stream has lost messages.
func (l *Log) checkProcessed(seq uint64, processed func() bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed == nil && seq < l.next && seq <= l.pos.Seq && !processed() {
		l.failLocked(fmt.Errorf("%w: the stream has stored a message as %d, and this node has processed another one with that sequence", ErrDiverged, seq))
	}
}
