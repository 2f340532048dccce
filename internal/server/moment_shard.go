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
		return cmp.Or(ctx.Err(), s.moment.stop.Err(), emit(part))
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
	return s.of.blobs.State.BackupContent(ctx, s.pins["blobs"], held, emit)
}
