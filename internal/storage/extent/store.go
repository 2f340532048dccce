package extent

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lazuli-storage/lazuli/internal/storage/disk"
)

// Options configure Open. The zero value is a durable store.
type Options struct {
	// Relaxed lets Commit return before the content is synced. A killed process loses nothing, but a power failure may
	// lose the latest content.
	Relaxed bool
	// Ephemeral starts with an empty store, does not sync, and leaves no names on disk if the operating system can remove
	// open files; otherwise Close removes them.
	Ephemeral bool
	// ReadOnly neither creates nor repairs anything.
	ReadOnly bool
	// SealSize is the size at which an extent is finished, in bytes; 0 means 256 MiB, the maximum is 1 GiB. It limits what
	// Open has to walk after a crash, and what Compact rewrites at a time.
	SealSize int64
	// Grace is the time for which an extent must have been dead before Compact deletes it: the maximum time between a
	// request's read of metadata and its NewReader. 0 means one minute; negative means no time.
	Grace time.Duration
	// Recheck is the time for which a record whose checksum was right is read without checking it again, if it is larger
	// than 64 KiB. 0 means one hour, negative means no time. Smaller records are checked on each read.
	Recheck time.Duration
	// Refs MUST call yield for every slice that the metadata refers to. Open calls it if a crash has left an extent that
	// is not completely intact, since referenced content must be intact. Without Refs, Open fails if intact records follow
	// damaged ones.
	Refs func(yield func(Ref) bool) error
	// Mirrored is for the folder of a node of a cluster, whose extents other nodes have as well: Open does not fail
	// because content that the metadata refers to is damaged or missing, since it can be fetched. See Store.Mirror.
	Mirrored bool
	// Logged is the maximum size of content that CommitLogged leaves to the owner's log, in bytes; 0 means that it leaves
	// none. It has no effect with Relaxed or Ephemeral.
	Logged int64
	// Restored, for ReadOnly, has what the owner's log has and the extents may lack: Walk finds it. Readers do not.
	Restored *Restorer
	// Logger receives the number of bytes that Open has cut off after a crash; nil means none.
	Logger *slog.Logger
	// FS is the file system to write extents through; nil means disk.OS.
	FS disk.FS
}

const (
	bulkLanes     = 4         // extents that large writers are distributed over
	bulkThreshold = 256 << 10 // bytes from which a writer is large
)

// Store is an open folder of extents. Its methods are safe for concurrent use.
type Store struct {
	dir  string
	opts Options

	manifest *manifest // nil for a store that is ephemeral, read-only or mirrored

	small   *lane
	bulk    []*lane
	moved   *lane // content that Compact rewrites
	handles handles
	checked checked
	damages atomic.Int64
	now     func() time.Time
	sealing sync.WaitGroup

	notDirect atomic.Bool // the file system cannot write directly

	compacting sync.Mutex   // one Compact at a time
	held       atomic.Int32 // calls of Hold without a release
	retained   atomic.Pointer[func(id uint64, size int64) bool]

	mirror   atomic.Pointer[mirrored] // nil for a single machine
	creating sync.Mutex               // held while a copy is created
	healed   atomic.Int64             // records that were damaged on this node, and were replaced

	loggedMu sync.Mutex
	// up to where extents have content that is in the owner's log and maybe not synced; guarded by loggedMu
	logged map[*extent]int64

	mu      sync.RWMutex // guards what follows, and the counters of pins going up
	extents map[uint64]*extent
	removed map[uint64]bool // extents that Compact has deleted, with Options.Mirrored
	nextID  uint64
	closed  bool
}

// Open opens the folder dir, or creates it, and repairs extents that a crash left unfinished.
func Open(dir string, o Options) (*Store, error) {
	if o.SealSize == 0 {
		o.SealSize = 256 << 20
	}
	o.SealSize = min(o.SealSize, 1<<30)
	if o.Grace == 0 {
		o.Grace = time.Minute
	}
	if o.Recheck == 0 {
		o.Recheck = time.Hour
	}
	if o.FS == nil {
		o.FS = disk.OS
	}
	s := &Store{dir: dir, opts: o, extents: map[uint64]*extent{}, now: time.Now}
	s.small, s.moved = &lane{s: s}, &lane{s: s}
	for range bulkLanes {
		s.bulk = append(s.bulk, &lane{s: s, direct: canDirect && s.durable()})
	}
	if !o.ReadOnly {
		if err := disk.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("extent: open: %w", err)
		}
	}
	if err := s.load(); err != nil {
		s.closeFiles()
		return nil, fmt.Errorf("extent: open %s: %w", dir, err)
	}
	return s, nil
}

