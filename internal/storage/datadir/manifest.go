package datadir

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/lazuli-storage/lazuli/internal/storage/disk"
	"github.com/lazuli-storage/lazuli/internal/storage/shardmap"
	"github.com/lazuli-storage/lazuli/internal/storage/sumfile"
)

// Format is the version of the layout, and of all files in the folder.
const Format = 1

// formatShards is the version of the manifest of a folder with more than one shard: a release that knows no shards must
// not open it, since it would serve the accounts of shard 0 and take the others for empty.
const formatShards = 2

// ManifestFile is the name of the file that lists what the folder must contain.
const ManifestFile = "MANIFEST"

const (
	// manifestKind begins the manifest.
	manifestKind = "lazuli data folder, format"
	// buildFile was in the folders of development builds, which had no manifest.
	buildFile = "FORMAT"
)

// manifest lists the files that hold data. It is replaced as a whole, durably: when the folder is opened, when a file
// was created, and when the folder is closed.
type manifest struct {
	// Folder is the identity of the folder, and Number the number of this version of the manifest.
	Folder string `json:"folder"`
	Number uint64 `json:"number"`
	// Open means that a process has had the folder open: files may hold more than the manifest says, and there may be
	// others.
	Open bool `json:"open"`
	// Written is the time of the system's clock at which this version was written.
	Written time.Time `json:"written,omitzero"`
	// Files are the files by their paths.
	Files map[string]entry `json:"files"`
	// Streams are the sizes that the files of JetStream had when the folder was closed, by their paths. Each of their
	// records has a checksum.
	Streams map[string]int64 `json:"streams,omitempty"`
	// Map says which account is in which shard; nil for one shard.
	Map *shardmap.Map `json:"map,omitempty"`
}

// shards is the number of shards.
func (m *manifest) shards() int {
	if m.Map == nil {
		return 1
	}
	return m.Map.Shards()
}

// entry holds what the manifest says about a file.
type entry struct {
	// ID is the identity that the file has in itself; "" for a file without one.
	ID string `json:"id,omitempty"`
	// View means that other files, or other nodes, can make it again.
	View bool `json:"view,omitempty"`
	// Generation rises while the file is in use: a file of a lower one is older.
	Generation uint64 `json:"generation,omitempty"`
	// Exact means that nothing had the file open: it has exactly this size and checksum. Otherwise it may have changed
	// since.
	Exact bool   `json:"exact"`
	Size  int64  `json:"size"`
	Sum   uint32 `json:"sum"`
}

// readManifest reads the manifest of a folder. It returns nil for a folder without data.
//
// Errors: ErrFormat, ErrManifest, or an error of the operating system.
func readManifest(path string) (*manifest, error) {
	m := &manifest{}
	err := sumfile.Read(filepath.Join(path, ManifestFile), manifestKind, formatShards, m)
	switch {
	case err == nil && m.Files != nil:
		return m, nil
	case err == nil, errors.Is(err, sumfile.ErrDamaged):
		return nil, fmt.Errorf("%w: %v", ErrManifest, err)
	case errors.Is(err, sumfile.ErrVersion):
		return nil, fmt.Errorf("%w: %s: %v; use the newer release, or choose another folder with --location; to go back to "+
			"this release, restore the backup that was made before the upgrade: lazuli restore PLACE FOLDER",
			ErrFormat, path, err)
	case !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("read the data folder's manifest: %w", err)
	}
	if _, err := os.Lstat(filepath.Join(path, buildFile)); err == nil {
		return nil, fmt.Errorf("%w: %s was written by a development build before the first release; choose another folder "+
			"with --location", ErrFormat, path)
	}
	// Any part of a folder's content, the streams of the queues too, says that there was a manifest: it is written first.
	for _, name := range contents() {
		if exists(filepath.Join(path, name)) {
			return nil, fmt.Errorf("%w: it is missing, and there is %s", ErrManifest, name)
		}
	}
	return nil, nil
}

// write replaces the manifest of a folder, durably.
func (m *manifest) write(path string) error {
	m.Number++
	m.Written = time.Now().UTC().Truncate(time.Second)
	format := Format
	if m.shards() > 1 {
		format = formatShards
	}
	if err := sumfile.Write(disk.OS, filepath.Join(path, ManifestFile), manifestKind, format, m); err != nil {
		return fmt.Errorf("write the data folder's manifest: %w", err)
	}
	return nil
}

// newManifest returns the manifest of a new folder with a number of shards; [AnyShards] is one.
func newManifest(shards int) (*manifest, error) {
	m := &manifest{Folder: newID(), Open: true, Files: map[string]entry{}}
	if shards == AnyShards || shards == 1 {
		return m, nil
	}
	var err error
	m.Map, err = shardmap.New(shards)
	return m, err
}

func newID() string {
	id := make([]byte, 16)
	_, _ = rand.Read(id) // never fails
	return hex.EncodeToString(id)
}

// renew gives a folder a new identity: what it holds goes on from a former state, so that a name of a file or extent
// may mean another content than it meant before.
func renew(path string) error {
	m, err := readManifest(path)
	if err != nil || m == nil {
		return err
	}
	m.Folder = newID()
	return m.write(path)
}

// ID returns the identity of the folder's history: while it is the same, a finished or growing file keeps the bytes
// that it had. "" for a temporary folder.
func (d *Dir) ID() string {
	if d.temp || d.manifest == nil {
		return ""
	}
	return d.manifest.Folder
}

// syncFolder makes the folder's entries durable.
func syncFolder(path string) error {
	if err := disk.SyncDir(path); err != nil {
		return fmt.Errorf("data folder: %w", err)
	}
	return nil
}
