// Package tier keeps the finished extents of a folder in an object store, and a bounded part of them on this machine.
//
//	extent ──> finished ──> object, created once ──> read back, compared ──> manifest: sum ──> file may go
//
//	FOLDER/EXTENT               the extent, whole
//	FOLDER/owner/GENERATION     which process writes here, see claim.go
//
// FOLDER is the identity of the folder of extents. Objects are never changed.
//
// The nodes of a cluster share the objects of a shard, see [Shared]: the node that writes an extent copies it, and
// removes its object. FOLDER is the identity of the shard then, and each node has generations of its own:
//
//	FOLDER/place                   the store is that of the shard
//	FOLDER/owner-NUMBER/GENERATION
//
// # What is on this machine
//
// The files of extents that are in the store as well, and chunks of 1 MiB of others, are a cache: the one that was used
// longest ago goes when content on this machine exceeds its bound. Extents that are being written, or wait for the
// store, stay, also beyond the bound.
//
// # Damage
//
// Package extent compares the checksum of each record before it is served. Bytes that are wrong are fetched once more:
// a chunk on this machine may have changed, which does no harm.
//
// # Removal
//
// An object is removed once no extent has had its id for [Options.Keep]: extents that became dead, and copies that a
// killed process left. Sweep lists the store to find them, so that it does not matter at which step a process died; and
// a copy of the data folder that is younger than Keep finds its content.
package tier

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/storage/disk"
	"github.com/lazuli-storage/lazuli/internal/storage/extent"
)

// Objects is an object store. Names have slashes.
type Objects interface {
	// Create creates an object of size bytes, durably and as a whole. If it exists, it stays, and the error is ErrExists.
	Create(ctx context.Context, name string, content io.ReaderAt, size int64) error
	// Range fills p with the bytes of an object from an offset on. Errors: ErrAbsent, io.ErrUnexpectedEOF.
	Range(ctx context.Context, name string, off int64, p []byte) error
	// List calls fn with the names that begin with prefix, which ends with a slash.
	List(ctx context.Context, prefix string, fn func(name string, size int64) error) error
	// Remove removes an object, which need not exist.
	Remove(ctx context.Context, name string) error
	// String names the store without secrets.
	String() string
}

// Errors of [Objects].
var (
	// ErrExists means that an object that was to be created exists.
	ErrExists = errors.New("the object exists")
	// ErrAbsent means that an object does not exist.
	ErrAbsent = errors.New("the object does not exist")
)

// The moments at which tests kill a process.
var (
	pointCreated  = fault.Declare("tier/created")
	pointCompared = fault.Declare("tier/compared")
	pointRecorded = fault.Declare("tier/recorded")
	pointDropped  = fault.Declare("tier/dropped")
	pointSwept    = fault.Declare("tier/swept")
)

// ChunkSize is the size in bytes of the parts of extents that are kept on this machine.
const ChunkSize = 1 << 20

const (
	// readAhead is the number of chunks that are fetched together if the one before them is there: content is read in
	// order.
	readAhead = 4
	// fetches is the number of calls that fetch at the same time: 4 MiB of memory each.
	fetches = 8
	// copies is the number of extents that are copied at the same time.
	copies = 2
)

// Options configure [New].
type Options struct {
	// Objects is the store. It may be shared by any number of folders.
	Objects Objects
	// Dir is the folder of the chunks and of what the tier remembers. It is created.
	Dir string
	// Cache is the bound in bytes of the content on this machine; 0 means 10 GiB. A sixteenth of it must be larger than
	// Least.
	Cache int64
	// Nodes is the number of nodes that write extents which this machine has copies of, this one included; 0 means one.
	Nodes int
	// Key encrypts the objects, 32 bytes; nil leaves them as they are.
	Key []byte
	// Keep is the time for which objects stay that no extent needs; 0 means a day, negative means no time.
	Keep time.Duration
	// Least is the size in bytes from which extents are copied; 0 means 1 MiB. Smaller ones are joined by Compact.
	Least int64
	// Timeout bounds the wait of a reader for the store; 0 means 4 seconds.
	Timeout time.Duration
	// ReadOnly is for commands that look at a folder: nothing is copied, kept or removed.
	ReadOnly bool
	// Log is for messages that a person should see; nil means slog.Default().
	Log *slog.Logger
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// FS is the file system of what the tier remembers; nil means disk.OS.
	FS disk.FS

	fetches int // calls that fetch at the same time; 0 means fetches
}

