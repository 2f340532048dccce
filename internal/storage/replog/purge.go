package replog

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// Purge removes the messages that a node at position p does not need. The last record stays, since the next append names it. Nodes that have
// processed less than p need a snapshot afterwards.
func (l *Log) Purge(ctx context.Context, p Position) error {
	keep := min(p.Resume+1, p.Log, p.Last)
	if keep <= 1 {
		return nil
	}
	s, err := l.js.Stream(ctx, l.stream)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	if err := s.Purge(ctx, jetstream.WithPurgeSequence(keep)); err != nil {
		return fmt.Errorf("%w: purging %s: %w", ErrUnavailable, l.stream, err)
	}
	return nil
}
