package backup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/lazuli-storage/lazuli/internal/fault"
	blobstate "github.com/lazuli-storage/lazuli/internal/state/blob"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	queuestate "github.com/lazuli-storage/lazuli/internal/state/queue"
	tablestate "github.com/lazuli-storage/lazuli/internal/state/table"
	"github.com/lazuli-storage/lazuli/internal/storage/datadir"
	"github.com/lazuli-storage/lazuli/internal/storage/disk"
	"github.com/lazuli-storage/lazuli/internal/storage/extent"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// pointRestored is the moment at which tests kill a process that restores a backup.
var pointRestored = fault.Declare("backup/restored")

// Fill writes a source into a new data folder, that of a single server. now is the time at which positions in the logs
// of changes become unknown.
func Fill(ctx context.Context, d *datadir.Dir, s Source, now time.Time) error {
	for n := range d.Shards() {
		of, err := shardOf(s, n)
		if err == nil {
			err = fillShard(ctx, d.Shard(n), of, now)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// fillShard writes a shard of a source.
func fillShard(ctx context.Context, d datadir.Shard, s Source, now time.Time) error {
	for _, name := range Databases {
		path, buckets := files(d, name)
		err := store.Create(path, buckets, func(emit func([]byte) error) error { return s.Database(ctx, name, emit) })
		if err != nil {
			return err
		}
	}
	keys, err := s.Keys(ctx)
	if err == nil && keys != nil {
		// Synced, as all that a restore writes: the folder is complete when the command ends, whatever happens then.
		err = disk.WriteFile(d.Path(), datadir.ScopesFile, keys)
	}
	if err != nil {
		return err
	}
	if err := extent.Restore(d.Extents(), extent.Options{}, func(emit func(extent.Content) error) error {
		return s.Contents(ctx, func(extent.Window) []extent.Range { return nil }, emit)
	}); err != nil {
		return err
	}
	return errors.Join(tablestate.Fork(d.Tables(), now), blobstate.Adopt(d.Blobs(), d.Extents(), d.EncryptionScopes()))
}

// FillStandby is Fill for a standby: the content stays open for more, of which have gets the ranges, and nothing else
// is put in order. See [extent.Extend].
func FillStandby(ctx context.Context, d *datadir.Dir, s Source, have map[uint64][]extent.Range) error {
	for _, name := range Databases {
		path, buckets := files(d.Shard(0), name)
		if err := store.Create(path, buckets,
			func(emit func([]byte) error) error { return s.Database(ctx, name, emit) }); err != nil {
			return err
		}
	}
	keys, err := s.Keys(ctx)
	if err == nil && keys != nil {
		err = disk.WriteFile(d.Path(), datadir.ScopesFile, keys)
	}
	if err != nil {
		return err
	}
	return extent.Extend(d.Extents(), extent.Options{}, have,
		func(put func(uint64, int64, []byte) error) error {
			return s.Contents(ctx, func(extent.Window) []extent.Range { return nil },
				func(c extent.Content) error { return c.Put(put) })
		})
}

// OpenDatabase opens a database of a data folder for [store.DB.Apply]. It is durable when it was closed.
func OpenDatabase(d *datadir.Dir, name string) (*store.DB, error) {
	path, buckets := files(d.Shard(0), name)
	return store.Open(path, store.Options{Buckets: buckets, Relaxed: true})
}

// FinishStandby makes the data folder of a standby that of a single server. have are the ranges of its content, and now
// is the time at which positions in the logs of changes become unknown. It may be called again after a crash.
func FinishStandby(d *datadir.Dir, have map[uint64][]extent.Range, filled bool, note func() error,
	now time.Time) error {
	if !filled {
		if err := extent.FillCopies(d.Extents(), extent.Options{}, have); err != nil {
			return err
		}
		// From here on the folder has no copies whose gaps are known.
		if err := note(); err != nil {
			return err
		}
	}
	if err := extent.NameCopies(d.Extents(), disk.OS); err != nil {
		return err
	}
	return errors.Join(tablestate.Fork(d.Tables(), now), blobstate.Adopt(d.Blobs(), d.Extents(), d.EncryptionScopes()))
}

// files returns the path and the buckets of a database of a shard.
func files(d datadir.Shard, name string) (string, []store.Bucket) {
	switch name {
	case "tables":
		return d.Tables(), tablestate.Buckets()
	case "queues":
		return d.QueueState(), queuestate.Buckets()
	default:
		return d.Blobs(), record.Buckets()
	}
}

// RestoreOptions configure [Restore] and [Check].
type RestoreOptions struct {
	// Verify checks the folder that was made, as `lazuli fsck` does.
	Verify func(ctx context.Context, path string) error
	// Progress is called with the bytes that were read; nil is nothing.
	Progress func(read int64)
}

// Restore makes the data folder at path from a backup. The folder gets its name when everything was written and
// checked; path must not exist, or be an empty folder. Errors: ErrDamaged, fs.ErrExist, those of Verify and of the
// place.
func Restore(ctx context.Context, p Place, m *Manifest, path string, o RestoreOptions) error {
	return RestoreSource(ctx, Stored(p, m, o.Progress), path, o)
}

// RestoreSource is Restore of another source, whose progress is its own matter.
func RestoreSource(ctx context.Context, s Source, path string, o RestoreOptions) (err error) {
	if path, err = filepath.Abs(path); err != nil {
		return err
	}
	if err := vacant(path); err != nil {
		return err
	}
	part := path + disk.PartSuffix
	if err := os.RemoveAll(part); err != nil {
		return err
	}
	if err := fill(ctx, s, part, o); err != nil {
		return errors.Join(err, os.RemoveAll(part))
	}
	if err := fault.Point(pointRestored); err != nil {
		return err
	}
	// This removes an empty folder only. It fails if files have come there since vacant looked.
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Rename(part, path); err != nil {
		return err
	}
	return disk.SyncDir(filepath.Dir(path))
}

// Check restores a backup into a temporary folder, verifies it as Restore does, and removes it.
func Check(ctx context.Context, p Place, m *Manifest, o RestoreOptions) error {
	part, err := os.MkdirTemp("", "lazuli-backup-check-")
	if err != nil {
		return err
	}
	return errors.Join(fill(ctx, Stored(p, m, o.Progress), part, o), os.RemoveAll(part))
}

// fill makes and checks the data folder at path.
func fill(ctx context.Context, s Source, path string, o RestoreOptions) error {
	d, err := datadir.Create(path, s.Info().Map)
	if err != nil {
		return err
	}
	if err := errors.Join(Fill(ctx, d, s, time.Now()), d.Close()); err != nil {
		return err
	}
	return o.Verify(ctx, path)
}

// vacant returns fs.ErrExist unless there is nothing at path, or an empty folder.
func vacant(path string) error {
	entries, err := os.ReadDir(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case len(entries) > 0:
		return fmt.Errorf("%s has files: %w; restore into a new folder, and start the server with it when it is complete",
			path,
			fs.ErrExist)
	}
	return nil
}

// Stored returns a backup as a Source. progress is called with the bytes that were read; nil is nothing.
func Stored(p Place, m *Manifest, progress func(read int64)) Source {
	return &stored{place: p, list: m, progress: progress}
}

// stored is a backup as a Source.
type stored struct {
	place    Place
	list     *Manifest
	progress func(read int64)
	read     int64
}

var _ Sharded = (*stored)(nil)

// storedShard is a shard of a backup.
type storedShard struct {
	*stored
	part *Part
}

// Shard implements [Sharded].
func (s *stored) Shard(number int) Source { return storedShard{s, s.list.Shards[number-1]} }

func (s *stored) Info() Info { return s.list.Info }

func (s *stored) Close() error { return nil }

func (s *stored) Database(ctx context.Context, name string, emit func([]byte) error) error {
	return storedShard{s, &s.list.Part}.Database(ctx, name, emit)
}

func (s *stored) Keys(ctx context.Context) ([]byte, error) {
	return storedShard{s, &s.list.Part}.Keys(ctx)
}

func (s *stored) Contents(ctx context.Context, held func(extent.Window) []extent.Range,
	emit func(extent.Content) error) error {
	return storedShard{s, &s.list.Part}.Contents(ctx, held, emit)
}

func (s storedShard) Database(ctx context.Context, name string, emit func([]byte) error) error {
	for _, piece := range s.part.Databases[name] {
		content, err := s.get(ctx, piece)
		if err == nil {
			err = emit(content)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s storedShard) Keys(ctx context.Context) ([]byte, error) {
	if s.part.Keys == nil {
		return nil, nil
	}
	return s.get(ctx, *s.part.Keys)
}

func (s storedShard) Contents(ctx context.Context, _ func(extent.Window) []extent.Range,
	emit func(extent.Content) error) error {
	for _, c := range s.part.Contents {
		records, err := s.get(ctx, c.Piece)
		if err == nil {
			err = emit(extent.Content{Window: c.Window, Ranges: c.Ranges, Records: records})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// get reads a piece and compares it with its name.
func (s *stored) get(ctx context.Context, piece Piece) ([]byte, error) {
	content, err := s.place.Get(ctx, piece.name())
	if errors.Is(err, ErrAbsent) {
		return nil, fmt.Errorf("%w: %s: %s is missing", ErrDamaged, s.place, piece.name())
	}
	if err != nil {
		return nil, err
	}
	if sumOf(s.place, content) != piece.Sum {
		return nil, fmt.Errorf("%w: %s: %s is not what was written", ErrDamaged, s.place, piece.name())
	}
	if s.read += piece.Size; s.progress != nil {
		s.progress(s.read)
	}
	return content, nil
}