// defaultCache is the bound if none is set.
const defaultCache = 10 << 30

// OfShard returns the options of one of several shards with a tier each, which divide the bound and the calls: dir has
// the folders of all.
func (o Options) OfShard(dir string, number, shards int) *Options {
	o.Cache, o.fetches = cmp.Or(o.Cache, defaultCache)/int64(shards), max(1, fetches/shards)
	if o.Dir = dir; number > 0 {
		o.Dir = filepath.Join(dir, fmt.Sprintf("shard-%02d", number))
	}
	return &o
}

// Extents are those of an [extent.Store].
type Extents interface {
	Stats() []extent.Stat
	FolderID() string
	Local(id uint64) (f *os.File, size int64, done func() error, err error)
	SetRemote(id uint64, sum string) error
	Drop(id uint64) (dropped bool, err error)
}

// Shared are the extents of a node of a cluster, whose nodes have copies of each other's. Local, SetRemote and Drop are
// about copies too; SetRemote returns once all nodes are going to know.
type Shared interface {
	Extents
	// Agree returns the identity of the place that all nodes use and the check of its key: these, for the first node.
	Agree(folder, key string) (agreedFolder, agreedKey string, err error)
	// Agreed returns them, "" before the first call of Agree of any node. FolderID returns the first of them.
	Agreed() (folder, key string)
	// Number tells this node from all others that the cluster has ever had.
	Number() uint64
	// Mine reports whether this node removes the object of an extent: it, or a node that is gone, has written it.
	Mine(id uint64) bool
	// Refresh ends with Stats that have all extents of which any node had noted an object before the call, except those
	// that no metadata refers to any more.
	Refresh() error
}

// Tier is the tier of one folder of extents. [New] comes first, then [extent.Open] with it as the Options.Tier, then
// Attach. Its methods are safe for concurrent use.
type Tier struct {
	o       Options
	cache   *cache
	extents Extents
	shared  Shared        // nil for a single server
	wake    chan struct{} // has room for one: something is to be copied

	room    chan struct{} // has a place for each call that fetches
	down    atomic.Int64  // up to when the store is not asked, in Unix nanoseconds
	mu      sync.Mutex    // guards what follows
	flights map[chunk]*flight
	failed  string // the last error of a copy; "" after a success

	claiming sync.Mutex // guards what follows
	state    state
	claimed  bool

	copied, copiedBytes, fetched, fetchedBytes, hits, failures, removed atomic.Int64
	local, waiting, remote                                              atomic.Int64
}

// Stats are the figures of a tier.
type Stats struct {
	// Local are the bytes of extents in files of this machine, Chunks those of parts of others. Waiting are those of Local
	// that are finished and not in the store yet. Remote are the bytes that are only in the store.
	Local, Chunks, Waiting, Remote int64
	// Copied and CopiedBytes count the extents that were copied, Fetched and FetchedBytes the calls that fetched parts,
	// Hits the chunks that were found on this machine, Failures calls of the store that failed, Removed the objects that
	// were removed.
	Copied, CopiedBytes, Fetched, FetchedBytes, Hits, Failures, Removed int64
	// Failing is why nothing can be copied at the moment; "" if all is well.
	Failing string
}

// Add adds the figures of the tier of another shard.
func (s *Stats) Add(o Stats) {
	s.Local, s.Chunks, s.Waiting, s.Remote = s.Local+o.Local, s.Chunks+o.Chunks, s.Waiting+o.Waiting, s.Remote+o.Remote
	s.Copied, s.CopiedBytes = s.Copied+o.Copied, s.CopiedBytes+o.CopiedBytes
	s.Fetched, s.FetchedBytes = s.Fetched+o.Fetched, s.FetchedBytes+o.FetchedBytes
	s.Hits, s.Failures, s.Removed = s.Hits+o.Hits, s.Failures+o.Failures, s.Removed+o.Removed
	s.Failing = cmp.Or(s.Failing, o.Failing)
}

