package replog

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// metadataID is the key of the stream's metadata that holds the log's id.
const metadataID = "lazuli.log"

// Open opens a log, and creates it if it does not exist. It waits until ctx ends for servers that do not answer.
func Open(ctx context.Context, c Config) (*Log, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	l := &Log{
		config: c, servers: c.servers, stream: StreamOf(c.Name), wake: make(chan struct{}, 1), chunk: c.chunk,
		ahead: make(map[uint64][]byte), parts: make(map[uint64]*partSet), marks: make(map[uint64]*passing),
		reads: make(map[*passing]uint64),
	}
	l.timeout.Store(int64(c.Timeout))
	l.life, l.end = context.WithCancel(context.Background())
	if l.servers == nil {
		js, err := newJetStream(c.Conn)
		if err != nil {
			return nil, err
		}
		l.servers = js
	}
	l.writer = l.random()
	if err := l.create(ctx); err != nil {
		return nil, err
	}
	if c.Settle != nil { // before a view refers to the stream
		if err := c.Settle(l.stream); err != nil {
			return nil, fmt.Errorf("replog: stream %s: %w", l.stream, err)
		}
	}
	if l.chunk > 0 {
		return l, nil
	}
	// Room for the headers of JetStream, and of a republished message.
	l.chunk = int(min(c.Conn.MaxPayload(), 1<<20)) - headerSize - 4096
	if l.chunk < 32<<10 {
		return nil, fmt.Errorf("replog: the server accepts messages of at most %d bytes: set max_payload to 1MB",
			c.Conn.MaxPayload())
	}
	return l, nil
}

// create creates the stream, or reads the id of the existing one.
func (l *Log) create(ctx context.Context) error {
	config := jetstream.StreamConfig{
		Name:        l.stream,
		Description: "Lazuli: log of " + l.config.Name,
		Subjects:    []string{l.subject(kindRecord), l.subject(kindPart), l.subject(kindMark)},
		Replicas:    l.config.Replicas,
		Placement:   l.placement(),
		AllowDirect: true,
		DenyDelete:  true,
		Metadata:    map[string]string{metadataID: strconv.FormatUint(l.random(), 36)},
	}
	if l.config.Store == nil {
		config.RePublish = l.republish()
	}
	if l.config.InMemory {
		config.Storage = jetstream.MemoryStorage
	}
	if l.config.seeded {
		config.Metadata[metadataSeeded] = "true"
	}
	// A request to a server that was just lost has no answer, the next one has it at once; a busy machine takes longer.
	for limit := time.Second; ; limit = min(2*limit, createTimeout) {
		err := l.createOnce(ctx, limit, config)
		if err == nil {
			return nil
		}
		if errors.As(err, new(permanent)) {
			return fmt.Errorf("replog: stream %s: %w", l.stream, err)
		}
		if !l.sleep(ctx, 200*time.Millisecond) { // the cluster may have no leader yet
			return fmt.Errorf("%w: stream %s: %w", ErrUnavailable, l.stream, err)
		}
	}
}

// permanent is an error of createOnce that does not go away.
type permanent struct{ error }

// createTimeout is the longest time limit of one attempt to open the stream.
const createTimeout = 8 * time.Second

func (l *Log) createOnce(ctx context.Context, limit time.Duration, config jetstream.StreamConfig) error {
	ctx, cancel := l.within(ctx, limit)
	defer cancel()
	info, err := l.servers.stream(ctx, l.stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		info, err = l.servers.create(ctx, config)
	}
	if err != nil {
		return err
	}
	found := info.Config
	l.found = info.State.LastSeq
	// From what the stream has, not from what was asked for: another node may have created it at the same time.
	l.id, l.seeded = found.Metadata[metadataID], found.Metadata[metadataSeeded] != ""
	switch {
	case l.id == "":
		return permanent{errors.New("the stream was not created by Lazuli")}
	case !found.AllowDirect:
		return permanent{errors.New("the stream's configuration was changed: it must allow direct reads")}
	}
	if found.RePublish == nil && l.config.Store == nil { // it was private until now
		found.RePublish = l.republish()
		if err := l.servers.update(ctx, found); err != nil {
			return err
		}
	}
	return l.addReplicas(ctx, found)
}

// placement returns where JetStream may place the streams of the log.
func (l *Log) placement() *jetstream.Placement {
	if l.config.Placement == nil {
		return nil
	}
	return &jetstream.Placement{Tags: l.config.Placement}
}

func (l *Log) republish() *jetstream.RePublish {
	return &jetstream.RePublish{Source: ">", Destination: l.followSubject() + ".>"}
}

// addReplicas gives an existing stream more replicas if the cluster has grown. It never takes replicas away.
func (l *Log) addReplicas(ctx context.Context, found jetstream.StreamConfig) error {
	if found.Replicas >= l.config.Replicas {
		return nil
	}
	found.Replicas = l.config.Replicas
	return l.servers.update(ctx, found)
}

// metadataSeeded is the key of the stream's metadata that marks a seeded log.
const metadataSeeded = "lazuli.seeded"
