package replog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"
)

// MaxRecord is the size of the largest payload, in bytes.
const MaxRecord = 256 << 20

const (
	// tryTimeout is the time to wait for an acknowledgement before a message is published again.
	tryTimeout = 2 * time.Second
	// retryPause is the pause before a message is published again after an answer that did not accept it.
	retryPause = 20 * time.Millisecond
	// downTimeout replaces Config.Timeout while the log is known to be unavailable.
	downTimeout = time.Second
	// partsInFlight is the number of parts that are published at a time.
	partsInFlight = 8
)

// appending is an Append whose outcome is not known.
type appending struct {
	counter  uint64
	resolved bool // guarded by Log.mu
	done     chan error
}

// resolve sets the outcome. Log.mu is held.
func (a *appending) resolve(err error) {
	if !a.resolved {
		a.resolved = true
		a.done <- err
	}
}

// Append appends a record that is valid only if prev, a Position.Last, is the last valid record before it. It returns
// nil once the record is valid and apply has returned for it. notes, which may be nil, become headers of its message,
// for people who look at the stream. Concurrent calls run one after another.
//
// Errors: ErrConflict, ErrUnavailable, ErrUnknown, ErrClosed, and the errors after which a log no longer follows. Only
// after ErrUnknown, ErrClosed and the last ones the record may be or become valid.
func (l *Log) Append(prev uint64, payload []byte, notes map[string][]string) error {
	if len(payload) > MaxRecord {
		return fmt.Errorf("replog: a record of %d bytes is too long: the limit is %d", len(payload), MaxRecord)
	}
	if err := l.checkMajority(); err != nil {
		return err
	}
	l.appends.Lock()
	defer l.appends.Unlock()
	began := time.Now()
	ctx, cancel := context.WithTimeout(l.life, l.patience())
	defer cancel()
	a := &appending{counter: l.counter.Add(1), done: make(chan error, 1)}
	h := header{kind: kindRecord, writer: l.writer, counter: a.counter, prev: prev, at: began.UnixNano()}
	l.mu.Lock()
	switch {
	case l.failed != nil:
		defer l.mu.Unlock()
		return l.failed
	case l.pos.Last != prev:
		l.mu.Unlock()
		l.overtaken()
		return ErrConflict
	}
	h.chain = l.pos.Chain
	l.current = a
	l.mu.Unlock()
	served := l.barriers.take()
	err := l.finish(ctx, a, h, payload, notes)
	l.mu.Lock()
	l.current = nil
	l.mu.Unlock()
	switch {
	case err == nil:
		served.finish(nil) // nothing was appended between prev and the record
		l.stats.append(time.Since(began))
		l.available(nil)
	case errors.Is(err, ErrConflict):
		l.overtaken()
		l.mark(served)
	default:
		l.available(err)
		l.mark(served)
	}
	return err
}

// finish publishes a record until its outcome is known or ctx ends.
func (l *Log) finish(ctx context.Context, a *appending, h header, payload []byte, notes map[string][]string) error {
	payload, err := l.publishParts(ctx, &h, payload)
	if err != nil {
		return err
	}
	data := encode(h, payload)
	sent := false // a publish may have reached the stream
	for {
		answer := l.publish(ctx, kindRecord, data, notes, true)
		pause := retryPause
		select {
		case err := <-a.done:
			return err
		case r := <-answer: // also when ctx ends
			switch {
			case r.err == nil:
				sent, pause = true, tryTimeout // it is processed now, unless earlier messages are missing
				l.offer(r.seq, data)
				l.checkProcessed(r.seq, func() bool { return a.resolved })
				l.wakeUp()
			case errors.Is(r.err, nats.ErrNoResponders) || errors.Is(r.err, errRefused):
				l.look() // it is not in the stream, or an earlier copy of it is
			default:
				sent = true
				l.stats.note(r.err)
				if l.config.Suspect != nil {
					if err := l.config.Suspect(l.stream); err != nil {
						return fmt.Errorf("%w: %w", ErrUnknown, err)
					}
				}
				l.look()
			}
		}
		select {
		case err := <-a.done:
			return err
		case <-ctx.Done():
			return l.undecided(a, sent)
		case <-time.After(pause):
		}
	}
}

// undecided returns the error of an append whose time is over.
func (l *Log) undecided(a *appending, sent bool) error {
	select {
	case err := <-a.done:
		return err
	default:
	}
	if sent {
		return ErrUnknown
	}
	return ErrUnavailable
}

// publishParts publishes what does not fit into one message, and returns the rest.
func (l *Log) publishParts(ctx context.Context, h *header, payload []byte) (rest []byte, err error) {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(partsInFlight)
	for len(payload) > l.chunk && ctx.Err() == nil {
		p := header{kind: kindPart, parts: h.parts, writer: h.writer, counter: h.counter, at: h.at}
		data := encode(p, payload[:l.chunk])
		payload = payload[l.chunk:]
		h.parts++
		g.Go(func() error { return l.publishPart(ctx, data) })
	}
	if err := g.Wait(); err != nil {
		if l.life.Err() != nil {
			return nil, ErrClosed
		}
		return nil, ErrUnavailable
	}
	return payload, nil
}

// publishPart publishes a part until the stream has it. A second copy does no harm.
func (l *Log) publishPart(ctx context.Context, data []byte) error {
	for {
		r := <-l.publish(ctx, kindPart, data, nil, false)
		if r.err == nil {
			l.offer(r.seq, data)
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(retryPause):
		}
	}
}

// published is the answer to a publish.
type published struct {
	seq uint64
	err error
}

// errRefused means that the stream did not store a message: the last record is not the expected one.
var errRefused = errors.New("refused")

// publish publishes a message and returns the channel of its answer. expect makes the stream refuse a record if there
// is one after those that this node has processed.
func (l *Log) publish(ctx context.Context, k kind, data []byte, notes map[string][]string,
	expect bool) <-chan published {
	m := nats.NewMsg(l.subject(k))
	m.Data = data
	maps.Copy(m.Header, notes)
	if expect {
		l.mu.Lock()
		m.Header.Set("Nats-Expected-Last-Subject-Sequence", strconv.FormatUint(l.pos.Log, 10))
		l.mu.Unlock()
	}
	answer := make(chan published, 1)
	go func() {
		ctx, cancel := context.WithTimeout(ctx, tryTimeout)
		defer cancel()
		reply, err := l.config.Conn.RequestMsgWithContext(ctx, m)
		if err != nil {
			answer <- published{err: err}
			return
		}
		seq, err := parseAck(reply.Data)
		answer <- published{seq, err}
	}()
	return answer
}

// parseAck parses {"stream":"s","seq":7} or {"error":{...}}.
func parseAck(data []byte) (uint64, error) {
	var ack struct {
		Seq   uint64    `json:"seq"`
		Error *apiError `json:"error"`
	}
	if err := json.Unmarshal(data, &ack); err != nil {
		return 0, fmt.Errorf("replog: bad acknowledgement: %w", err)
	}
	if e := ack.Error; e != nil {
		if e.ErrCode == codeWrongSequence || e.ErrCode == codeWrongSequenceConstant {
			return 0, errRefused
		}
		return 0, e
	}
	if ack.Seq == 0 {
		return 0, errors.New("replog: an acknowledgement without a sequence")
	}
	return ack.Seq, nil
}
