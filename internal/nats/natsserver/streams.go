package natsserver

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
)

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

// Leads reports whether the embedded server leads a stream.
func (s *Server) Leads(stream string) bool {
	e := s.Running()
	return e != nil && e.JetStreamIsStreamLeader(server.DEFAULT_GLOBAL_ACCOUNT, stream)
}

// StreamSizes returns the sizes in bytes of the copies of streams that the embedded server has on its disk, by stream.
// It is empty while no embedded server runs.
func (s *Server) StreamSizes() map[string]uint64 {
	sizes := map[string]uint64{}
	e := s.Running()
	if e == nil {
		return sizes
	}
	info, err := e.Jsz(&server.JSzOptions{Accounts: true, Streams: true})
	if err != nil { // JetStream is stopping
		return sizes
	}
	for _, account := range info.AccountDetails {
		for i := range account.Streams {
			sizes[account.Streams[i].Name] = account.Streams[i].State.Bytes
		}
	}
	return sizes
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