// New opens the folder of the tier.
func New(o Options) (*Tier, error) {
	o.Cache = cmp.Or(o.Cache, defaultCache)
	o.Keep = cmp.Or(o.Keep, 24*time.Hour)
	o.Least = cmp.Or(o.Least, 1<<20)
	o.Nodes = max(1, o.Nodes)
	o.Timeout = cmp.Or(o.Timeout, 4*time.Second)
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.FS == nil {
		o.FS = disk.OS
	}
	t := &Tier{o: o, wake: make(chan struct{}, 1), room: make(chan struct{}, cmp.Or(o.fetches, fetches)),
		flights: map[chunk]*flight{}}
	// An extent that is finished for its size must be large enough to be copied.
	if t.SealSize() < o.Least && !o.ReadOnly {
		return nil, fmt.Errorf("tier: a bound of %d MiB for the content on this machine (content-cache) is too small: %d "+
			"MiB are needed for each shard", o.Cache>>20, (o.Least*20*int64(o.Nodes))>>20)
	}
	var err error
	if !o.ReadOnly {
		err = disk.MkdirAll(o.Dir, 0o700)
	}
	if err == nil {
		t.state, err = readState(o.Dir)
	}
	if err == nil {
		err = t.checkKey()
	}
	if err == nil {
		t.cache, err = openCache(filepath.Join(o.Dir, chunksFolder), o.ReadOnly)
	}
	if err != nil {
		return nil, fmt.Errorf("tier: %w", err)
	}
	return t, nil
}

// SealSize is the size at which extents should be finished, so that those that are being written, of which each node
// has six, fit into the bound of the cache.
func (t *Tier) SealSize() int64 { return min(256<<20, t.limit()/int64(16*t.o.Nodes)) }

// limit is the size from which content leaves this machine: what is written until the next look fits between it and the
// bound.
func (t *Tier) limit() int64 { return t.o.Cache - t.o.Cache/8 }

// Attach begins the use of the extents, before the first request. It takes the place for this folder, if the store
// answers. Errors: ErrOwned, ErrNotPlace, ErrKey.
func (t *Tier) Attach(ctx context.Context, x Extents) error {
	t.extents = x
	t.shared, _ = x.(Shared)
	// Chunks of extents that have files, or do not exist any more, only take room.
	known := map[uint64]bool{}
	for _, s := range x.Stats() {
		known[s.ID] = s.Remote
	}
	t.cache.keep(func(id uint64) bool { return known[id] })
	if t.o.ReadOnly {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, t.o.Timeout)
	defer cancel()
	err := t.claim(ctx)
	if errors.Is(err, ErrOwned) || errors.Is(err, ErrNotPlace) || errors.Is(err, ErrKey) {
		return fmt.Errorf("tier: %w", err)
	}
	if err != nil {
		t.note(err)
	}
	t.measure()
	return nil
}

// Run copies extents to the store and keeps the content on this machine within its bound until ctx ends.
func (t *Tier) Run(ctx context.Context) {
	look := time.NewTicker(2 * time.Second)
	defer look.Stop()
	pause, next, sweep := time.Second, time.Time{}, t.o.Now().Add(time.Minute)
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.wake:
		case <-look.C:
		}
		t.evict(0)
		now := t.o.Now()
		if now.Before(next) {
			continue
		}
		err := t.claim(ctx) // if the store did not answer at the start
		if err == nil {
			err = t.Copy(ctx)
		}
		// A sweep is of no use while the store does not answer.
		if err == nil && now.After(sweep) {
			sweep = now.Add(sweepEvery)
			_, err = t.Sweep(ctx)
		}
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			next, pause = now.Add(pause), min(2*pause, 30*time.Second)
		default:
			next, pause = time.Time{}, time.Second
		}
		t.note(err)
	}
}

// note keeps why the store cannot be used, and logs it when that changes.
func (t *Tier) note(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch before := t.failed; {
	case err != nil && before == "":
		t.o.Log.Error("content cannot be copied to the tier; it waits in the data folder", "to", t.o.Objects.String(),
			"err", err)
	case err == nil && before != "":
		t.o.Log.Info("content is copied to the tier again", "to", t.o.Objects.String())
	}
	t.failed = ""
	if err != nil {
		t.failed = err.Error()
	}
}

