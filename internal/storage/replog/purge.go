package replog

import (
	"context"
	"fmt"
)

// Trim removes old messages that a node at position p does not need if the log is longer than limit bytes, so that
// about half of them stay.
func (l *Log) Trim(ctx context.Context, p Position, limit int64) error {
	info, err := l.servers.stream(ctx, l.stream)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	state := info.State
	if int64(state.Bytes) <= limit || state.Msgs == 0 {
		return nil
	}
	stay := uint64(limit) / 2 / (state.Bytes/state.Msgs + 1)
	keep := min(p.Resume+1, p.Log, p.Last, state.LastSeq-min(stay, state.LastSeq))
	if l.config.Cut != nil {
		if keep, err = l.config.Cut(l.stream, keep); err != nil {
			return fmt.Errorf("replog: %w", err)
		}
	}
	if keep <= state.FirstSeq {
		return nil
	}
	if err := l.servers.purge(ctx, l.stream, keep); err != nil {
		return fmt.Errorf("%w: purging %s: %w", ErrUnavailable, l.stream, err)
	}
	return nil
}

// Purge removes the messages that a node at position p does not need. The last record stays, since the next append
// names it. Nodes that have processed less than p need a snapshot afterwards.
func (l *Log) Purge(ctx context.Context, p Position) error {
	keep := min(p.Resume+1, p.Log, p.Last)
	if keep <= 1 {
		return nil
	}
	if err := l.servers.purge(ctx, l.stream, keep); err != nil {
		return fmt.Errorf("%w: purging %s: %w", ErrUnavailable, l.stream, err)
	}
	return nil
}
