package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/storage/disk"
	"github.com/lazuli-storage/lazuli/internal/storage/shardmap"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// ScopesFile is the name of the file that holds the keys of the Blob service's encryption scopes.
const ScopesFile = "encryption-scopes.json"

// The names of what a shard has in its folder.
const (
	tablesFile    = "tables.db"
	blobsFile     = "blobs.db"
	queuesFile    = "queues.db"
	extentsFolder = "extents"
)

// shardsFolder has a folder for each shard but shard 0, whose files are in the data folder itself.
const shardsFolder = "shards"

// Shard is a part of a data folder: the files of one set of the services. Shard 0 lies where a folder without shards
// has its files, so that one shard is the same as none.
type Shard struct {
	root string
	// Number is the number of the shard, from 0.
	Number int
}

// ShardOf returns a shard of the folder at a path, which need not be open.
func ShardOf(path string, number int) Shard { return Shard{path, number} }

// name is the path of a shard in its folder, "" for shard 0.
func (s Shard) name() string {
	if s.Number == 0 {
		return ""
	}
	return fmt.Sprintf("%s/%02d", shardsFolder, s.Number)
}

// Name returns the path in the data folder of a file of the shard: "shards/01/tables.db" of "tables.db".
func (s Shard) Name(file string) string {
	if s.Number == 0 {
		return file
	}
	return s.name() + "/" + file
}

// Path is the folder with the shard's files.
func (s Shard) Path() string { return filepath.Join(s.root, filepath.FromSlash(s.name())) }

// Tables is the path of the Table service's file.
func (s Shard) Tables() string { return filepath.Join(s.Path(), tablesFile) }

// Blobs is the path of the Blob service's metadata file.
func (s Shard) Blobs() string { return filepath.Join(s.Path(), blobsFile) }

// Extents is the path of the folder with blob content.
func (s Shard) Extents() string { return filepath.Join(s.Path(), extentsFolder) }

// QueueState is the path of the Queue service's file.
func (s Shard) QueueState() string { return filepath.Join(s.Path(), queuesFile) }

// EncryptionScopes is the path of the file with the keys of the Blob service's encryption scopes.
func (s Shard) EncryptionScopes() string { return filepath.Join(s.Path(), ScopesFile) }

// Log is the name of the log of a database of the shard, which is "tables", "queues" or "blobs": it names a stream.
func (s Shard) Log(database string) string {
	if s.Number == 0 {
		return database
	}
	return fmt.Sprintf("%s-s%02d", database, s.Number)
}

// files returns the paths of what the shard has.
func (s Shard) files() (paths []string, err error) {
	if s.Number > 0 {
		list, err := os.ReadDir(s.Path())
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		for _, e := range list {
			paths = append(paths, filepath.Join(s.Path(), e.Name()))
		}
		return paths, err
	}
	// Shard 0 lies in the data folder itself, with what is not its own. Databases have files with longer names beside
	// them, such as those that were set aside.
	for _, name := range []string{tablesFile + "*", blobsFile + "*", queuesFile + "*", extentsFolder, ScopesFile,
		store.MarksFile} {
		list, err := filepath.Glob(filepath.Join(s.Path(), name))
		if err != nil {
			return nil, err
		}
		paths = append(paths, list...)
	}
	return paths, nil
}

// Empty reports whether the shard has no files.
func (s Shard) Empty() (bool, error) {
	paths, err := s.files()
	return len(paths) == 0, err
}

// pointForgotten is behind the list of files, before the files are removed.
var pointForgotten = fault.Declare("datadir/shard-forgotten")

// RemoveShard removes the files of a shard durably. Its services must be closed. After a crash it is called again.
func (d *Dir) RemoveShard(number int) error {
	of := d.Shard(number)
	paths, err := of.files()
	if err != nil || len(paths) == 0 {
		return err
	}
	var names []string
	for _, part := range []string{tablesFile, blobsFile, queuesFile, extentsFile, ScopesFile} {
		names = append(names, of.Name(part))
	}
	// The list first: a file that it has and that is missing would be a loss.
	if err := d.Forget(names...); err != nil {
		return err
	}
	if err := fault.Point(pointForgotten); err != nil {
		return err
	}
	for _, path := range paths {
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("data folder: %w", err)
		}
	}
	return disk.SyncDir(of.Path())
}

// exists reports whether there is anything at a path.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// makeShards creates the folders of shards that do not exist, durably.
func makeShards(path string, shards int) error {
	for n := 1; n < shards; n++ {
		if err := disk.MkdirAll(ShardOf(path, n).Path(), 0o700); err != nil {
			return fmt.Errorf("data folder: %w", err)
		}
	}
	return nil
}

// shardFolders returns the number of shards by the folders that are there, as after a loss of the manifest.
func shardFolders(path string) int {
	shards := 1
	if !exists(filepath.Join(path, shardsFolder)) {
		return shards
	}
	for n := 1; n < shardmap.Max; n++ {
		if exists(ShardOf(path, n).Path()) {
			shards = n + 1
		}
	}
	return shards
}

// ErrShards is the error for a folder with another number of shards than was asked for. It is a [ShardsError].
var ErrShards = errors.New("data folder has another number of shards")

// ShardsError reports a folder with another number of shards than was asked for.
type ShardsError struct {
	Path       string
	Have, Want int
}

// Error says what works.
func (e *ShardsError) Error() string {
	if e.Want == 1 {
		return fmt.Sprintf("data folder %s has %d shards: give --shards %[2]d to a server; other commands that use one "+
			"folder as a whole need a folder with one shard", e.Path, e.Have)
	}
	return fmt.Sprintf("data folder %s has %d shards, not %d: the number is fixed when the folder is made; use --shards "+
		"%[2]d, or a new folder", e.Path, e.Have, e.Want)
}

// Unwrap returns [ErrShards].
func (e *ShardsError) Unwrap() error { return ErrShards }
