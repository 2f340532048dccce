package server

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/lazuli-storage/lazuli/internal/server/backup"
	"github.com/lazuli-storage/lazuli/internal/storage/extent"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// momentShard is the state of one shard.
type momentShard struct {
	moment  *Moment
	of      *shard
	pins    map[string]*store.Pin
	release func() // of the content
}

// Info implements [backup.Source].
func (s *momentShard) Info() backup.Info { return s.moment.info }

// Close implements [backup.Source]: the moment ends for all shards together.
func (s *momentShard) Close() error { return nil }

// Database implements [backup.Source].
func (s *momentShard) Database(ctx context.Context, name string, emit func(part []byte) error) error {
	return s.pins[name].Parts(func(part []byte) error {
		return cmp.Or(ctx.Err(), context.Cause(s.moment.stop), emit(part))
	})
}

// Keys implements [backup.Source].
func (s *momentShard) Keys(context.Context) ([]byte, error) {
	text, err := os.ReadFile(s.of.EncryptionScopes())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return text, err
}

// Contents implements [backup.Source].
func (s *momentShard) Contents(ctx context.Context, held func(extent.Window) []extent.Range,
	emit func(extent.Content) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.moment.stop, cancel)()
	err := s.of.blobs.State.BackupContent(ctx, s.pins["blobs"], held, emit)
	if why := context.Cause(s.moment.stop); err != nil && why != nil {
		return why
	}
	return err
}

// shardedSource is a [backup.Sharded] without Close: its own methods give shard 0.
type shardedSource[S backup.Source] struct {
	info   backup.Info
	shards []S
}

// Info implements [backup.Source].
func (m *shardedSource[S]) Info() backup.Info { return m.info }

// Shard implements [backup.Sharded].
func (m *shardedSource[S]) Shard(number int) backup.Source { return m.shards[number] }

// Database implements [backup.Source].
func (m *shardedSource[S]) Database(ctx context.Context, name string, emit func(part []byte) error) error {
	return m.shards[0].Database(ctx, name, emit)
}

// Keys implements [backup.Source]. The file may have more keys than the moment.
func (m *shardedSource[S]) Keys(ctx context.Context) ([]byte, error) { return m.shards[0].Keys(ctx) }

// Contents implements [backup.Source].
func (m *shardedSource[S]) Contents(ctx context.Context, held func(extent.Window) []extent.Range,
	emit func(extent.Content) error) error {
	return m.shards[0].Contents(ctx, held, emit)
}
