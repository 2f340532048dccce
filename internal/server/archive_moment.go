package server

import (
	"cmp"
	"context"
	"fmt"

	"github.com/lazuli-storage/lazuli/internal/buildinfo"
	"github.com/lazuli-storage/lazuli/internal/server/backup"
)

// ArchiveMoment returns the state of a shard for a base of the archive: with one shard that of [Server.Backup]. held is
// what the place has of it. Close it.
func (s *Server) ArchiveMoment(ctx context.Context, number int, held backup.Held) (_ backup.Source, err error) {
	a := s.archive()
	if a == nil || a.Shards() == 1 {
		return s.Backup(ctx, false, held)
	}
	// It stays within the gate until Close, as a moment of all shards does.
	if err := s.gate.enter(ctx); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.gate.leave()
		}
	}()
	open := s.services.Load()
	if open == nil || !s.ready.Load() {
		return nil, errNotOpen
	}
	if s.Clustered() { // what is current would only be unknown after a timeout
		if err := open.nats.Healthy(); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrNotReady, err)
		}
	}
	of := open.numbered(number)
	// Before the pins: what a segment has by then, the pins have as well.
	position := a.Shard(number).Next()
	m, err := s.momentOf(ctx, []*shard{of})
	if err != nil {
		return nil, err
	}
	if position != nil {
		a.Shard(number).Pinned(position, m.groups())
	}
	m.info = backup.Info{Origin: cmp.Or(of.blobs.State.Database().LogID(), s.dir.ID()),
		Release: buildinfo.Current().Version, Only: &backup.Only{Shard: number, Map: open.placed}, Log: position}
	done := m.done
	m.done = func() { done(); s.gate.leave() }
	return m, nil
}
