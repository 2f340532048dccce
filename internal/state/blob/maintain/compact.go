package maintain

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/state/blob/replica"
	"github.com/lazuli-storage/lazuli/internal/storage/extent"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/tier"
)

const (
	// compactFreed is the content in bytes that must have been freed for a compaction ahead of time, unless the disk is
	// full; compactSoon is the shortest pause between two.
	compactFreed = 64 << 20
	compactSoon  = 30 * time.Second
	// compactEvery is the interval of compactions if content was freed or written: uploads that were interrupted or
	// refused leave bytes behind.
	compactEvery = 10 * time.Minute
	// compactAgain is the time until the second check of extents without references: they are removed at the second check.
	compactAgain = 70 * time.Second
)

// schedule is the time of the next compaction.
type schedule struct {
	last, next time.Time
	size       int64 // of the extents in bytes, at the last compaction
	releases   int64 // of copies of other nodes' extents, by then
	worker     bool  // this node was the worker of the cluster
}

// CompactDue compacts extents if it is worth it now. full says that writes are refused because the disk is full, and
// worker that this node is the worker of the cluster: it also rewrites the extents of nodes that are gone. One
// goroutine calls it, now and then.
func (s *Maintenance) CompactDue(ctx context.Context, now time.Time, full, worker bool) error {
	t := &s.compaction
	if t.last.IsZero() {
		*t = schedule{last: now, next: now.Add(compactEvery), size: s.node.Extents.Size()}
	}
	if worker && !t.worker && s.node.Replicated() {
		s.node.Freed.Add(1) // the worker before may have left extents of nodes that are gone
	}
	t.worker = worker
	ahead := (s.node.Freed.Load() >= compactFreed || full && s.node.Freed.Load() > 0) && now.Sub(t.last) >= compactSoon
	due := now.After(t.next) && (s.node.Freed.Load() > 0 || s.node.Extents.Size() != t.size ||
		s.node.Extents.Releases() != t.releases)
	if !ahead && !due {
		return nil
	}
	t.last = now
	t.next = now.Add(compactEvery)
	// Before the work: what is freed while it runs counts for the next time.
	s.node.Freed.Store(0)
	t.releases = s.node.Extents.Releases()
	var o extent.CompactOptions
	if worker {
		// Each host has these extents, and one is enough to rewrite them. Two that take themselves for the worker do no
		// harm: of two moves of a reference, the second one finds it changed.
		o.Adopt = s.node.Gone
	}
	done, err := s.Compact(ctx, o)
	if done.Rewritten > 0 || done.Waiting > 0 || done.LiveBytes < done.LookedAtSize/2 {
		s.node.Freed.Add(1)
		t.next = now.Add(compactAgain)
	}
	t.size = s.node.Extents.Size()
	return err
}

// maxCompactRounds bounds CompactFolder: the first round moves content, the second deletes the extents that it was
// moved away from.
const maxCompactRounds = 16

// CompactFolder gives back all the space that it can, in the state of a service that is stopped: it removes garbage and
// rewrites extents until they have no unreferenced content. It moves at most bytesPerSecond; 0 means no limit. before
// and after are the sizes of the extents in bytes, those in the tier included. away has content that is not in the
// folder any more; with nil all is. ctx can stop it at any time; completed work is kept. progress, if it is not nil,
// receives the bytes that were moved and those to move.
func CompactFolder(ctx context.Context, path, extents string, away *tier.Options, bytesPerSecond int64,
	progress func(moved, total int64)) (before, after int64, err error) {
	node, err := replica.Open(replica.Config{Path: path, Extents: extents, Grace: -1, Tier: away})
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, node.Close()) }()
	s := New(node, nil)
	files := node.Extents
	before = files.Size()
	if err := s.Tidy(ctx, time.Now()); err != nil {
		return before, files.Size(), err
	}
	o := extent.CompactOptions{MinLive: 1, BytesPerSecond: cmp.Or(bytesPerSecond, -1)}
	var moved int64 // in the rounds before
	if progress != nil {
		o.Progress = func(now, total int64) { progress(moved+now, moved+total) }
	}
	for range maxCompactRounds {
		done, err := s.Compact(ctx, o)
		moved += done.Moved
		if err != nil {
			return before, files.Size(), err
		}
		if done.Deleted == 0 && done.Rewritten == 0 {
			break
		}
	}
	return before, files.Size(), nil
}

// Compact gives space back: it removes extents without references, and moves the rest of those with few references. It
// may run beside requests.
func (s *Maintenance) Compact(ctx context.Context, o extent.CompactOptions) (extent.Compacted, error) {
	done, err := s.node.Extents.Compact(ctx, extent.Owner{Refs: s.node.References, Move: s.move}, o)
	s.compactions.Add(1)
	s.freed.Add(done.Freed)
	s.moved.Add(done.Moved)
	return done, err
}

// move makes records refer to the new places of content. A record that changed since then is left alone.
func (s *Maintenance) move(_ context.Context, moves []extent.Move) error {
	return s.node.DB.Update(func(tx *store.Tx) error {
		for _, m := range moves {
			if len(m.Key) == 0 {
				return record.ErrKey
			}
			if err := record.MoveAt(tx, m.Key[0], m.Key[1:], m.From, m.To); err != nil {
				return err
			}
		}
		return nil
	})
}
