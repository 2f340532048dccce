package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/lazyregexp"
	"github.com/lazuli-storage/lazuli/internal/storage/disk"
	"github.com/lazuli-storage/lazuli/internal/storage/diskspace"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/sumfile"
)

// Errors of the methods that handle snapshots.
var (
	// ErrSnapshotName means that the name is not valid.
	ErrSnapshotName = errors.New("a snapshot's name has 1 to 64 letters, digits, dashes and underscores")
	// ErrSnapshotExists means that another snapshot has the name.
	ErrSnapshotExists = errors.New("a snapshot with that name exists")
	// ErrSnapshotNotFound means that no snapshot has the name.
	ErrSnapshotNotFound = errors.New("no snapshot has that name")
	// ErrTemporary means that the folder's files have no names and cannot be copied.
	ErrTemporary = errors.New("a process with --in-memory has no files to copy; use a data folder, with --durability " +
		"relaxed for speed")
)

const (
	// SnapshotsFolder is the folder inside the data folder that holds its snapshots.
	SnapshotsFolder = "snapshots"
	// restoringFolder is the copy of a snapshot that replaces the folder's content. The copy gets this name when it is
	// complete.
	restoringFolder = "restoring"
	// SearchFolder is the folder inside the data folder that holds the indexes of the search-index role. They follow the
	// tables, and are not part of a snapshot.
	SearchFolder = "search-index"
	// ArchiveFolder is the folder inside the data folder with what waits for an archive of the log. It is about the files
	// as they are now, and not part of a snapshot.
	ArchiveFolder = "archive"
	// TierFolder is the folder inside the data folder with what is kept of content in an object store. It is a cache, and
	// not part of a snapshot.
	TierFolder = "tier"
	// partSuffix marks an incomplete copy.
	partSuffix = ".part"
)

var snapshotName = lazyregexp.New(`^[A-Za-z0-9_-]{1,64}$`)

// Snapshot is a copy of a data folder's content, inside the folder.
type Snapshot struct {
	Name string    `json:"name"`
	Time time.Time `json:"time"`
}

// own reports whether an entry is part of the folder itself and not of its content.
func own(name string) bool {
	return name == lockFile || name == ManifestFile+sumfile.PartSuffix || name == IssuerKeyFile ||
		name == HistoryFile || name == HistoryFile+sumfile.PartSuffix || strings.HasPrefix(name, HistoryFile+".damaged-") ||
		name == SnapshotsFolder || name == SearchFolder || name == ArchiveFolder || name == TierFolder ||
		name == DamagedFolder || name == diskspace.ReserveFile || name == store.MarksFile ||
		strings.HasPrefix(name, restoringFolder)
}

// Save copies the folder's content, which must not change meanwhile, to a snapshot. replace allows it to replace a
// snapshot of the same name. Errors: [ErrSnapshotName], [ErrSnapshotExists], [ErrTemporary].
//
// verify, if it is not nil, is called with the path of the copy, laid out as a data folder, before the copy gets its
// name. If verify fails, Save creates no snapshot and keeps an existing one.
func (d *Dir) Save(name string, replace bool, verify func(path string) error) error {
	path, err := d.snapshot(name)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(path); err == nil && !replace {
		return ErrSnapshotExists
	}
	part := path + partSuffix
	// A rest of an attempt that was killed.
	if err := os.RemoveAll(part); err != nil {
		return err
	}
	if err := copyContent(d.path, part); err != nil {
		return errors.Join(fmt.Errorf("save snapshot: %w", err), os.RemoveAll(part))
	}
	if verify != nil {
		// Checked before it has its name: a snapshot that cannot be restored must not replace one that can.
		if err := verify(part); err != nil {
			return errors.Join(fmt.Errorf("save snapshot: %w", err), os.RemoveAll(part))
		}
	}
	if err := sealCopy(part); err != nil {
		return errors.Join(fmt.Errorf("save snapshot: %w", err), os.RemoveAll(part))
	}
	// Between this and the rename the name has no snapshot, and the new one is whole beside it under its temporary name.
	if err := os.RemoveAll(path); err != nil {
		return err
	}
	if err := os.Rename(part, path); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(path))
}

// Restore replaces the folder's content, which must not be in use, by a snapshot. If the process is killed meanwhile,
// the folder has either the old content or the new. Errors: [ErrSnapshotName], [ErrSnapshotNotFound], [ErrTemporary].
//
// prepare, if it is not nil, is called with the path of a copy of the snapshot, laid out as a data folder, which then
// replaces the content. If prepare fails, Restore changes nothing.
func (d *Dir) Restore(name string, prepare func(path string) error) error {
	path, err := d.snapshot(name)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(path); err != nil {
		return ErrSnapshotNotFound
	}
	ready := filepath.Join(d.path, restoringFolder)
	part := ready + partSuffix
	if err := os.RemoveAll(part); err != nil {
		return err
	}
	if err := copyContent(path, part); err != nil {
		return errors.Join(fmt.Errorf("restore snapshot: %w", err), os.RemoveAll(part))
	}
	// The copy is read back: a disk that returns other bytes would become the data.
	if err := verifyCopy(part); err != nil {
		return errors.Join(fmt.Errorf("restore snapshot: %w", err), os.RemoveAll(part))
	}
	if prepare != nil {
		if err := prepare(part); err != nil {
			return errors.Join(fmt.Errorf("restore snapshot: %w", err), os.RemoveAll(part))
		}
	}
	if err := errors.Join(renew(part), sealCopy(part)); err != nil {
		return errors.Join(fmt.Errorf("restore snapshot: %w", err), os.RemoveAll(part))
	}
	// From here on the restore is decided: after a crash the next start finishes it. Before, nothing has changed.
	if err := os.Rename(part, ready); err != nil {
		return err
	}
	// Without the sync a power failure could undo the name after finishRestore has removed the old content.
	if err := syncFolder(d.path); err != nil {
		return err
	}
	if err := finishRestore(d.path); err != nil {
		return err
	}
	return d.begin(AnyShards, nil)
}

