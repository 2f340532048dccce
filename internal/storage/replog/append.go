package replog

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
)

// MaxRecord is the size of the largest payload, in bytes.
const MaxRecord = 256 << 20

const (
	// tryTimeout is the time to wait for an acknowledgement before a message is published again.
	tryTimeout = 2 * time.Second
	// majorityPoll is the interval at which a call that waits checks that this node has a majority: without one, what it
	// waits for may not come before its time is over, nor before its client gives up.
	majorityPoll = 100 * time.Millisecond
	// downTimeout replaces Config.Timeout while the log is known to be unavailable.
	downTimeout = time.Second
	// partsInFlight is the number of parts that are published at a time.
	partsInFlight = 8
)

// Append appends a record that is valid only if prev, a Position.Last, is the last valid record before it. It returns
// nil once the record is valid and apply has returned for it. notes, which may be nil, become headers of its message,
// for people who look at the stream. Concurrent calls run one after another. The log does not keep payload, which the
// caller may use again.
//
// Errors: ErrConflict, ErrUnavailable, ErrUnknown, ErrClosed, and the errors after which a log no longer follows. Only
// after ErrUnknown, ErrClosed and the last ones the record may be or become valid.
func (l *Log) Append(prev uint64, payload []byte, notes map[string][]string) error {
	if len(payload) > MaxRecord {
		return fmt.Errorf("replog: a record of %d bytes is too long: the limit is %d", len(payload), MaxRecord)
	}
	// Before the lock, so that calls fail at once also while one before them waits.
	if err := l.checkMajority(); err != nil {
		return err
	}
	l.appends.Lock()
	defer l.appends.Unlock()
	began := l.now()
	a := &appending{counter: l.counter.Add(1), done: make(chan struct{})}
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
	// Under the same lock as the comparison with prev: from here on, recordLocked decides the outcome with the first
	// valid record that it processes.
	l.current = a
	l.mu.Unlock()
	// These calls of Barrier began before the publish. If the record becomes valid, nothing came between prev and it, so
	// they need no round of their own; otherwise mark makes one for them.
	served := l.barriers.take()
	deadline := began.Add(l.patience())
	err := l.finish(deadline, a, h, payload, notes)
	// Valid for this node is not yet valid for the others, if the stream has lost what came before; and the record that
	// was first may be a lost one.
	if err == nil || errors.Is(err, ErrConflict) {
		outcome := err
		if err = l.assure(deadline); errors.Is(err, errUnverified) {
			err = fmt.Errorf("%w: %w", ErrUnknown, err)
		}
		err = cmp.Or(err, outcome)
	}
	l.mu.Lock()
	l.current = nil
	l.mu.Unlock()
	switch {
	case err == nil:
		served.finish(nil) // nothing was appended between prev and the record
		l.stats.append(l.now().Sub(began))
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

// finish publishes a record until its outcome is known or the time is over.
func (l *Log) finish(deadline time.Time, a *appending, h header, payload []byte, notes map[string][]string) error {
	if len(payload) > l.chunk {
		ctx, cancel := l.within(l.life, deadline.Sub(l.now()))
		defer cancel()
		var err error
		if payload, err = l.publishParts(ctx, &h, payload); err != nil {
			return err
		}
	}
	// All attempts publish the same bytes. Of several copies at most the first is valid, since the others name a record
	// that is no longer the last one.
	data := encode(h, payload)
	sent := false // a publish may have reached the stream
	for {
		seq, err := l.publishRecord(deadline, a, data, notes)
		pause := retryPause
		switch {
		case errors.Is(err, errResolved):
		case err == nil:
			sent, pause = true, tryTimeout // it is processed now, unless earlier messages are missing
			l.offer(seq, data)
			l.checkProcessed(seq, func() bool { return a.resolved })
			l.wakeUp()
		case errors.Is(err, nats.ErrNoResponders) || errors.Is(err, errRefused):
			// The server that refuses a copy may have stored another one, so this is no proof.
			sent = sent || errors.Is(err, errRefused)
			l.look() // it is not in the stream, or an earlier copy of it is
		default:
			sent = true
			l.stats.note(err)
			if l.config.Suspect != nil {
				if err := l.config.Suspect(l.stream); err != nil {
					return fmt.Errorf("%w: %w", ErrUnknown, err)
				}
			}
			l.look()
		}
		if closed(a.done) { // the usual outcome
			return a.err
		}
		if err != nil {
			if lost := l.checkMajority(); lost != nil {
				return l.undecided(a, sent, lost)
			}
		}
		left := deadline.Sub(l.now())
		if left <= 0 || l.life.Err() != nil {
			return l.undecided(a, sent, nil)
		}
		if _, why := waitFor[struct{}](l, min(pause, left), nil, a.done); why == byDone {
			return a.err
		}
	}
}

// errResolved means that the outcome of an append was known before its publish was acknowledged.
var errResolved = errors.New("resolved")

// publishRecord publishes a record and waits for the acknowledgement. The stream refuses the record if there is one
// after those that this node has processed. The acknowledgement comes to a subscription of the log: a request of the
// client library would hand it on twice.
func (l *Log) publishRecord(deadline time.Time, a *appending, data []byte,
	notes map[string][]string) (seq uint64, err error) {
	if l.config.Store != nil {
		return l.config.Store(l.stream, l.subject(kindRecord), wireHeaders(notes), data)
	}
	l.published++
	m := l.message(kindRecord, data, notes, true)
	m.Reply = l.replies + strconv.FormatUint(l.published, 10)
	if err := l.servers.send(m); err != nil {
		return 0, err
	}
	end := l.now().Add(tryTimeout)
	if end.After(deadline) {
		end = deadline
	}
	for {
		reply, why := waitFor(l, min(majorityPoll, end.Sub(l.now())), l.acks, a.done)
		switch why {
		case byDone:
			return 0, errResolved
		case byClose:
			return 0, ErrClosed
		case byTime:
			// The message may still reach the stream: finish treats a timeout as sent.
			if !l.now().Before(end) || l.checkMajority() != nil {
				return 0, nats.ErrTimeout
			}
		case byMessage:
			switch {
			case reply.Subject != m.Reply: // of an earlier attempt
			case len(reply.Data) == 0 && reply.Header.Get(headerStatus) == "503":
				return 0, nats.ErrNoResponders
			default:
				return parseAck(reply.Data)
			}
		}
	}
}

// undecided returns the error of an append that is given up, for a reason if its time is not over.
func (l *Log) undecided(a *appending, sent bool, reason error) error {
	if closed(a.done) {
		return a.err
	}
	switch {
	// Only what was never sent is certain to have no effect. Otherwise a later answer could still make the record valid.
	case sent && reason != nil:
		return fmt.Errorf("%w: %w", ErrUnknown, reason)
	case sent:
		return ErrUnknown
	case reason != nil:
		return reason
	}
	return ErrUnavailable
}

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
	for {
		r := l.publishOnce(ctx, kindPart, data, nil, false)
		if r.err == nil {
			l.offer(r.seq, data)
			return nil
		}
		if err := l.checkMajority(); err != nil {
			return err
		}
		if !l.sleep(ctx, retryPause) {
			return ctx.Err()
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

// message returns a message to publish. expect makes the stream refuse a record if there is one after those that this
// node has processed.
func (l *Log) message(k kind, data []byte, notes map[string][]string, expect bool) *nats.Msg {
	m := nats.NewMsg(l.subject(k))
	m.Data = data
	maps.Copy(m.Header, notes)
	if expect {
		l.mu.Lock()
		m.Header["Nats-Expected-Last-Subject-Sequence"] = []string{strconv.FormatUint(l.pos.Log, 10)}
		l.mu.Unlock()
	}
	return m
}

// wireHeaders returns headers as on the wire.
func wireHeaders(headers map[string][]string) []byte {
	if len(headers) == 0 {
		return nil
	}
	text := []byte("NATS/1.0\r\n")
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		for _, value := range headers[name] {
			text = append(append(append(append(text, name...), ": "...), value...), "\r\n"...)
		}
	}
	return append(text, "\r\n"...)
}

// publish publishes a message and returns the channel of its answer. expect is as for message.
func (l *Log) publish(ctx context.Context, k kind, data []byte, notes map[string][]string,
	expect bool) <-chan published {
	answer := make(chan published, 1)
	if l.config.Store != nil {
		answer <- l.publishOnce(ctx, k, data, notes, expect)
		return answer
	}
	l.spawn(func() { answer <- l.publishOnce(ctx, k, data, notes, expect) })
	return answer
}

// publishOnce publishes a message and waits for the answer.
func (l *Log) publishOnce(ctx context.Context, k kind, data []byte, notes map[string][]string, expect bool) published {
	if l.config.Store != nil {
		seq, err := l.config.Store(l.stream, l.subject(k), wireHeaders(notes), data)
		return published{seq, err}
	}
	m := l.message(k, data, notes, expect)
	ctx, cancel := l.within(ctx, tryTimeout)
	defer cancel()
	reply, err := l.servers.request(ctx, m)
	if err != nil {
		return published{err: err}
	}
	seq, err := parseAck(reply.Data)
	return published{seq, err}
}

// parseAck parses {"stream":"s","seq":7} or {"error":{...}}.
func parseAck(data []byte) (uint64, error) {
	// The usual one, without package json.
	if _, number, ok := bytes.Cut(data, []byte(`"seq":`)); ok {
		if seq, err := strconv.ParseUint(string(bytes.TrimSuffix(number, []byte("}"))), 10, 64); err == nil && seq > 0 {
			return seq, nil
		}
	}
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
