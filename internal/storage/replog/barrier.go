package replog

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"
)

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
		l.spawn(func() {
			runtime.Gosched() // lets callers that woke at the same time join
			for b := l.barriers.following(); b != nil; b = l.barriers.following() {
				l.pass(b)
			}
		})
	}
	if s := l.config.schedule; s != nil {
		s.Park(forever, func() bool { return closed(c.done) })
	}
	<-c.done // a round ends by itself, also after Close
	return c.err
}

// mark publishes a mark for calls that an Append could not serve.
func (l *Log) mark(b *batch) {
	if b != nil {
		l.spawn(func() { l.pass(b) })
	}
}

// pass serves the calls of a batch.
func (l *Log) pass(b *batch) {
	if l.tryEnd() {
		l.available(nil)
		b.finish(nil)
		return
	}
	deadline := l.now().Add(l.patience())
	err := l.tryPass()
	if err == nil {
		if err = l.assure(deadline); errors.Is(err, errUnverified) {
			err = fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
	}
	l.available(err)
	b.finish(err)
}

const (
	// endTimeout is the time that a batch waits for the end of the stream before it publishes a mark.
	endTimeout = 250 * time.Millisecond
	// endPause is the time without another attempt after one that failed.
	endPause = time.Second
)

// tryEnd asks for the end of the stream, and waits until this node has processed everything up to it. It reports
// whether it has.
func (l *Log) tryEnd() bool {
	if l.config.End == nil || l.now().UnixNano() < l.endAfter.Load() {
		return false
	}
	// Before the question, so that an end that has been overtaken meanwhile does not look like a loss.
	from := l.stats.processed.Load()
	limit := l.now().Add(endTimeout)
	ctx, cancel := l.within(l.life, endTimeout)
	defer cancel()
	seq, term, err := l.config.End(ctx, l.stream)
	if err == nil && seq >= from && l.awaitProcessed(limit, seq) && (l.certain(term) || l.verify() == nil) {
		return true
	}
	// An end before what this node has processed before the call means that the stream has lost messages, which the mark
	// finds.
	l.endAfter.Store(l.now().Add(endPause).UnixNano())
	return false
}

// awaitProcessed returns true once this node has processed all messages up to one, and false if that does not happen
// before the limit or the log has failed.
func (l *Log) awaitProcessed(limit time.Time, seq uint64) bool {
	m := &passing{done: make(chan struct{})}
	l.mu.Lock()
	// Checked and registered under one lock: otherwise the message could be processed in between, and m would not wake.
	current := l.next > seq
	if !current {
		l.reads[m] = seq
	}
	l.mu.Unlock()
	if !current {
		defer func() {
			l.mu.Lock()
			delete(l.reads, m)
			l.mu.Unlock()
		}()
		l.stats.hear(seq)
		l.wakeUp()
		if _, why := waitFor[struct{}](l, limit.Sub(l.now()), nil, m.done); why != byDone {
			return false
		}
	}
	return l.Err() == nil
}

// tryPass publishes a mark and waits until this node has processed it.
func (l *Log) tryPass() error {
	now, patience := l.now(), l.patience()
	ctx, cancel := l.within(l.life, patience)
	defer cancel()
	h := header{kind: kindMark, writer: l.writer, counter: l.counter.Add(1), at: now.UnixNano()}
	data := encode(h, nil)
	m := &passing{done: make(chan struct{})}
	l.mu.Lock()
	// Registered before the publish, since the mark may arrive before its acknowledgement.
	l.marks[h.counter] = m
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		delete(l.marks, h.counter)
		l.mu.Unlock()
	}()
	// Without an expected sequence: a mark counts wherever it stands, as long as it comes after the call.
	answer := l.publish(ctx, kindMark, data)
	end := now.Add(patience)
	poll, retry := now.Add(majorityPoll), end
	for {
		r, why := waitFor(l, earliest(end, poll, retry).Sub(l.now()), answer, m.done)
		switch why {
		case byDone:
			return l.Err()
		case byClose:
			return ErrClosed
		case byMessage:
			if r.err != nil {
				l.stats.note(r.err)
				retry = l.now().Add(retryPause)
				break
			}
			l.offer(r.seq, data)
			l.checkProcessed(r.seq, func() bool { return m.passed })
			l.wakeUp()
		case byTime:
			now = l.now()
			if !now.Before(end) {
				return ErrUnavailable
			}
			if !now.Before(poll) {
				if err := l.checkMajority(); err != nil {
					return err
				}
				poll = now.Add(majorityPoll)
				if l.newTerm() {
					retry = now
				}
			}
			if !now.Before(retry) {
				// The same mark again. If the first copy was stored after all, either of them ends the wait.
				answer, retry = l.publish(ctx, kindMark, data), end
			}
		}
		if err := l.Err(); err != nil {
			return err
		}
	}
}

// earliest returns the first of some times.
func earliest(times ...time.Time) time.Time {
	return slices.MinFunc(times, time.Time.Compare)
}

// checkProcessed stops the log if a message that the stream has just stored has the sequence of another one that this
// node has processed: then the stream has lost messages.
func (l *Log) checkProcessed(seq uint64, processed func() bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed == nil && seq < l.next && seq <= l.pos.Seq && !processed() {
		l.failLocked(fmt.Errorf("%w: the stream has stored a message as %d, and this node has processed another one with "+
			"that sequence", ErrDiverged, seq))
	}
}

// probe tries a mark if the log is unavailable.
func (l *Log) probe() {
	if l.stats.down.Load() && l.probing.TryLock() {
		l.running.Add(1)
		l.spawn(func() {
			defer l.running.Done()
			defer l.probing.Unlock()
			_ = l.Barrier()
		})
	}
}