// verifyCopy compares a copy of a snapshot with its manifest.
func verifyCopy(path string) error {
	m, err := readManifest(path)
	if err == nil && m == nil {
		err = ErrManifest
	}
	if err != nil {
		return err
	}
	problems, err := m.verify(path)
	if err == nil && len(problems) > 0 {
		err = &ContentError{Path: path, Problems: problems}
	}
	return err
}

// sealCopy writes the manifest of a copy of a folder that was copied while nothing changed it. A file that the folder
// should hold must be there.
func sealCopy(path string) error {
	m, err := readManifest(path)
	if err == nil && m == nil {
		err = ErrManifest
	}
	if err != nil {
		return err
	}
	m.Open = true // a snapshot that was just prepared differs from what its manifest says
	problems, err := m.verify(path)
	if err != nil {
		return err
	}
	if len(problems) > 0 {
		return &ContentError{Path: path, Problems: problems}
	}
	if err := m.update(path, false); err != nil {
		return err
	}
	m.Open = false
	return m.write(path)
}

// finishRestore finishes restoring from a complete copy, and removes an incomplete one. Each step is idempotent.
func finishRestore(path string) error {
	ready := filepath.Join(path, restoringFolder)
	if err := os.RemoveAll(ready + partSuffix); err != nil {
		return err
	}
	fresh, err := os.ReadDir(ready)
	mark := ready + ".moving"
	if errors.Is(err, fs.ErrNotExist) {
		return os.RemoveAll(mark)
	}
	if err != nil {
		return err
	}
	// Remove first what the snapshot does not have: after the move, nothing distinguishes such entries from the
	// snapshot's.
	if _, err := os.Lstat(mark); errors.Is(err, fs.ErrNotExist) {
		if err := removeEntries(path, func(name string) bool { return !own(name) }); err != nil {
			return err
		}
		if err := os.WriteFile(mark, nil, 0o600); err != nil {
			return err
		}
		if err := syncFolder(path); err != nil {
			return err
		}
	}
	for _, e := range fresh {
		if err := os.Rename(filepath.Join(ready, e.Name()), filepath.Join(path, e.Name())); err != nil {
			return err
		}
	}
	if err := syncFolder(path); err != nil {
		return err
	}
	if err := os.Remove(ready); err != nil {
		return err
	}
	if err := os.Remove(mark); err != nil {
		return err
	}
	return syncFolder(path)
}

// Snapshots lists the folder's snapshots by name.
func (d *Dir) Snapshots() ([]Snapshot, error) {
	list := []Snapshot{}
	entries, err := os.ReadDir(filepath.Join(d.path, SnapshotsFolder))
	if errors.Is(err, fs.ErrNotExist) {
		return list, nil
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && snapshotName().MatchString(e.Name()) {
			list = append(list, Snapshot{Name: e.Name(), Time: info.ModTime()})
		}
	}
	return list, err
}

// RemoveSnapshot removes a snapshot. Errors: [ErrSnapshotName], [ErrSnapshotNotFound].
func (d *Dir) RemoveSnapshot(name string) error {
	path, err := d.snapshot(name)
	if err != nil {
		return err
	}
	part := path + partSuffix
	if err := os.Rename(path, part); errors.Is(err, fs.ErrNotExist) {
		return ErrSnapshotNotFound
	} else if err != nil {
		return err
	}
	return os.RemoveAll(part)
}

func (d *Dir) snapshot(name string) (string, error) {
	switch {
	case d.temp:
		return "", ErrTemporary
	case !snapshotName().MatchString(name):
		return "", ErrSnapshotName
	}
	return filepath.Join(d.path, SnapshotsFolder, name), nil
}

// copyContent copies the content of a data folder to a new folder, and makes it durable.
func copyContent(from, to string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	if err := disk.MkdirAll(to, 0o700); err != nil {
		return err
	}
	for _, e := range entries {
		if own(e.Name()) {
			continue
		}
		if err := copyTree(filepath.Join(from, e.Name()), filepath.Join(to, e.Name())); err != nil {
			return err
		}
	}
	return syncFolder(to)
}

// copyTree copies a file, or a folder with everything in it.
func copyTree(from, to string) error {
	var folders []string
	err := filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		switch {
		case e.IsDir():
			folders = append(folders, target)
			return disk.MkdirAll(target, 0o700)
		case e.Type().IsRegular():
			return disk.CopyFile(disk.OS, path, target)
		case e.Type()&fs.ModeSymlink != 0 && path != from: // at the top it is not Lazuli's
			return fmt.Errorf("%s is a symbolic link, which a snapshot cannot have", path)
		}
		return nil // sockets belong to a running process
	})
	for _, folder := range folders {
		err = errors.Join(err, syncFolder(folder))
	}
	return err
}

// removeEntries removes the folder's entries for which take returns true.
func removeEntries(path string, take func(name string) bool) error {
	entries, err := os.ReadDir(path)
	for _, e := range entries {
		if take(e.Name()) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(path, e.Name())))
		}
	}
	return err
}
