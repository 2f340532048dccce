package blobsvc

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/lazuli-storage/lazuli/internal/storage/extent"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// maxCompactRounds bounds CompactFolder: the first round moves, the second deletes what was moved away from.
const maxCompactRounds = 16

// CompactFolder gives back all the space that it can, in the state of a service that is stopped: it removes garbage and
// rewrites extents until nothing in them is dead. It moves at most bytesPerSecond; 0 is no bound. before and after are the sizes of
// the extents in bytes. It may be broken off at any time: what was done by then stays done.
func CompactFolder(ctx context.Context, path, extents string, bytesPerSecond int64) (before, after int64, err error) {
	db, err := store.Open(path, store.Options{Buckets: Buckets()})
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	s := &Service{db: db, now: time.Now, log: slog.Default(), cleaner: newCleaner()}
	content, err := extent.Open(extents, extent.Options{Grace: -1, Refs: s.allReferences})
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, content.Close()) }()
	s.extents = content
	before = content.Size()
	if err := s.tidy(ctx, s.now()); err != nil {
		return before, content.Size(), err
	}
	for range maxCompactRounds {
		done, err := s.CompactWith(ctx, extent.CompactOptions{MinLive: 1, BytesPerSecond: cmp.Or(bytesPerSecond, -1)})
		if err != nil {
			return before, content.Size(), err
		}
		if done.Deleted == 0 && done.Rewritten == 0 {
			break
		}
	}
	return before, content.Size(), nil
}