// load registers the extents in the folder and recovers unfinished ones.
func (s *Store) load() error {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	if !s.opts.Ephemeral && !s.opts.ReadOnly && !s.opts.Mirrored {
		if s.manifest, err = s.openManifest(); err != nil {
			return err
		}
	}
	var open []*extent
	s.removed = map[uint64]bool{}
	// Ids must not be used twice, even if the newest extent was deleted. So they start from the clock.
	s.nextID = uint64(time.Now().Unix())
	for _, entry := range entries {
		id, suffix, ok := parseName(entry.Name())
		if !ok {
			continue // fsck reports unknown files
		}
		if s.opts.Ephemeral {
			if err := s.opts.FS.Remove(s.path(id, suffix)); err != nil {
				return err
			}
			continue
		}
		if s.extents[id] != nil {
			return fmt.Errorf("extent %x exists both finished and unfinished", id)
		}
		if OwnerOf(id) == 0 { // others were written by nodes of a cluster
			s.nextID = max(s.nextID, id+1)
		}
		e := newExtent(s, id)
		e.partial = suffix == copySuffix
		e.named, e.sealed, e.finished = suffix == sealedSuffix, true, suffix == sealedSuffix || s.opts.ReadOnly
		if suffix == openSuffix && !s.opts.ReadOnly {
			open = append(open, e)
		} else {
			info, err := entry.Info()
			if err != nil {
				return err
			}
			e.size, e.synced = info.Size(), info.Size()
		}
		s.extents[id] = e
	}
	if err := s.recoverAll(open); err != nil {
		return err
	}
	var empty []*extent
	for id, e := range s.extents {
		if e.finished && e.size == 0 && slices.Contains(open, e) {
			empty = append(empty, e)
			delete(s.extents, id)
		}
	}
	if s.manifest == nil {
		return s.removeEmpty(empty)
	}
	list := map[string]listed{}
	for id, e := range s.extents {
		if !e.partial {
			list[idText(id)] = listed{Size: e.size, Finished: true}
		}
	}
	if err := s.manifest.replace(list); err != nil {
		return err
	}
	return s.removeEmpty(empty)
}

// removeEmpty removes the files of extents that a crash left without content.
func (s *Store) removeEmpty(empty []*extent) error {
	for _, e := range empty {
		if err := s.opts.FS.Remove(s.path(e.id, openSuffix)); err != nil {
			return err
		}
	}
	return nil
}

// path returns the name of the extent's file. The caller must hold e.mu, or be alone.
func (e *extent) path() string {
	switch {
	case e.partial:
		return e.s.path(e.id, copySuffix)
	case e.named && !e.s.opts.Ephemeral:
		return e.s.path(e.id, sealedSuffix)
	default:
		return e.s.path(e.id, openSuffix)
	}
}

// Close finishes the extents being written and closes all files. Writers and Readers must be closed before; open ones
// fail.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	s.mu.Unlock()

	s.manifest.hold()
	for _, l := range s.lanes() {
		l.mu.Lock()
		l.seal()
		l.closed = true
		l.mu.Unlock()
	}
	s.sealing.Wait()
	err := s.closeFiles()
	if err == nil {
		return s.manifest.close()
	}
	return err
}

func (s *Store) lanes() []*lane { return append([]*lane{s.small, s.moved}, s.bulk...) }

func (s *Store) closeFiles() error {
	s.handles.close()
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, e := range s.extents {
		e.mu.Lock()
		if e.file != nil {
			errs = append(errs, e.file.Close())
			e.file = nil
		}
		switch {
		case e.err != nil:
			errs = append(errs, e.err)
		case e.unnamed:
			if err := e.rename(); err != nil {
				errs = append(errs, err)
			} else {
				errs = append(errs, s.manifest.finished(e.id, e.size))
			}
		}
		if s.opts.Ephemeral && e.named {
			errs = append(errs, s.opts.FS.Remove(s.path(e.id, openSuffix)))
		}
		e.mu.Unlock()
	}
	return errors.Join(errs...)
}

// pinForReader returns the extent and pins it for a reader.
func (s *Store) pinForReader(id uint64) (*extent, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return nil, ErrClosed
	}
	e := s.extents[id]
	if e == nil {
		return nil, fmt.Errorf("%w: %x", ErrNotFound, id)
	}
	e.readers.Add(1)
	return e, nil
}

// Stat describes one extent.
type Stat struct {
	ID       uint64
	Size     int64 // bytes of the file
	Sealed   bool  // takes no more appends
	Copied   bool  // another node writes or wrote it
	Finished bool  // everything is known to be on disk; not so after a crash, until Open has repaired the extent
	Begun    bool  // this process has created it
}

// Stats describes all extents, in no particular order.
func (s *Store) Stats() []Stat {
	s.mu.RLock()
	defer s.mu.RUnlock()
	stats := make([]Stat, 0, len(s.extents))
	for _, e := range s.extents {
		e.mu.Lock()
		stats = append(stats, Stat{e.id, e.size, e.sealed, !s.owns(e.id), e.named && e.finished, e.begun})
		e.mu.Unlock()
	}
	return stats
}

// Size returns the total size of all extents, in bytes.
func (s *Store) Size() int64 {
	var n int64
	for _, x := range s.Stats() {
		n += x.Size
	}
	return n
}
