package natsserver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Streams are copied between a server alone and a cluster, with the sequences of their records: what refers to a record by its sequence, as pop receipts and
// floors do, stays valid.

const (
	// copyPending is the number of records that are published at a time.
	copyPending = 256
	// copyPatience is the time to wait for the next record of a stream, or for an acknowledgement.
	copyPatience = 30 * time.Second
	// ownPrefix begins the names of streams that are not copied: logs, snapshots and what else belongs to one cluster.
	ownPrefix = "LAZULI_"
	// ownHeader begins the names of the headers that are part of a record. JetStream stores other ones, which were instructions for the publish.
	ownHeader = "Lazuli-"
	// setByServer begins the keys of metadata that the server sets.
	setByServer = "_nats."
)

// ErrSource is the error of CopyStreams for a stream that cannot be copied as it is: trying again does not help.
var ErrSource = errors.New("natsserver: the stream cannot be copied")

// ErrChanged is the error of CopyStreams if the streams were changed meanwhile: what one of them says about another may be wrong in the copies.
var ErrChanged = errors.New("natsserver: the streams were changed while they were copied")

// ErrStreamExists is the error of CopyStreams for a stream that the target has.
var ErrStreamExists = errors.New("natsserver: the stream exists")

// CopyStreams copies all streams of another server, except those of replicated logs, with the sequences of their records. Nothing may write to them meanwhile.
// The copies are durable when it returns. After an error, some streams may have been copied, one of them in part. Only the last record of a subject may have a
// meaning in these streams: where a sequence has no record, the copy has the next record twice.
func (s *Server) CopyStreams(ctx context.Context, from *Server) error {
	source, err := jetstream.New(from.conn)
	if err != nil {
		return fmt.Errorf("natsserver: %w", err)
	}
	target, err := jetstream.New(s.conn, jetstream.WithPublishAsyncMaxPending(copyPending))
	if err != nil {
		return fmt.Errorf("natsserver: %w", err)
	}
	found, err := from.streamInfos(ctx, source)
	if err != nil {
		return err
	}
	for _, info := range found {
		c := streamCopy{ctx: ctx, name: info.Config.Name, source: source, target: target}
		if err := c.run(s.copyConfig(info)); err != nil {
			return fmt.Errorf("copying stream %s: %w", c.name, err)
		}
		if err := errors.Join(s.SyncConfig(c.name), s.Sync(c.name)); err != nil {
			return err
		}
	}
	after, err := from.streamInfos(ctx, source)
	if err != nil {
		return err
	}
	if !slices.EqualFunc(found, after, func(a, b *jetstream.StreamInfo) bool {
		return a.Config.Name == b.Config.Name && a.State.FirstSeq == b.State.FirstSeq && a.State.LastSeq == b.State.LastSeq
	}) {
		return ErrChanged
	}
	return nil
}

// streamInfos returns what is known of the streams to copy, by name.
func (s *Server) streamInfos(ctx context.Context, js jetstream.JetStream) (found []*jetstream.StreamInfo, err error) {
	list := js.ListStreams(ctx)
	for info := range list.Info() {
		if strings.HasPrefix(info.Config.Name, ownPrefix) {
			continue
		}
		found = append(found, info)
		if s.node == nil {
			continue
		}
		// A server that was cut off answers as a stream's leader for a while.
		if end, err := s.StreamEnd(ctx, info.Config.Name); err != nil || end.Seq > info.State.LastSeq {
			return nil, errors.Join(fmt.Errorf("%w: stream %s ends at %d", ErrChanged, info.Config.Name, end.Seq), err)
		}
	}
	if err := list.Err(); err != nil {
		return nil, fmt.Errorf("natsserver: listing streams: %w", err)
	}
	slices.SortFunc(found, func(a, b *jetstream.StreamInfo) int { return strings.Compare(a.Config.Name, b.Config.Name) })
	return found, s.allFound(ctx, found)
}

// allFound returns an error if a stream to copy is not in found: the list has only streams whose leaders have answered.
func (s *Server) allFound(ctx context.Context, found []*jetstream.StreamInfo) error {
	names, err := s.StreamNames(ctx)
	for _, name := range names {
		if _, ok := slices.BinarySearchFunc(found, name, func(info *jetstream.StreamInfo, name string) int {
			return strings.Compare(info.Config.Name, name)
		}); !ok && !strings.HasPrefix(name, ownPrefix) {
			return fmt.Errorf("%w: stream %s has no leader", ErrCopies, name)
		}
	}
	return err
}

// copyConfig returns the configuration of the copy of a stream.
func (s *Server) copyConfig(info *jetstream.StreamInfo) jetstream.StreamConfig {
	c := info.Config
	c.Replicas, c.FirstSeq, c.Placement = s.Replicas(), info.State.FirstSeq, nil
	c.Metadata = maps.Clone(c.Metadata)
	maps.DeleteFunc(c.Metadata, func(key, _ string) bool { return strings.HasPrefix(key, setByServer) })
	return c
}

