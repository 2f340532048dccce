package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lazuli-storage/lazuli/internal/storage/disk"
	"github.com/lazuli-storage/lazuli/internal/storage/diskspace"
	"github.com/lazuli-storage/lazuli/internal/storage/shardmap"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// IssuerKeyFile is the name of the file that holds the key of the development issuer.
const IssuerKeyFile = "issuer-key.pem"

// HistoryFile is the name of the file with the figures that the dashboard shows. They are about the server and not a
// part of the content: snapshots lack them.
const HistoryFile = "dashboard.history"

// DamagedFolder is the name of the folder that holds the files that a repair replaced.
const DamagedFolder = "damaged"

// Dir is an open, locked data folder.
type Dir struct {
	path     string
	lock     *lock
	temp     bool
	manifest *manifest // nil for a folder that was only examined
	// examined is the map of a folder that was only examined; nil for one shard, and if it is not known.
	examined *shardmap.Map
	// written is when the manifest was written that was found; zero if there was none.
	written time.Time
	// crashed means that the process that had the folder open before was killed, and that the owners of the files have not
	// accepted all of them since.
	crashed bool
	close   sync.Once
	err     error
}

// Open locks the folder at path for this process, creating it and its parents (mode 0700) if absent. An existing
// folder keeps its permissions. Its files are compared with its manifest. A folder with more than one shard is refused:
// callers that know shards call [OpenShards].
//
// Errors: a [PathError], [ErrLocked], [ErrFormat], [ErrManifest], [ErrShards], a [ContentError], or an error of the
// operating system.
func Open(path string) (*Dir, error) { return OpenShards(path, 1) }

// AnyShards is, for [OpenShards], the number that the folder has, and one for a new folder.
const AnyShards = 0

// OpenShards is like [Open], for a folder with a number of shards, which a new folder gets for good.
func OpenShards(path string, shards int) (*Dir, error) { return openOrCreate(path, shards, nil) }

// Create is like [Open], for a new folder with a map, such as that of a backup; nil is one shard.
func Create(path string, m *shardmap.Map) (*Dir, error) {
	if m == nil {
		return Open(path)
	}
	return openOrCreate(path, m.Shards(), m)
}

func openOrCreate(path string, shards int, fresh *shardmap.Map) (*Dir, error) {
	path, err := clean(path)
	if err != nil {
		return nil, err
	}
	if err := disk.MkdirAll(path, 0o700); err != nil {
		return nil, &PathError{Path: path, Reason: "it cannot be created: " + cause(err)}
	}
	return open(path, shards, fresh)
}

// OpenExisting is like Open, but the folder must hold data already. It returns [ErrNotFound] if there is no data.
func OpenExisting(path string) (*Dir, error) {
	path, err := existing(path)
	if err != nil {
		return nil, err
	}
	return open(path, 1, nil)
}

// OpenExistingShards is like OpenExisting, for a folder with any number of shards.
func OpenExistingShards(path string) (*Dir, error) {
	path, err := existing(path)
	if err != nil {
		return nil, err
	}
	return open(path, AnyShards, nil)
}

// existing returns ErrNotFound unless a folder holds data.
func existing(path string) (string, error) {
	path, err := clean(path)
	if err != nil {
		return "", err
	}
	if !hasData(path) {
		return "", fmt.Errorf("%w at %s", ErrNotFound, path)
	}
	return path, nil
}

// hasData reports whether there is a manifest, or anything that one lists.
func hasData(path string) bool {
	for _, name := range []string{ManifestFile, buildFile, restoringFolder} {
		if _, err := os.Lstat(filepath.Join(path, name)); err == nil {
			return true
		}
	}
	_, err := readManifest(path)
	return err != nil
}

// noLinks refuses a folder in which what the process writes is elsewhere: the folder's lock and its manifest would not
// protect that, snapshots would lack it, and a link named LOCK or RESERVE would overwrite another file. The folder
// itself may be a link, and so may the folders of what is not data.
func noLinks(path string) error {
	for n := range shardFolders(path) {
		if err := noLinksIn(path, ShardOf(path, n).Path()); err != nil {
			return err
		}
	}
	return nil
}

