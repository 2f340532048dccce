package replog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// retryPause is the pause before a message is published again after an answer that did not accept it.
	retryPause = 20 * time.Millisecond

	headerSequence = "Nats-Sequence"
	headerStatus   = "Status"

	// A publish is stored only if the last message of its subject, or of the stream, has this sequence.
	headerExpectRecord = "Nats-Expected-Last-Subject-Sequence"
	headerExpectLast   = "Nats-Expected-Last-Sequence"

	// fetchBatch and fetchBytes limit one request for messages.
	fetchBatch = 512
	fetchBytes = 8 << 20
	// fetchTimeout is the time to wait for the next message of a request.
	fetchTimeout = 2 * time.Second
	// pieceTimeout is the time to wait for the next acknowledgement of a series. The library waits without end for one
	// that is lost, as with a leader that was deposed or a connection that broke.
	pieceTimeout = time.Minute
)

// servers are the servers that keep the log, as far as a Log needs them: jetStream, or the model of a simulation.
type servers interface {
	// stream returns the state of a stream, by the server that takes itself for its leader.
	stream(ctx context.Context, name string) (*jetstream.StreamInfo, error)
	create(ctx context.Context, config jetstream.StreamConfig) (*jetstream.StreamInfo, error)
	update(ctx context.Context, config jetstream.StreamConfig) error
	// purge removes the messages before a sequence.
	purge(ctx context.Context, stream string, keep uint64) error

	// send sends a message. The acknowledgement of a stream comes to m.Reply.
	send(m *nats.Msg) error
	// request sends a message and returns the answer.
	request(ctx context.Context, m *nats.Msg) (*nats.Msg, error)
	// publish sends a message to a stream and returns the sequence. last is the sequence of the message of that subject
	// that must be the last one, 0 for none.
	publish(ctx context.Context, m *nats.Msg, last uint64) (seq uint64, err error)
	// series returns a function that publishes messages in order without waiting for each, some of them at a time; it
	// returns the wait for the sequence, which fails after some time without an acknowledgement.
	series(pending int) (func(m *nats.Msg) (acknowledged, error), error)

	// read asks a replica of a stream for up to n messages from a sequence on, and calls take until it returns false.
	read(stream string, from uint64, n int, take func(seq uint64, data []byte) (more bool, err error)) error
	// message asks the leader of a stream for the first message from a sequence on. Errors: errNoMessage.
	message(stream string, from uint64) (seq uint64, data []byte, err error)
	// last asks for the last message of a subject. Errors: jetstream.ErrMsgNotFound.
	last(ctx context.Context, stream, subject string) (*jetstream.RawStreamMsg, error)

	// subscribe calls handle with the messages of a subject, receive puts them into a channel, until unsubscribe.
	subscribe(subject string, handle nats.MsgHandler) error
	receive(subject string, in chan *nats.Msg) error
	unsubscribe() error
}

// acknowledged waits until a message is stored, ctx ends or the log is closed.
type acknowledged func(ctx, life context.Context) (seq uint64, err error)

// jetStream implements servers.
type jetStream struct {
	conn *nats.Conn
	js   jetstream.JetStream
	subs []*nats.Subscription
	// pieceTimeout is that of the constant, or shorter in tests.
	pieceTimeout time.Duration
	answers      answers // to reads

	mu      sync.Mutex // guards the rest
	handles map[string]jetstream.Stream
}

func newJetStream(conn *nats.Conn) (*jetStream, error) {
	js, err := jetstream.New(conn)
	if err != nil {
		return nil, fmt.Errorf("replog: %w", err)
	}
	return &jetStream{conn: conn, js: js, pieceTimeout: pieceTimeout, handles: map[string]jetstream.Stream{}}, nil
}

func (s *jetStream) stream(ctx context.Context, name string) (*jetstream.StreamInfo, error) {
	found, err := s.js.Stream(ctx, name)
	return s.keep(name, found, err)
}

func (s *jetStream) create(ctx context.Context, config jetstream.StreamConfig) (*jetstream.StreamInfo, error) {
	created, err := s.js.CreateStream(ctx, config)
	return s.keep(config.Name, created, err)
}

// keep keeps the library's object of a stream, which costs a request.
func (s *jetStream) keep(name string, found jetstream.Stream, err error) (*jetstream.StreamInfo, error) {
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handles[name] = found
	return found.CachedInfo(), nil
}