// streamCopy is the copying of one stream.
type streamCopy struct {
	ctx            context.Context // of CopyStreams
	name           string
	source, target jetstream.JetStream

	next uint64 // sequence of the record to publish next
	acks []ack
}

// ack is a publish without an acknowledgement yet.
type ack struct {
	future jetstream.PubAckFuture
	seq    uint64
}

func (c *streamCopy) run(config jetstream.StreamConfig) error {
	stream, err := c.source.Stream(c.ctx, c.name)
	if err != nil {
		return err
	}
	state := stream.CachedInfo().State
	config.FirstSeq = state.FirstSeq
	created, err := c.target.CreateStream(c.ctx, config) // no error if a stream has the same configuration
	switch {
	case errors.Is(err, jetstream.ErrStreamNameAlreadyInUse), err == nil && created.CachedInfo().State.LastSeq >= max(config.FirstSeq, 1):
		return ErrStreamExists
	case err != nil:
		return err
	}
	c.next = max(state.FirstSeq, 1)
	if state.Msgs == 0 {
		return nil
	}
	if err := c.records(stream, state.LastSeq); err != nil {
		return err
	}
	for len(c.acks) > 0 {
		if err := c.acknowledge(); err != nil {
			return err
		}
	}
	return nil
}

// records publishes the records up to a sequence.
func (c *streamCopy) records(stream jetstream.Stream, last uint64) error {
	consumer, err := stream.OrderedConsumer(c.ctx, jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverAllPolicy})
	if err != nil {
		return err
	}
	messages, err := consumer.Messages()
	if err != nil {
		return err
	}
	defer messages.Stop()
	for c.next <= last {
		ctx, cancel := context.WithTimeout(c.ctx, copyPatience)
		m, err := messages.Next(jetstream.NextContext(ctx))
		cancel()
		if err != nil {
			return fmt.Errorf("%w: record %d cannot be read: %w", ErrSource, c.next, err)
		}
		about, err := m.Metadata()
		if err != nil {
			return err
		}
		for seq := about.Sequence.Stream; c.next <= seq; c.next++ {
			if err := c.publish(m); err != nil {
				return err
			}
		}
	}
	return nil
}

// publish publishes a record as the next one.
func (c *streamCopy) publish(m jetstream.Msg) error {
	record := &nats.Msg{Subject: m.Subject(), Data: m.Data(), Header: nats.Header{}}
	for key, values := range m.Headers() {
		if strings.HasPrefix(key, ownHeader) && key != HeaderSynced {
			record.Header[key] = values
		}
	}
	if len(c.acks) >= copyPending {
		if err := c.acknowledge(); err != nil {
			return err
		}
	}
	future, err := c.target.PublishMsgAsync(record)
	if err != nil {
		return err
	}
	c.acks = append(c.acks, ack{future, c.next})
	return nil
}

// acknowledge waits for the oldest acknowledgement.
func (c *streamCopy) acknowledge() error {
	a := c.acks[0]
	c.acks = c.acks[1:]
	timer := time.NewTimer(copyPatience)
	defer timer.Stop()
	select {
	case got := <-a.future.Ok():
		if got.Sequence != a.seq {
			return fmt.Errorf("record %d was stored as %d", a.seq, got.Sequence)
		}
		return nil
	case err := <-a.future.Err():
		return err
	case <-timer.C:
		return fmt.Errorf("record %d was not acknowledged", a.seq)
	case <-c.ctx.Done():
		return context.Cause(c.ctx)
	}
}

// DeleteStreams deletes all streams but those whose names keep accepts.
func (s *Server) DeleteStreams(ctx context.Context, keep func(name string) bool) error {
	js, err := jetstream.New(s.conn)
	if err != nil {
		return fmt.Errorf("natsserver: %w", err)
	}
	names, err := s.StreamNames(ctx)
	for _, name := range names {
		if keep(name) {
			continue
		}
		if failed := js.DeleteStream(ctx, name); failed != nil && !errors.Is(failed, jetstream.ErrStreamNotFound) {
			err = errors.Join(err, fmt.Errorf("deleting stream %s: %w", name, failed))
		}
	}
	return err
}

// StreamNames returns the names of all streams.
func (s *Server) StreamNames(ctx context.Context) (names []string, err error) {
	js, err := jetstream.New(s.conn)
	if err != nil {
		return nil, fmt.Errorf("natsserver: %w", err)
	}
	list := js.StreamNames(ctx)
	for name := range list.Name() {
		names = append(names, name)
	}
	if err := list.Err(); err != nil {
		return nil, fmt.Errorf("natsserver: listing streams: %w", err)
	}
	return names, nil
}