// noLinksIn is noLinks for the folder of one shard.
func noLinksIn(path, shard string) error {
	entries, err := os.ReadDir(shard)
	if errors.Is(err, fs.ErrNotExist) && shard != path {
		return nil
	}
	if err != nil {
		return &PathError{Path: path, Reason: cause(err)}
	}
	for _, e := range entries {
		base := strings.TrimPrefix(e.Name(), "mark-")
		for _, beside := range []string{"-log", "-mark"} {
			base, _, _ = strings.Cut(base, beside)
		}
		if e.Type()&fs.ModeSymlink != 0 && slices.Contains(unlinked, base) {
			return &PathError{Path: path, Reason: e.Name() + " is a symbolic link, which a part of a data folder cannot be; " +
				"link or mount the whole folder"}
		}
	}
	return nil
}

// unlinked are the entries of a folder that cannot be links.
var unlinked = []string{lockFile, ManifestFile, tablesFile, blobsFile, queuesFile, extentsFolder, streamsFolder,
	clusterFolder, shardsFolder, ScopesFile, IssuerKeyFile, HistoryFile,
	diskspace.ReserveFile, store.MarksFile, restoringFolder}

func open(path string, shards int, fresh *shardmap.Map) (*Dir, error) {
	if err := noLinks(path); err != nil {
		return nil, err
	}
	l, err := acquire(filepath.Join(path, lockFile))
	if err != nil {
		return nil, err
	}
	d := &Dir{path: path, lock: l}
	if err := finishRestore(path); err != nil {
		return nil, errors.Join(fmt.Errorf("finish restoring a snapshot: %w", err), l.release())
	}
	if err := d.begin(shards, fresh); err != nil {
		return nil, errors.Join(err, l.release())
	}
	return d, nil
}

// begin reads the manifest, compares the files with it, and notes that they are in use. A folder without data gets a
// manifest with the map fresh, if that is not nil, and a folder for each of its shards but the first.
func (d *Dir) begin(shards int, fresh *shardmap.Map) error {
	m, err := readManifest(d.path)
	if errors.Is(err, ErrManifest) {
		return fmt.Errorf("%w; put it back, or have it made from the files that are there with `lazuli fsck --repair %s`",
			err, d.path)
	}
	if err != nil {
		return err
	}
	if m == nil {
		if m, err = newManifest(shards); err != nil {
			return err
		}
		if fresh != nil && fresh.Shards() > 1 {
			m.Map = fresh
		}
	}
	if have := m.shards(); shards != AnyShards && shards != have {
		return &ShardsError{Path: d.path, Have: have, Want: shards}
	}
	// Kept also if the check fails: callers compare it with the clock.
	d.written = m.Written
	problems, err := m.verify(d.path)
	if err != nil {
		return err
	}
	if len(problems) > 0 {
		return &ContentError{Path: d.path, Problems: problems}
	}
	// It was not closed, and its manifest says so already. Written again it would forget that the previous process
	// crashed.
	if m.Open && m.Number > 0 {
		d.manifest, d.crashed = m, true
		return makeShards(d.path, m.shards())
	}
	// On disk before any other file changes: from here on sizes may differ from the manifest without being damage.
	m.Open = true
	if err := m.write(d.path); err != nil {
		return err
	}
	d.manifest = m
	// After the manifest: folders of shards without one are those of a folder that has lost it.
	return makeShards(d.path, m.shards())
}

