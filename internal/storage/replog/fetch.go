package replog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	headerSequence = "Nats-Sequence"
	headerStatus   = "Status"

	// fetchBatch and fetchBytes limit one request for messages.
	fetchBatch = 512
	fetchBytes = 8 << 20
	// fetchTimeout is the time to wait for the next message of a request.
	fetchTimeout = 2 * time.Second
)

// fetch asks a replica for the messages from a sequence on, and processes them. It returns how many were processed. A
// replica may lag: no message does not prove that none exists.
func (l *Log) fetch(next uint64) (processed int, err error) {
	err = l.read(l.stream, next, fetchBatch, func(seq uint64, data []byte) (bool, error) {
		// A gap in the answer of one replica is no gap of the stream.
		if now, ok := l.state(); !ok || seq > now {
			return false, nil // this replica lacks messages: ask again, or the leader
		}
		processed += l.offer(seq, data)
		return true, nil
	})
	return processed, err
}

// fetchFromLeader asks the stream's leader for one message. If the leader does not have it although it has a later one,
// the log fails.
//
// A server that was cut off answers as the leader until it learns of the other one. That it has neither the message nor
// a later one proves nothing.
func (l *Log) fetchFromLeader(next uint64) (processed int, err error) {
	seq, data, err := l.leaderMessage(l.stream, next)
	switch {
	case err == nil && seq == next:
		n := l.offer(next, data)
		// offer has refused the copy of the leader, and the replicas that were asked before have given no better one.
		if now, ok := l.state(); ok && now == next {
			l.fail(fmt.Errorf("%w: message %d has a wrong checksum on the leader as well", ErrDamaged, next))
		}
		return n, nil
	case err != nil && !errors.Is(err, errNoMessage):
		return 0, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), fetchTimeout)
	defer cancel()
	// The state of the stream tells the reasons apart: it is gone, another one, cut, or only not there yet.
	s, err := l.js.Stream(ctx, l.stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		l.fail(fmt.Errorf("%w: the stream %s is gone", ErrDiverged, l.stream))
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	info := s.CachedInfo()
	switch {
	case info.Config.Metadata[metadataID] != l.id:
		l.fail(fmt.Errorf("%w: the stream %s was created again", ErrDiverged, l.stream))
	case info.State.FirstSeq > next:
		l.fail(fmt.Errorf("%w: message %d is needed, the first one is %d", ErrPurged, next, info.State.FirstSeq))
	case seq > next:
		l.fail(fmt.Errorf("%w: message %d is missing, the next one is %d", ErrDamaged, next, seq))
	}
	return 0, nil
}

// fail ends following.
func (l *Log) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed == nil {
		l.failLocked(err)
	}
}

// errNoMessage means that the leader has no message from a sequence on.
var errNoMessage = errors.New("no such message")

// read asks a replica of a stream for up to n messages from a sequence on, and calls take until it returns false.
//
// https://github.com/nats-io/nats-architecture-and-design/blob/main/adr/ADR-31.md
func (l *Log) read(stream string, from uint64, n int, take func(seq uint64, data []byte) (more bool, err error)) error {
	sub, err := l.config.Conn.SubscribeSync(nats.NewInbox())
	if err != nil {
		return err
	}
	defer func() { _ = sub.Unsubscribe() }()
	request := fmt.Sprintf(`{"seq":%d,"batch":%d,"max_bytes":%d}`, from, n, fetchBytes)
	if err := l.config.Conn.PublishRequest("$JS.API.DIRECT.GET."+stream, sub.Subject, []byte(request)); err != nil {
		return err
	}
	for {
		m, err := sub.NextMsg(fetchTimeout)
		if err != nil {
			return err
		}
		switch m.Header.Get(headerStatus) {
		case "":
		case "204", "404": // end of the batch, no such message
			return nil
		default:
			return fmt.Errorf("replog: status %s of a direct read", m.Header.Get(headerStatus))
		}
		seq, err := strconv.ParseUint(m.Header.Get(headerSequence), 10, 64)
		if err != nil {
			return fmt.Errorf("replog: a message without a sequence: %w", err)
		}
		if more, err := take(seq, m.Data); !more || err != nil {
			return err
		}
	}
}

// leaderMessage asks the leader of a stream for the first message from a sequence on.
func (l *Log) leaderMessage(stream string, from uint64) (seq uint64, data []byte, err error) {
	m, err := l.config.Conn.Request("$JS.API.STREAM.MSG.GET."+stream,
		fmt.Appendf(nil, `{"seq":%d,"next_by_subj":">"}`, from), fetchTimeout)
	if err != nil {
		return 0, nil, err
	}
	var answer struct {
		Error   *apiError `json:"error"`
		Message struct {
			Seq  uint64 `json:"seq"`
			Data []byte `json:"data"`
		} `json:"message"`
	}
	if err := json.Unmarshal(m.Data, &answer); err != nil {
		return 0, nil, fmt.Errorf("replog: %w", err)
	}
	if e := answer.Error; e != nil {
		if e.ErrCode == codeNoMessage {
			return 0, nil, errNoMessage
		}
		return 0, nil, e
	}
	return answer.Message.Seq, answer.Message.Data, nil
}

// apiError is an error of JetStream.
type apiError struct {
	Code        int    `json:"code"`
	ErrCode     int    `json:"err_code"`
	Description string `json:"description"`
}

func (e *apiError) Error() string { return fmt.Sprintf("JetStream: %s (%d)", e.Description, e.ErrCode) }

// Codes of JetStream's errors.
const (
	codeNoMessage             = 10037
	codeWrongSequence         = 10071
	codeWrongSequenceConstant = 10164 // the same, without a sequence
)
