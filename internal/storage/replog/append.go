package replog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
)

// Append appends a record that is valid only if prev, a Position.Last, is the last valid record before it. It returns
// nil once the record is valid and apply has returned for it. notes, which may be nil, become headers of its message,
// for people who look at the stream. Concurrent calls run one after another. The log does not keep payload, which the
// caller may use again.
//
// Errors: ErrConflict, ErrUnavailable, ErrUnknown, ErrClosed, and the errors after which a log no longer follows. Only
// after ErrUnknown, ErrClosed and the last ones the record may be or become valid.
func (l *Log) Append(prev uint64, payload []byte, notes map[string][]string) error {
	// Before the lock, so that calls fail at once also while one before them waits.
	if err := l.checkMajority(); err != nil {
		return err
	}
	l.appends.Lock()
	defer l.appends.Unlock()
	a, err := l.Begin(nil, prev, payload, notes)
	if err != nil {
		return err
	}
	return a.Wait()
}

// finish publishes a record until its outcome is known or the time is over.
func (a *Pending) finish() error {
	l := a.log
	if closed(a.done) {
		return a.err
	}
	if a.data == nil {
		ctx, cancel := l.within(l.life, a.deadline.Sub(l.now()))
		defer cancel()
		rest, err := l.publishParts(ctx, &a.header, a.payload)
		if err != nil {
			return a.give(err)
		}
		a.data, a.payload = encode(a.header, rest), nil
	}
	// All attempts publish the same bytes. Of several copies at most the first is valid, since the others name a record
	// that is no longer the last one.
	for {
		seq, err := l.publishRecord(a)
		pause := retryPause
		switch {
		case errors.Is(err, errResolved):
		case err == nil:
			a.sent, pause = true, tryTimeout // it is processed now, unless earlier messages are missing
			l.offer(seq, a.data)
			l.checkProcessed(seq, func() bool { return a.resolved || a.seen })
			l.wakeUp()
		case errors.Is(err, nats.ErrNoResponders) || errors.Is(err, errRefused):
			// The server that refuses a copy may have stored another one, so this is no proof.
			a.sent = a.sent || errors.Is(err, errRefused)
			l.look() // it is not in the stream, or an earlier copy of it is
		default:
			a.sent = true
			l.stats.note(err)
			if l.config.Suspect != nil {
				if err := l.config.Suspect(l.stream); err != nil {
					return a.give(fmt.Errorf("%w: %w", ErrUnknown, err))
				}
			}
			l.look()
		}
		if closed(a.done) { // the usual outcome
			return a.err
		}
		if err != nil {
			if lost := l.checkMajority(); lost != nil {
				return a.undecided(lost)
			}
		}
		left := a.deadline.Sub(l.now())
		if left <= 0 || l.life.Err() != nil {
			return a.undecided(nil)
		}
		if _, why := waitFor[struct{}](l, min(pause, left), nil, a.done); why == byDone {
			return a.err
		}
	}
}

// partsInFlight is the number of parts that are published at a time.
const partsInFlight = 8

// publishParts publishes what does not fit into one message, and returns the rest.
func (l *Log) publishParts(ctx context.Context, h *header, payload []byte) (rest []byte, err error) {
	n := (len(payload) - 1) / l.chunk
	p := header{kind: kindPart, writer: h.writer, counter: h.counter, at: h.at}
	// Parts have no effect until the record follows that counts them, so they may arrive in any order and need no
	// rollback.
	err = l.together(ctx, n, partsInFlight, func(ctx context.Context, i int) error {
		p := p
		p.parts = uint32(i)
		return l.publishPart(ctx, encode(p, payload[i*l.chunk:(i+1)*l.chunk]))
	})
	if err != nil {
		if l.life.Err() != nil {
			return nil, ErrClosed
		}
		return nil, ErrUnavailable
	}
	h.parts = uint32(n)
	return payload[n*l.chunk:], nil
}

// publishPart publishes a part until the stream has it. A second copy does no harm.
func (l *Log) publishPart(ctx context.Context, data []byte) error {
	for limit := majorityPoll; ; {
		r := l.tryPart(ctx, data, limit)
		if r.err == nil {
			l.offer(r.seq, data)
			return nil
		}
		if err := l.checkMajority(); err != nil {
			return err
		}
		if errors.Is(r.err, errNewTerm) {
			// Parts are long: a leader that is slow to begin must not get twenty copies of each, as it does of a record.
			limit *= 2
		} else if !l.sleep(ctx, retryPause) {
			return ctx.Err()
		}
	}
}

// errNewTerm means that a message may have gone to the leader of an earlier term.
var errNewTerm = errors.New("the stream has another term")

// tryPart publishes a part and waits for the answer; if the stream has another term, only until limit, see newTerm.
func (l *Log) tryPart(ctx context.Context, data []byte, limit time.Duration) published {
	sent := l.now()
	answer := l.publish(ctx, kindPart, data)
	for {
		switch r, why := waitFor(l, majorityPoll, answer, ctx.Done()); why {
		case byMessage:
			return r
		case byDone:
			return published{err: ctx.Err()}
		case byClose:
			return published{err: ErrClosed}
		case byTime:
			if err := l.checkMajority(); err != nil {
				return published{err: err}
			}
			if l.newTerm() && l.now().Sub(sent) >= limit {
				return published{err: errNewTerm}
			}
		}
	}
}