// Copy copies all extents that are finished and not in the store yet, and drops files beyond the bound.
func (t *Tier) Copy(ctx context.Context) error {
	var due []extent.Stat
	for _, x := range t.extents.Stats() {
		if x.Finished && !x.Remote && x.Sum == "" && !x.Copied && x.Size >= t.o.Least {
			due = append(due, x)
		}
	}
	if len(due) == 0 {
		return nil
	}
	if err := t.claim(ctx); err != nil {
		return err
	}
	// What was used longest ago is copied first: its file is the first that may go.
	slices.SortFunc(due, func(a, b extent.Stat) int { return a.Used.Compare(b.Used) })
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(copies)
	for _, x := range due {
		group.Go(func() error {
			err := t.copy(ctx, x.ID)
			if errors.Is(err, extent.ErrNotFound) || errors.Is(err, extent.ErrClosed) {
				return nil // Compact has removed it
			}
			t.evict(0)
			return err
		})
	}
	return group.Wait()
}

// copy copies one extent. Whatever it did before it was killed is found and used by the next call.
func (t *Tier) copy(ctx context.Context, id uint64) (err error) {
	f, size, done, err := t.extents.Local(id)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	sum, err := sumOf(ctx, size, func(off int64, p []byte) error { _, err := f.ReadAt(p, off); return err })
	if err != nil {
		return fmt.Errorf("tier: read extent %016x: %w", id, err)
	}
	o := t.object(id, size, sum)
	content, stored, err := o.encrypted(f)
	if err != nil {
		return err
	}
	// An object that is there already was created by a process that did not come to the record.
	if err = t.o.Objects.Create(ctx, o.name, content, stored); err != nil && !errors.Is(err, ErrExists) {
		t.failures.Add(1)
		return fmt.Errorf("tier: create %s: %w", o.name, err)
	}
	if err = fault.Point(pointCreated); err != nil {
		return err
	}
	// It is read back: an answer of the store alone does not show that the bytes arrived there.
	there, err := sumOf(ctx, size, func(off int64, p []byte) error { return o.read(ctx, off, p) })
	if err == nil && there != sum {
		err = errors.New("it has other content")
	}
	if err != nil {
		t.failures.Add(1)
		return fmt.Errorf("tier: compare %s: %w", o.name, err)
	}
	if err = fault.Point(pointCompared); err != nil {
		return err
	}
	if err = t.extents.SetRemote(id, sum); err != nil {
		return fmt.Errorf("tier: %w", err)
	}
	t.copied.Add(1)
	t.copiedBytes.Add(size)
	return fault.Point(pointRecorded)
}

