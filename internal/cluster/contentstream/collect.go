package contentstream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lazuli-storage/lazuli/internal/storage/extent"
)

// References has the contract of Refs of [extent.Owner].
type References func(ctx context.Context, yield func(extent.Ref) bool) error

// Collect deletes the streams of extents that no metadata refers to any more: those that this server has deleted, and
// those of servers that are gone. gone MUST return true only for owners whose later changes of the metadata fail. It
// also releases the copies of extents whose streams were deleted. All servers may run it at a time.
//
// A stream of this server's number that a later process has created is never deleted by this one.
//
// The stream of an extent of this server is a candidate when the extent is not in its folder: no writer holds it then,
// since its file is created before the stream and deleted only without writers. An extent that was lost in another way
// still has references, or no use.
func (s *Streams) Collect(ctx context.Context, refs References, gone func(owner uint64) bool) (deleted int, err error) {
	s.collecting.Lock()
	defer s.collecting.Unlock()
	before := s.config.Extents.Stats()
	streams, err := s.list(ctx)
	if err != nil {
		return 0, fmt.Errorf("contentstream: list the streams of content: %w", err)
	}
	s.forget(func(id uint64) bool { return streams[id] })
	for _, x := range before {
		if x.Copied && !streams[x.ID] {
			s.config.Extents.Release(x.ID)
		}
	}
	dead := s.candidates(streams, gone)
	if len(dead) > 0 {
		err = refs(ctx, func(r extent.Ref) bool {
			delete(dead, r.Slice.Extent)
			return len(dead) > 0 && ctx.Err() == nil
		})
	}
	if err = errors.Join(err, ctx.Err()); err != nil {
		return 0, err
	}
	return s.delete(ctx, dead)
}

// list returns the extents that have streams.
func (s *Streams) list(ctx context.Context) (map[uint64]bool, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	names := s.js.StreamNames(ctx, jetstream.WithStreamListSubject("lazuli.extent.>"))
	streams := map[uint64]bool{}
	for name := range names.Name() {
		if id, ok := parseStreamName(name); ok {
			streams[id] = true
		}
	}
	return streams, names.Err()
}

// candidates returns the extents whose streams may be deleted if nothing refers to them. streams must have been listed
// before.
func (s *Streams) candidates(streams map[uint64]bool, gone func(uint64) bool) map[uint64]bool {
	held := map[uint64]bool{}
	for _, x := range s.config.Extents.Stats() {
		held[x.ID] = true
	}
	dead := map[uint64]bool{}
	for id := range streams {
		owner := extent.OwnerOf(id)
		if owner == s.config.Owner && !held[id] || owner != s.config.Owner && gone(owner) {
			dead[id] = true
		}
	}
	return dead
}

// delete deletes the streams of extents that have been dead for the grace period.
func (s *Streams) delete(ctx context.Context, dead map[uint64]bool) (deleted int, err error) {
	for id := range s.dead {
		if !dead[id] {
			delete(s.dead, id)
		}
	}
	now := time.Now()
	var errs []error
	for id := range dead {
		since, known := s.dead[id]
		if !known {
			since, s.dead[id] = now, now
		}
		if now.Sub(since) < s.config.Grace {
			continue
		}
		if later, err := s.ofLaterSession(ctx, id); err != nil || later {
			errs = append(errs, err)
			continue
		}
		if err := s.js.DeleteStream(ctx, streamName(id)); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
			errs = append(errs, fmt.Errorf("contentstream: delete the stream of extent %016x: %w", id, err))
			continue
		}
		delete(s.dead, id)
		s.forgetOne(id)
		deleted++
	}
	return deleted, errors.Join(errs...)
}

// ofLaterSession reports whether a later process with this one's number has created the stream of an extent: then this
// process has no part in it.
func (s *Streams) ofLaterSession(ctx context.Context, id uint64) (bool, error) {
	if extent.OwnerOf(id) != s.config.Owner {
		return false, nil // the owner is gone
	}
	stream, err := s.js.Stream(ctx, streamName(id))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("contentstream: read the configuration of the stream of extent %016x: %w", id, err)
	}
	session, err := strconv.ParseUint(stream.CachedInfo().Config.Metadata[sessionMetadata], 10, 64)
	if err != nil {
		return false, fmt.Errorf("contentstream: the stream of extent %016x was not created by Lazuli: %w", id, err)
	}
	return session > s.config.Session, nil
}

func (s *Streams) forgetOne(id uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.streams, id)
}