// Examine locks an existing folder and compares its files with its manifest, and changes nothing: the folder may be
// read-only. With repair, the caller may change files, must call [Dir.Accept] afterwards, and a snapshot that was being
// restored is restored first.
//
// Errors: a [PathError], [ErrNotFound], [ErrLocked], [ErrFormat], or an error of the operating system.
func Examine(path string, repair bool) (*Dir, []Problem, error) {
	path, err := existing(path)
	if err != nil {
		return nil, nil, err
	}
	if err := noLinks(path); err != nil {
		return nil, nil, err
	}
	l, err := acquire(filepath.Join(path, lockFile))
	// A folder on a read-only medium cannot be locked for writing; reading needs only that no writer comes.
	if !repair && errors.As(err, new(*PathError)) {
		l, err = acquireShared(filepath.Join(path, lockFile))
	}
	if err != nil {
		return nil, nil, err
	}
	d := &Dir{path: path, lock: l}
	var problems []Problem
	if repair {
		err = finishRestore(path)
		// Without repair nothing is changed, so a restore that was interrupted is only reported.
	} else if _, absent := os.Lstat(filepath.Join(path, restoringFolder)); absent == nil {
		problems = append(problems, Problem{File: restoringFolder,
			What: "is a snapshot whose restoring was interrupted; the next start finishes that", Lost: "nothing"})
	}
	m := (*manifest)(nil)
	if err == nil {
		m, err = readManifest(path)
	}
	switch {
	// The folder can still be examined, without knowing which files should exist: that is the problem that is reported.
	case errors.Is(err, ErrManifest):
		problems = append(problems, Problem{File: ManifestFile, What: "is missing or damaged",
			Lost: "whatever was in files that are not there"})
		// Accounts that were not in the shard of their slot were in the manifest alone.
		if n := shardFolders(path); n > 1 {
			if d.examined, err = shardmap.New(n); err != nil {
				return nil, nil, errors.Join(err, d.Close())
			}
		}
		return d, problems, nil
	case err != nil || m == nil:
		return nil, nil, errors.Join(err, d.Close())
	}
	d.written, d.examined = m.Written, m.Map
	found, err := m.verify(path)
	if err != nil {
		return nil, nil, errors.Join(err, d.Close())
	}
	return d, append(problems, found...), nil
}

// Accept makes the files that are there those that the folder must hold, after a repair.
func (d *Dir) Accept() error {
	m, err := readManifest(d.path)
	if errors.Is(err, ErrManifest) || m == nil && err == nil {
		m, err = newManifest(shardFolders(d.path))
	}
	if err != nil {
		return err
	}
	m.Open, m.Folder = true, newID()
	if err := errors.Join(m.update(d.path, true), m.write(d.path)); err != nil {
		return err
	}
	d.manifest = m
	return nil
}

// Record lists the files as they are, with those that were created since the folder was opened. It must be called when
// all files were opened, and before a change in one of them is acknowledged.
//
// The generation of each database has risen when it was opened. From here on, a copy of any earlier stop is older than
// what the manifest says, and is refused although it is complete in itself: after a kill such a copy, put back without
// the logs, would be served in place of everything that came after it.
func (d *Dir) Record() error {
	if d.temp {
		return nil
	}
	d.crashed = false
	if err := d.manifest.update(d.path, false); err != nil {
		return err
	}
	// After the files: a process that is killed in between leaves files that are newer than the manifest says, which a
	// folder in use may have.
	return d.manifest.write(d.path)
}

// Forget removes files from the list before they are removed from the folder. Names are paths in the folder.
func (d *Dir) Forget(names ...string) error {
	if d.temp {
		return nil
	}
	for _, name := range names {
		delete(d.manifest.Files, name)
		if name == streamsFolder {
			d.manifest.Streams = nil
		}
	}
	return d.manifest.write(d.path)
}

// seal lists what each file holds exactly, after they were closed.
func (d *Dir) seal() error {
	if err := d.manifest.update(d.path, false); err != nil {
		return err
	}
	d.manifest.Open = false
	for _, e := range d.manifest.Files {
		d.manifest.Open = d.manifest.Open || !e.Exact // the next start recovers it
	}
	err := d.manifest.write(d.path)
	if err == nil && !d.manifest.Open {
		// Each database has removed its other marks. What is left here counts for none of them, so it need not be durable.
		for n := range d.Shards() {
			if e := os.Remove(filepath.Join(d.Shard(n).Path(), store.MarksFile)); !errors.Is(e, fs.ErrNotExist) {
				err = errors.Join(err, e)
			}
		}
	}
	return err
}