// sumOf returns the SHA-256 of what read gives, in hexadecimal.
func sumOf(ctx context.Context, size int64, read func(off int64, p []byte) error) (string, error) {
	h := sha256.New()
	p := make([]byte, readAhead*ChunkSize)
	for off := int64(0); off < size; off += int64(len(p)) {
		p = p[:min(int64(len(p)), size-off)]
		if err := cmp.Or(ctx.Err(), read(off, p)); err != nil {
			return "", err
		}
		h.Write(p)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// Check calls report with what is wrong with the objects of extents: one that does not exist, or of another size. deep
// reads them, and compares their checksums. unneeded is the number of objects that no extent needs.
func (t *Tier) Check(ctx context.Context, deep bool, report func(id uint64, problem string)) (unneeded int, err error) {
	there := map[uint64]int64{}
	folder := t.folder()
	err = t.o.Objects.List(ctx, folder+"/", func(name string, size int64) error {
		if id, ok := parseID(name[len(folder)+1:]); ok {
			there[id] = size
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("tier: list %s: %w", t.o.Objects, err)
	}
	// Objects are counted down by the extents that need them: the rest is not needed.
	unneeded = len(there)
	if t.shared != nil {
		// Other nodes have objects of extents that this folder does not have yet.
		unneeded = 0
		for id := range there {
			if t.shared.Mine(id) {
				unneeded++
			}
		}
	}
	for _, x := range t.extents.Stats() {
		size, found := there[x.ID]
		if found && (t.shared == nil || t.shared.Mine(x.ID)) {
			unneeded--
		}
		if x.Sum == "" {
			continue
		}
		o := t.object(x.ID, x.Size, x.Sum)
		_, want, err := o.encrypted(nil)
		switch {
		case err != nil:
			return 0, err
		case !found:
			report(x.ID, "its object does not exist in "+t.o.Objects.String())
		case size != want:
			report(x.ID, fmt.Sprintf("its object has %d bytes, and had %d", size, want))
		case deep:
			sum, err := sumOf(ctx, x.Size, func(off int64, p []byte) error { return o.read(ctx, off, p) })
			switch {
			case errors.Is(err, errSealed):
				report(x.ID, err.Error())
			case err != nil:
				return 0, fmt.Errorf("tier: read %s: %w", o.name, err)
			case sum != x.Sum:
				report(x.ID, "its object has another checksum")
			}
		}
	}
	return unneeded, nil
}

// measure takes the sizes of the extents.
func (t *Tier) measure() []extent.Stat {
	var local, waiting, remote int64
	var may []extent.Stat // those whose files may go
	for _, x := range t.extents.Stats() {
		switch {
		case x.Remote:
			remote += x.Size
			continue
		case x.Sum != "":
			may = append(may, x)
		case x.Finished:
			waiting += x.Size
		}
		local += x.Size
	}
	t.local.Store(local)
	t.waiting.Store(waiting)
	t.remote.Store(remote)
	return may
}

// evict makes room for n bytes within the limit: the file or chunk goes that was used longest ago. It reports whether
// there is room.
func (t *Tier) evict(n int64) bool {
	if n > 0 && t.local.Load()+t.cache.size()+n <= t.limit() {
		return true
	}
	may := t.measure()
	slices.SortFunc(may, func(a, b extent.Stat) int { return a.Used.Compare(b.Used) })
	// A copy with holes is no cache: the bytes of the holes would be fetched from other nodes.
	may = slices.DeleteFunc(may, func(x extent.Stat) bool { return x.Partial && t.drop(x) })
	// Files and chunks are one list by the time of their last use.
	local := t.local.Load()
	for local+t.cache.size()+n > t.limit() {
		oldest, found := t.cache.oldest()
		if len(may) == 0 && !found {
			return false
		}
		if found && (len(may) == 0 || oldest.Before(may[0].Used)) {
			t.cache.dropOldest()
			continue
		}
		x := may[0]
		may = may[1:]
		if t.drop(x) {
			local -= x.Size
		}
		if fault.Point(pointDropped) != nil {
			return false
		}
	}
	return true
}

// drop removes the file of an extent.
func (t *Tier) drop(x extent.Stat) (dropped bool) {
	dropped, err := t.extents.Drop(x.ID)
	if err != nil {
		t.o.Log.Error("the file of an extent that is in the tier could not be removed", "extent", idText(x.ID), "err", err)
	}
	if dropped {
		t.local.Add(-x.Size)
		t.remote.Add(x.Size)
	}
	return dropped
}

// Sealed implements [extent.Tier].
func (t *Tier) Sealed() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// Removed implements [extent.Tier]. Sweep removes the object.
func (t *Tier) Removed(id uint64) { t.cache.forget(id, 0, 1<<62) }

// Forget implements [extent.Tier].
func (t *Tier) Forget(id uint64, off, n int64) { t.cache.forget(id, max(off, 0), n) }

// Stats returns the figures.
func (t *Tier) Stats() Stats {
	t.mu.Lock()
	failing := t.failed
	t.mu.Unlock()
	if until := t.down.Load(); failing == "" && until > t.o.Now().UnixNano() {
		failing = "the store does not answer"
	}
	return Stats{Local: t.local.Load(), Chunks: t.cache.size(), Waiting: t.waiting.Load(), Remote: t.remote.Load(),
		Copied: t.copied.Load(), CopiedBytes: t.copiedBytes.Load(), Fetched: t.fetched.Load(),
		FetchedBytes: t.fetchedBytes.Load(), Hits: t.hits.Load(), Failures: t.failures.Load(), Removed: t.removed.Load(),
		Failing: failing}
}

func idText(id uint64) string { return fmt.Sprintf("%016x", id) }

func parseID(text string) (uint64, bool) {
	id, err := strconv.ParseUint(text, 16, 64)
	return id, err == nil && len(text) == 16
}