func (s *jetStream) handle(ctx context.Context, name string) (jetstream.Stream, error) {
	s.mu.Lock()
	found := s.handles[name]
	s.mu.Unlock()
	if found != nil {
		return found, nil
	}
	return s.js.Stream(ctx, name)
}

func (s *jetStream) update(ctx context.Context, config jetstream.StreamConfig) error {
	_, err := s.js.UpdateStream(ctx, config)
	return err
}

func (s *jetStream) purge(ctx context.Context, stream string, keep uint64) error {
	found, err := s.handle(ctx, stream)
	if err != nil {
		return err
	}
	return found.Purge(ctx, jetstream.WithPurgeSequence(keep))
}

func (s *jetStream) send(m *nats.Msg) error { return s.conn.PublishMsg(m) }

func (s *jetStream) request(ctx context.Context, m *nats.Msg) (*nats.Msg, error) {
	return s.conn.RequestMsgWithContext(ctx, m)
}

func (s *jetStream) publish(ctx context.Context, m *nats.Msg, last uint64) (seq uint64, err error) {
	ack, err := s.js.PublishMsg(ctx, m, jetstream.WithExpectLastSequencePerSubject(last))
	if err != nil {
		return 0, err
	}
	return ack.Sequence, nil
}

func (s *jetStream) series(pending int) (func(m *nats.Msg) (acknowledged, error), error) {
	js, err := jetstream.New(s.conn, jetstream.WithPublishAsyncMaxPending(pending))
	if err != nil {
		return nil, err
	}
	return func(m *nats.Msg) (acknowledged, error) {
		f, err := js.PublishMsgAsync(m)
		if err != nil {
			return nil, err
		}
		return func(ctx, life context.Context) (uint64, error) {
			timeout := time.NewTimer(s.pieceTimeout)
			defer timeout.Stop()
			select {
			case ack := <-f.Ok():
				return ack.Sequence, nil
			case err := <-f.Err():
				return 0, fmt.Errorf("%w: publishing a snapshot: %w", ErrUnavailable, err)
			case <-timeout.C:
				return 0, fmt.Errorf("%w: publishing a snapshot: no acknowledgement for %v", ErrUnavailable, s.pieceTimeout)
			case <-ctx.Done():
				return 0, ctx.Err()
			case <-life.Done():
				return 0, ErrClosed
			}
		}, nil
	}, nil
}

// https://github.com/nats-io/nats-architecture-and-design/blob/main/adr/ADR-31.md
func (s *jetStream) read(stream string, from uint64, n int,
	take func(seq uint64, data []byte) (more bool, err error)) error {
	found, err := s.answers.open(s.conn, n)
	if err != nil {
		return err
	}
	defer s.answers.close(found)
	request := fmt.Sprintf(`{"seq":%d,"batch":%d,"max_bytes":%d}`, from, n, fetchBytes)
	if err := s.conn.PublishRequest("$JS.API.DIRECT.GET."+stream, found.subject, []byte(request)); err != nil {
		return err
	}
	for {
		m, err := found.next(fetchTimeout)
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

func (s *jetStream) message(stream string, from uint64) (seq uint64, data []byte, err error) {
	m, err := s.conn.Request("$JS.API.STREAM.MSG.GET."+stream,
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

// last repeats the request until ctx ends while no server answers, which is so for a moment after a stream was created,
// or its leader was lost.
func (s *jetStream) last(ctx context.Context, stream, subject string) (*jetstream.RawStreamMsg, error) {
	for {
		found, err := s.handle(ctx, stream)
		if err != nil {
			return nil, err
		}
		raw, err := found.GetLastMsgForSubject(ctx, subject)
		if !errors.Is(err, nats.ErrNoResponders) {
			return raw, err
		}
		select {
		case <-time.After(retryPause):
		case <-ctx.Done():
			return nil, err
		}
	}
}

func (s *jetStream) subscribe(subject string, handle nats.MsgHandler) error {
	return s.add(s.conn.Subscribe(subject, handle))
}

func (s *jetStream) receive(subject string, in chan *nats.Msg) error {
	return s.add(s.conn.ChanSubscribe(subject, in))
}

func (s *jetStream) add(sub *nats.Subscription, err error) error {
	if err == nil {
		s.subs = append(s.subs, sub)
	}
	return err
}

func (s *jetStream) unsubscribe() error {
	var errs []error
	for _, sub := range s.subs {
		errs = append(errs, sub.Unsubscribe())
	}
	return errors.Join(append(errs, s.answers.end())...)
}

// errNoMessage means that the leader has no message from a sequence on.
var errNoMessage = errors.New("no such message")

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
