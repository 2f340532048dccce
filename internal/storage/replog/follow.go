package replog

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lazuli-storage/lazuli/internal/schedule"
)

const (
	// gapPatience is the time that the follower waits for a missing message to arrive before it reads it from the stream.
	gapPatience = 2 * time.Millisecond
	// pollInterval is the interval of looking for messages while nothing arrives.
	pollInterval = 500 * time.Millisecond
	// fullPoll is the number of intervals after which the stream is read although the copy of this node has nothing new:
	// another copy may have more, if this server has lost its place in the group and does not know yet.
	fullPoll = 60
)

// Follow starts to process the stream after p, which is the zero Position for a node without state. It calls apply with
// each valid record, and with the position after it, in order and one at a time. apply may keep the payload and must
// not modify it. It must not call methods of the log. If it returns an error, the log stops with ErrApply; after an
// ErrLater, it offers the record again, and calls that wait fail with ErrUnavailable meanwhile.
//
// Follow returns at once; Barrier waits until the node has caught up. It must be called once.
func (l *Log) Follow(p Position, apply func(payload []byte, p Position) error) error {
	l.mu.Lock()
	if l.next != 0 || l.closed {
		l.mu.Unlock()
		return errors.New("replog: Follow was called before")
	}
	// What came after the last valid record had no effect. It is processed again, since it may not be in the stream any
	// more: the position does not say which messages it was.
	p.Seq, p.Log, p.Resume = p.Last, p.Last, min(p.Resume, p.Last)
	l.apply, l.pos, l.next = apply, p, p.Resume+1
	l.verified.open(p)
	l.stats.position(p)
	l.mu.Unlock()
	// First the subscription, then the first read of the stream: what is stored between them arrives in one way or both.
	if err := l.subscribe(); err != nil {
		return fmt.Errorf("replog: %w", err)
	}
	l.running.Add(1)
	l.spawn(l.run)
	l.look()
	return nil
}

// subscribe begins to receive acknowledgements, and what other nodes do.
func (l *Log) subscribe() error {
	if l.config.Store != nil {
		return nil
	}
	inbox := l.inbox()
	l.replies, l.acks = inbox+".", make(chan *nats.Msg, 64)
	err := l.servers.receive(inbox+".*", l.acks)
	if err == nil {
		err = l.servers.subscribe(l.followSubject()+".>", l.republished)
	}
	if err == nil {
		err = l.servers.subscribe(l.turnSubject(), l.turnRequested)
	}
	if err != nil {
		return errors.Join(err, l.servers.unsubscribe())
	}
	return nil
}

// republished receives a message from the stream's leader.
func (l *Log) republished(m *nats.Msg) {
	seq, err := strconv.ParseUint(m.Header.Get(headerSequence), 10, 64)
	if err == nil && seq > 0 {
		l.offer(seq, m.Data)
	}
}

// run fills gaps until Close.
func (l *Log) run() {
	defer l.running.Done()
	poll := schedule.NextBeat(l.config.schedule, l.now(), pollInterval)
	for polls := 1; ; {
		_, why := waitFor(l, poll.Sub(l.now()), l.wake, nil)
		switch why {
		case byClose:
			return
		case byTime:
			poll = schedule.NextBeat(l.config.schedule, l.now(), pollInterval)
			l.probe()
			l.recheck()
			// A read costs two nodes some messages, and a node has hundreds of logs in which nothing happens.
			if polls++; polls%fullPoll != 0 && l.hasAllOfCopy() {
				continue
			}
		case byMessage:
			l.pause(gapPatience)
			if !l.mustLook.Swap(false) && !l.behind() {
				continue // it has arrived
			}
		}
		l.fill()
	}
}

// hasAllOfCopy reports whether this node has processed all that its own copy of the stream has, and all that it has
// heard of.
func (l *Log) hasAllOfCopy() bool {
	if l.config.Copied == nil || l.mustLook.Load() || l.behind() || l.verified.doubts() {
		return false
	}
	copied, known := l.config.Copied(l.stream)
	next, ok := l.state()
	return known && ok && copied.Last < next
}

// fill reads the stream from the next message on until it has everything that it has heard of.
func (l *Log) fill() {
	backoff := gapPatience
	for attempt := 0; ; attempt++ {
		next, ok := l.state()
		if !ok {
			return
		}
		l.takeUnsettled()
		if l.verified.doubts() && l.verify() != nil { // until then the record would be refused again
			if !l.pause(backoff) {
				return
			}
			backoff = min(2*backoff, 200*time.Millisecond)
			continue
		}
		n, err := l.fetch(next)
		// A replica may lag, so its silence proves nothing; the leader decides whether the message is lost. Not for a
		// message that was just read and waits for Settle or for room: it is there. One that was there before may have been
		// cut off since.
		if n == 0 && err == nil && attempt >= 3 && !l.takeUnsettled() {
			n, err = l.fetchFromLeader(next)
		}
		after, ok := l.state()
		switch {
		case !ok:
			return
		case after > next:
			backoff, attempt = gapPatience, 0
			if n > 0 {
				continue // there may be more
			}
		}
		if after > l.stats.heard.Load() {
			return
		}
		if err != nil {
			l.stats.note(err)
		}
		if !l.pause(backoff) {
			return
		}
		backoff = min(2*backoff, 200*time.Millisecond)
	}
}
