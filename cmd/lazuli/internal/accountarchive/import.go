package accountarchive

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"

	"github.com/lazuli-storage/lazuli/internal/storage/disk"
)

// Result holds what an import did.
type Result struct {
	Items int
	// Expired messages are not put.
	Expired int
	// LostVersions are previous versions that the target does not keep, as it has no versioning.
	LostVersions int
	// LostAccess are access control lists that the target does not keep, as it has no hierarchical namespace.
	LostAccess int
	// Missing are items that the export could not read.
	Missing int
}

type importer struct {
	Options
	account  Account
	dir      string
	manifest *Manifest
	journal  journal
	result   Result
	bytes    int64 // of the segments that are done
	total    int64
	// unversioned is set once the target answered a write without a version.
	unversioned bool
	// tree says whether the target has a hierarchical namespace, once that is known.
	tree *bool
}

// ImportOptions say how an archive is imported.
type ImportOptions struct {
	Options
	Selection
	// Overwrite writes into tables, queues and containers that exist; otherwise that is an error before anything is
	// written to them.
	Overwrite bool
}

// Verify checks every file of an archive. It fails with ErrArchive.
func Verify(dir string) (*Manifest, error) {
	m, err := loadWhole(dir)
	if err != nil {
		return nil, err
	}
	for _, r := range m.Resources {
		for _, s := range r.Segments {
			if err := verify(dir, s); err != nil {
				return nil, err
			}
		}
	}
	return m, nil
}

// loadWhole reads the manifest of a finished archive: of an unfinished one an import could not tell what is missing.
func loadWhole(dir string) (*Manifest, error) {
	m, err := load(dir, true)
	if !errors.Is(err, fs.ErrNotExist) {
		return m, err
	}
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no folder %s", dir)
	}
	return nil, invalid("lazuli export did not write %s: it has no %s", dir, manifestName)
}

// Import writes an archive, or what is selected of it, to an account. Each segment is checked before anything of it is
// written. An import that was interrupted continues behind the last whole segment if it is run again.
func Import(ctx context.Context, a Account, dir string, o ImportOptions) (Result, error) {
	o.defaults()
	if err := o.Check(); err != nil {
		return Result{}, err
	}
	m, err := loadWhole(dir)
	if err != nil {
		return Result{}, err
	}
	i := &importer{Options: o.Options, account: a, dir: dir, manifest: m}
	// The journal belongs to archive and target: with another account, what it says was done was not.
	if err := i.journal.open(dir, a.Address); err != nil {
		return Result{}, err
	}
	for _, r := range m.Resources {
		if o.has(r.Kind, r.Name) {
			_, bytes := r.total()
			i.total += bytes
		}
	}
	for _, r := range m.Resources {
		if !o.has(r.Kind, r.Name) {
			continue
		}
		i.result.Missing += len(r.Missing)
		if err := i.resource(ctx, r, o.Overwrite); err != nil {
			return i.result, fmt.Errorf("%s %s: %w", r.Kind, r.Name, err)
		}
	}
	return i.result, i.journal.remove()
}

// resource makes a table, queue or container and writes its segments.
func (i *importer) resource(ctx context.Context, r *Resource, overwrite bool) error {
	create, segment, err := i.steps(r)
	if err != nil {
		return err
	}
	key := r.Kind + "/" + r.Name
	// Begun once. The second time the resource exists by this import, and must not be refused as existing.
	if !i.journal.Begun[key] {
		if err := i.begin(ctx, r, create, overwrite); err != nil {
			return err
		}
	}
	for n, s := range r.Segments {
		if i.bytes += s.Bytes; n < i.journal.Done[key] {
			continue
		}
		// The whole segment is read before its first item is written, so damage does not come into an account in part.
		if err := verify(i.dir, s); err != nil {
			return err
		}
		before := i.result.Items
		if err := segment(ctx, r, s); err != nil {
			return err
		}
		// After the segment. If the process dies in between, the segment is written again, which its items allow.
		if err := i.journal.done(key, n+1); err != nil {
			return err
		}
		i.Bytes(i.bytes, i.total)
		i.Progress(fmt.Sprintf("%s: %s of %s", key, counted(i.result.Items-before), s.File))
	}
	return nil
}

// creation bounds the time of a request that an interruption waits for.
const creation = time.Minute

// begin makes a resource and notes that in the journal. An interruption does not come between the two: the next run
// would take the resource for another program's.
func (i *importer) begin(ctx context.Context, r *Resource, create createFunc, overwrite bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ctx, cancel := lasting(ctx)
	defer cancel()
	if err := create(ctx, r); exists(err) {
		if !overwrite {
			return errors.New("it exists in the account; --overwrite writes into it")
		}
	} else if err != nil {
		return err
	}
	return i.journal.begin(r.Kind + "/" + r.Name)
}

type (
	createFunc  func(context.Context, *Resource) error
	segmentFunc func(context.Context, *Resource, Segment) error
)

// steps describe how to make a resource of that kind, and how to write a segment of it.
func (i *importer) steps(r *Resource) (createFunc, segmentFunc, error) {
	switch {
	case r.Kind == KindTable && i.account.Tables != nil:
		return i.createTable, i.tableSegment, nil
	case r.Kind == KindQueue && i.account.Queues != nil:
		return i.createQueue, i.queueSegment, nil
	case r.Kind == KindContainer && i.account.Blobs != nil:
		return i.createContainer, i.containerSegment, nil
	}
	return nil, nil, errors.New("the connection string has no endpoint of its service")
}

func exists(err error) bool {
	var r *azcore.ResponseError
	if !errors.As(err, &r) {
		return false
	}
	return slices.Contains([]string{"TableAlreadyExists", "QueueAlreadyExists", "ContainerAlreadyExists"}, r.ErrorCode)
}

// journal holds what an import has done, in a file beside the manifest.
type journal struct {
	path string
	// Target is the address of the account.
	Target string `json:"target"`
	// Begun are the resources that the import has made, or was allowed to write into; Done the number of their segments
	// that are written.
	Begun map[string]bool `json:"begun"`
	Done  map[string]int  `json:"done"`
}

// open reads the journal of a former import to that target.
func (j *journal) open(dir, target string) error {
	sum := sha256.Sum256([]byte(target))
	*j = journal{path: filepath.Join(dir, "import-"+hex.EncodeToString(sum[:4])+".json"), Target: target,
		Begun: map[string]bool{}, Done: map[string]int{}}
	data, err := disk.ReadFile(filepath.Dir(j.path), filepath.Base(j.path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	read := journal{path: j.path}
	if err := json.Unmarshal(data, &read); err != nil {
		return invalid("%s: %w", j.path, err)
	}
	if read.Target == target && read.Begun != nil && read.Done != nil {
		*j = read
	}
	return nil
}

func (j *journal) begin(key string) error {
	j.Begun[key] = true
	return j.save()
}

func (j *journal) done(key string, n int) error {
	j.Done[key] = n
	return j.save()
}

func (j *journal) save() error {
	data, err := json.Marshal(j)
	if err != nil {
		return err
	}
	return disk.WriteFile(filepath.Dir(j.path), filepath.Base(j.path), data)
}

// remove ends the journal: another import starts from the beginning. It must not come back after a power failure: that
// import would leave out what this one has written, and what was deleted since.
func (j *journal) remove() error {
	if err := os.Remove(j.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return disk.SyncDir(filepath.Dir(j.path))
}

// remaining is the time until t, rounded up to whole seconds.
func remaining(t, now time.Time) int64 { return int64((t.Sub(now) + time.Second - 1) / time.Second) }
