package contentstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lazuli-storage/lazuli/internal/storage/extent"
)

const (
	streamPrefix = "LAZULI_CONTENT_"
	// maxMessage is the size of the largest message, in bytes: half of the largest record.
	maxMessage = extent.MaxRecord/2 + 64
	// minPayload is the least max_payload of the servers: the answer to a read of a message from the leader has it in
	// base64.
	minPayload = 1 << 20
	_          = uint(minPayload - maxMessage*4/3 - 1024)
	// maxPending bounds the messages of all writers that are not acknowledged.
	maxPending = 64
	// sessionMetadata is the key of the session in the metadata of a stream.
	sessionMetadata = "lazuli-session"
)

// Config configures [Open]. Conn, Extents, Owner, Session and Replicas are required.
type Config struct {
	Conn *nats.Conn
	// Replicas is the number of replicas of each stream.
	Replicas int
	// Extents receives what is read, and has what this process writes.
	Extents *extent.Store
	// Owner is the number of this server, which begins the ids of its extents.
	Owner uint64
	// Session is the number of this process among those that have had Owner. The changes of those before it fail.
	Session uint64
	// Timeout is the time that a writer waits for acknowledgements; 0 means 10 s.
	Timeout time.Duration
	// Grace is the time that an extent must have been without a reference before its stream is deleted; 0 means one
	// minute, negative means none.
	Grace time.Duration
	// Log is for what a person should see; nil means slog.Default().
	Log *slog.Logger
}

// Streams has the content of all servers. Its methods are safe for concurrent use.
type Streams struct {
	config Config
	js     jetstream.JetStream
	life   context.Context
	end    context.CancelFunc
	closed sync.Once
	sub    *nats.Subscription // answers for Owner

	mu      sync.Mutex // guards the rest
	streams map[uint64]jetstream.Stream
	making  map[uint64]*sync.Mutex

	collecting sync.Mutex
	dead       map[uint64]time.Time // since when a stream has been without references; guarded by collecting
}

var _ extent.Mirror = (*Streams)(nil)

// ErrRefused means that the NATS servers, or the rights of the account there, are not fit for content. Trying again is
// of no use.
var ErrRefused = errors.New("contentstream: the NATS cluster cannot keep the content of blobs")

// Open makes the writers of the extents wait for the streams, and its readers fetch from them. The caller closes the
// Streams before the extents.
//
// Errors: ErrRefused; others if the servers do not answer.
func Open(c Config) (*Streams, error) {
	c.Timeout = cmp.Or(c.Timeout, 10*time.Second)
	c.Grace = cmp.Or(c.Grace, time.Minute)
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if n := c.Conn.MaxPayload(); n < minPayload {
		return nil, fmt.Errorf("%w: the server accepts messages of at most %d bytes: set max_payload to 1MB", ErrRefused, n)
	}
	js, err := jetstream.New(c.Conn, jetstream.WithPublishAsyncMaxPending(maxPending),
		jetstream.WithPublishAsyncTimeout(c.Timeout))
	if err != nil {
		return nil, fmt.Errorf("contentstream: %w", err)
	}
	s := &Streams{config: c, js: js, streams: map[uint64]jetstream.Stream{}, making: map[uint64]*sync.Mutex{},
		dead: map[uint64]time.Time{}}
	s.life, s.end = context.WithCancel(context.Background())
	if err := s.answer(); err != nil {
		s.Close()
		return nil, err
	}
	if err := c.Extents.Mirror(s, c.Owner); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Close ends what waits for the streams.
func (s *Streams) Close() {
	s.closed.Do(func() {
		s.end()
		if s.sub != nil && s.sub.Unsubscribe() == nil {
			_ = s.config.Conn.FlushTimeout(time.Second) // the next process of this folder asks who answers
		}
		s.js.CleanupPublisher()
	})
}

// Healed implements extent.Mirror.
func (s *Streams) Healed(x extent.Slice) {
	s.config.Log.Error("content of this server was damaged; it was replaced by that of the NATS cluster", "extent",
		fmt.Sprintf("%016x", x.Extent),
		"offset", x.Offset, "bytes", x.Length)
}

func ownerSubject(owner uint64) string { return "lazuli.owner." + strconv.FormatUint(owner, 10) }

// answer makes this process answer for its number.
func (s *Streams) answer() (err error) {
	s.sub, err = s.config.Conn.Subscribe(ownerSubject(s.config.Owner), func(m *nats.Msg) { _ = m.Respond(nil) })
	if err != nil {
		return fmt.Errorf("contentstream: %w", err)
	}
	alive, err := s.Alive(s.life, s.config.Owner)
	switch {
	case err != nil:
		return fmt.Errorf("contentstream: ask subject lazuli.owner.>, which the account must have the right to use: %w", err)
	case !alive:
		return fmt.Errorf("%w: the account must have the right to publish and subscribe to lazuli.> and _INBOX.>", ErrRefused)
	}
	return nil
}

// Alive reports whether a process answers for a number. An error means that this is not known.
func (s *Streams) Alive(ctx context.Context, owner uint64) (bool, error) {
	return Alive(ctx, s.config.Conn, owner)
}

// Alive reports whether a process that uses conn's NATS answers for a number. An error means that this is not known.
func Alive(ctx context.Context, conn *nats.Conn, owner uint64) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	_, err := conn.RequestWithContext(ctx, ownerSubject(owner), nil)
	if errors.Is(err, nats.ErrNoResponders) {
		return false, nil
	}
	return err == nil, err
}