// clean validates a path and makes it absolute.
func clean(path string) (string, error) {
	switch {
	case path == "":
		return "", &PathError{Path: `""`, Reason: "the path is empty"}
	case strings.ContainsRune(path, 0):
		return "", &PathError{Path: fmt.Sprintf("%q", path), Reason: "the path contains a NUL character"}
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", &PathError{Path: path, Reason: err.Error()}
	}
	if abs == filepath.Dir(abs) {
		return "", &PathError{Path: abs, Reason: "this is a root folder; choose one below it"}
	}
	st, err := os.Stat(abs)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, err := os.Lstat(abs); err == nil {
			return "", &PathError{Path: abs, Reason: "this is a symbolic link to nothing"}
		}
	case err != nil:
		return "", &PathError{Path: abs, Reason: cause(err)}
	case !st.IsDir():
		return "", &PathError{Path: abs, Reason: "this is a file, not a folder"}
	}
	return abs, nil
}

// cause returns the operating system's error text, without the path.
func cause(err error) string {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err.Error()
	}
	return err.Error()
}

// Shards is the number of shards of the folder. In [Examine] it is what the manifest says, and 1 if that is not known.
func (d *Dir) Shards() int {
	switch {
	case d.manifest != nil:
		return d.manifest.shards()
	case d.examined != nil:
		return d.examined.Shards()
	}
	return 1
}

// Map says which account is in which shard; nil for one shard.
func (d *Dir) Map() *shardmap.Map {
	if d.manifest == nil {
		return d.examined
	}
	return d.manifest.Map
}

// Shard returns a shard of the folder.
func (d *Dir) Shard(number int) Shard { return ShardOf(d.path, number) }

// Path is the folder's absolute path.
func (d *Dir) Path() string { return d.path }

// Temporary reports whether the folder disappears with the process.
func (d *Dir) Temporary() bool { return d.temp }

// Tables is the path of the Table service's file of shard 0.
func (d *Dir) Tables() string { return d.Shard(0).Tables() }

// Blobs is the path of the Blob service's metadata file of shard 0.
func (d *Dir) Blobs() string { return d.Shard(0).Blobs() }

// Extents is the path of the folder with blob content of shard 0.
func (d *Dir) Extents() string { return d.Shard(0).Extents() }

// Archive is the path of the folder with what waits for an archive of the log.
func (d *Dir) Archive() string { return filepath.Join(d.path, ArchiveFolder) }

// Tier returns the folder of what is kept of content in an object store.
func (d *Dir) Tier() string { return filepath.Join(d.path, TierFolder) }

// EncryptionScopes is the path of the file with the keys of the Blob service's encryption scopes of shard 0.
func (d *Dir) EncryptionScopes() string { return d.Shard(0).EncryptionScopes() }

// QueueState is the path of the Queue service's file of shard 0.
func (d *Dir) QueueState() string { return d.Shard(0).QueueState() }

// Queues is the path of the folder with the streams that are the logs of the Queue service's files, one of each shard.
func (d *Dir) Queues() string { return filepath.Join(d.path, "queues") }

// Cluster is the path of the folder with the identity and the streams of a node of a cluster.
func (d *Dir) Cluster() string { return filepath.Join(d.path, clusterFolder) }

// Damaged is the path of the folder that holds the files that a repair replaced.
func (d *Dir) Damaged() string { return filepath.Join(d.path, DamagedFolder) }

// Close notes what each file holds, and releases the folder, after all files in it were closed. It notes nothing if a
// process was killed before and Record was not called since: a file may be damaged, and would count as intact. It
// removes a temporary folder. A second call does nothing.
func (d *Dir) Close() error {
	d.close.Do(func() {
		if d.manifest != nil && !d.temp && !d.crashed {
			d.err = d.seal()
		}
		if d.temp {
			// Remove the content while the lock is held: no other process may find the folder half removed and unlocked. Windows
			// cannot remove an open file, so the lock file is removed after it is closed.
			d.err = removeEntries(d.path, notLock)
		}
		d.err = errors.Join(d.err, d.lock.release())
		if d.temp {
			d.err = errors.Join(d.err, os.RemoveAll(d.path))
		}
	})
	return d.err
}
