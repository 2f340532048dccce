package replog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	// tryTimeout is the time to wait for an acknowledgement before a message is published again.
	tryTimeout = 2 * time.Second
	// electionTime is the time after a new term in which a message is published again at each majorityPoll. An election
	// takes that long if its votes are slow to be synced.
	electionTime = 2 * time.Second
)

// publishRecord publishes a record, unless Begin has, and waits for the acknowledgement, which comes to a subscription
// of the log: a request of the client library would hand it on twice.
func (l *Log) publishRecord(a *Pending) (seq uint64, err error) {
	if l.config.Store != nil {
		return l.config.Store(l.stream, l.subject(kindRecord), wireHeaders(a.notes), a.data)
	}
	if a.begun {
		a.begun = false
	} else if err := a.send(); err != nil {
		return 0, err
	}
	sent := l.now()
	end := sent.Add(tryTimeout)
	if end.After(a.deadline) {
		end = a.deadline
	}
	for {
		if reply := a.takeAck(); reply != nil {
			if len(reply.Data) == 0 && reply.Header.Get(headerStatus) == "503" {
				return 0, nats.ErrNoResponders
			}
			return parseAck(reply.Data)
		}
		reply, why := waitFor(l, min(majorityPoll, end.Sub(l.now())), l.acks, a.done)
		switch why {
		case byDone:
			return 0, errResolved
		case byClose:
			return 0, ErrClosed
		case byTime:
			// The message may still reach the stream: finish treats a timeout as sent.
			now := l.now()
			if !now.Before(end) || l.checkMajority() != nil || l.newTerm() && now.Sub(sent) >= majorityPoll {
				return 0, nats.ErrTimeout
			}
		case byMessage:
			l.acknowledged(reply)
		}
	}
}

// newTerm reports whether the stream has got another term a moment ago, as far as this node knows. What was published
// before went to the leader of before. If that does not answer any more, while its connections still stand, no node has
// the message, and no answer says so. So a call that waits asks at each majorityPoll, and publishes again.
func (l *Log) newTerm() bool {
	if l.config.Term == nil {
		return false
	}
	term, member := l.config.Term(l.stream)
	if !member {
		term = 0
	}
	now := l.now().UnixNano()
	// The first term that is seen is no change. A copy that has moved to another server is one, as it may have led: then
	// no answer comes from here, and this node does not learn of the next term.
	if before := l.seenTerm.Swap(term); before != 0 && before != term {
		l.turnedAt.Store(now)
	}
	turned := l.turnedAt.Load()
	return turned != 0 && now-turned < int64(electionTime)
}

// published is the answer to a publish.
type published struct {
	seq uint64
	err error
}

// errRefused means that the stream did not store a message: the last record is not the expected one.
var errRefused = errors.New("refused")

// publish publishes a message without a condition and returns the channel of its answer.
func (l *Log) publish(ctx context.Context, k kind, data []byte) <-chan published {
	answer := make(chan published, 1)
	if l.config.Store != nil {
		answer <- l.publishOnce(ctx, k, data, false)
		return answer
	}
	l.spawn(func() { answer <- l.publishOnce(ctx, k, data, false) })
	return answer
}

// publishOnce publishes a message and waits for the answer. expect makes the stream refuse it if there is a record
// after those that this node has processed.
func (l *Log) publishOnce(ctx context.Context, k kind, data []byte, expect bool) published {
	if l.config.Store != nil {
		seq, err := l.config.Store(l.stream, l.subject(k), nil, data)
		return published{seq, err}
	}
	m := l.message(k, data, nil)
	if expect {
		l.mu.Lock()
		l.expectRecordLocked(m)
		l.mu.Unlock()
	}
	ctx, cancel := l.within(ctx, tryTimeout)
	defer cancel()
	reply, err := l.servers.request(ctx, m)
	if err != nil {
		return published{err: err}
	}
	seq, err := parseAck(reply.Data)
	return published{seq, err}
}

// message returns a message to publish.
func (l *Log) message(k kind, data []byte, notes map[string][]string) *nats.Msg {
	m := nats.NewMsg(l.subject(k))
	m.Data = data
	maps.Copy(m.Header, notes)
	return m
}

// expectRecordLocked lets a stream refuse a message if there is a record after those that this node has processed.
func (l *Log) expectRecordLocked(m *nats.Msg) {
	m.Header[headerExpectRecord] = []string{strconv.FormatUint(l.pos.Log, 10)}
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

// takeAcks takes the answers that have come. Most outcomes are known before they are needed, and too many would count
// as a slow consumer.
func (l *Log) takeAcks() {
	for {
		select {
		case m := <-l.acks:
			l.acknowledged(m)
		default:
			return
		}
	}
}

// acknowledged keeps the answer to a publish for its append.
func (l *Log) acknowledged(m *nats.Msg) {
	number, err := strconv.ParseUint(strings.TrimPrefix(m.Subject, l.replies), 10, 64)
	if err != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.pending {
		if a.number == number {
			a.ack = m
		}
	}
}

// takeAck returns the answer to the last publish of an append, nil if it has not come.
func (a *Pending) takeAck() *nats.Msg {
	a.log.mu.Lock()
	defer a.log.mu.Unlock()
	m := a.ack
	a.ack = nil
	return m
}

// errResolved means that the outcome of an append was known before its publish was acknowledged.
var errResolved = errors.New("resolved")