func streamName(id uint64) string { return fmt.Sprintf("%s%016x", streamPrefix, id) }

func parseStreamName(name string) (id uint64, ok bool) {
	hex, ok := strings.CutPrefix(name, streamPrefix)
	id, err := strconv.ParseUint(hex, 16, 64)
	return id, ok && err == nil && len(hex) == 16
}

func subject(id uint64, offset int64, part int) string {
	return fmt.Sprintf("lazuli.extent.%016x.%x.%x.%d", id, offset/extent.MaxRecord, offset, part)
}

// create returns the stream of an extent of this server, which it creates if it does not exist.
func (s *Streams) create(ctx context.Context, id uint64) (jetstream.Stream, error) {
	s.mu.Lock()
	found, making := s.streams[id], s.making[id]
	if making == nil {
		making = &sync.Mutex{}
		s.making[id] = making
	}
	s.mu.Unlock()
	if found != nil {
		return found, nil
	}
	making.Lock()
	defer making.Unlock()
	s.mu.Lock()
	found = s.streams[id]
	s.mu.Unlock()
	if found != nil {
		return found, nil
	}
	stream, err := s.js.CreateStream(ctx, jetstream.StreamConfig{
		Name:        streamName(id),
		Description: "Lazuli: content of blobs",
		Subjects:    []string{fmt.Sprintf("lazuli.extent.%016x.>", id)},
		Replicas:    s.config.Replicas,
		Discard:     jetstream.DiscardNew,
		AllowDirect: true,
		DenyDelete:  true,
		DenyPurge:   true,
		// Another process, with a copy of the folder, cannot write to the stream: its configuration would differ.
		Metadata: map[string]string{sessionMetadata: strconv.FormatUint(s.config.Session, 10)},
	})
	if err != nil {
		return nil, err
	}
	s.keep(id, stream)
	return stream, nil
}

// stream returns the stream of an extent. Errors: jetstream.ErrStreamNotFound.
func (s *Streams) stream(ctx context.Context, id uint64) (jetstream.Stream, error) {
	s.mu.Lock()
	found := s.streams[id]
	s.mu.Unlock()
	if found != nil {
		return found, nil
	}
	stream, err := s.js.Stream(ctx, streamName(id))
	if err == nil {
		s.keep(id, stream)
	}
	return stream, err
}

func (s *Streams) keep(id uint64, stream jetstream.Stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.streams[id] = stream
	delete(s.making, id)
}

// forget removes what is kept of extents that have no stream.
func (s *Streams) forget(exists func(id uint64) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.streams {
		if !exists(id) {
			delete(s.streams, id)
		}
	}
}
