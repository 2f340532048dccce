package extent

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lazuli-storage/lazuli/internal/storage/disk"
)

const (
	bulkLanes     = 4         // extents that large writers are distributed over
	bulkThreshold = 256 << 10 // bytes from which a writer is large
)

// Store is an open folder of extents. Its methods are safe for concurrent use.
type Store struct {
	dir  string
	opts Options

	folder   string    // the identity of the folder; "" without a manifest
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
	releases atomic.Int64             // see Releases

	loggedMu sync.Mutex
	// up to where extents have content that is in the owner's log and maybe not synced; guarded by loggedMu
	logged map[*extent]int64

	mu      sync.RWMutex // guards what follows, and the counters of pins going up
	extents map[uint64]*extent
	removed map[uint64]bool // extents that Compact has deleted, with Options.Mirrored
	nextID  uint64
	closed  bool
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

func (s *Store) lanes() []*lane { return append([]*lane{s.small, s.moved}, s.bulk...) }

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
	Held     bool  // a Writer appends to it: perhaps nothing refers to some of its content yet
	Partial  bool  // a copy that may have holes
	// Sum is the checksum of its object in the tier, "" without one, and Remote means that it has no file in this folder.
	Sum    string
	Remote bool
	// Used is the time of the last read, or that at which the extent was finished or found; zero without a tier.
	Used time.Time
}

// Stats describes all extents, in no particular order.
func (s *Store) Stats() []Stat {
	s.mu.RLock()
	defer s.mu.RUnlock()
	stats := make([]Stat, 0, len(s.extents))
	for _, e := range s.extents {
		e.mu.Lock()
		x := Stat{ID: e.id, Size: e.size, Sealed: e.sealed, Copied: !s.owns(e.id), Finished: e.named && e.finished,
			Begun: e.begun, Held: e.writers.Load() > 0, Partial: e.partial, Sum: e.sum,
			Remote: e.remote.Load()}
		if at := e.lastUse.Load(); at > 0 {
			x.Used = time.Unix(0, at)
		}
		stats = append(stats, x)
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

// FolderID returns the identity of the folder, which no other one has; "" for a folder without a manifest.
func (s *Store) FolderID() string { return s.folder }

// extent is one file.
type extent struct {
	s  *Store
	id uint64

	writers atomic.Int64 // pins of open writers; incremented under Store.mu or the lane's lock
	readers atomic.Int64 // pins of readers; incremented under Store.mu

	deadSince time.Time // guarded by Store.compacting

	// listing is held while what the manifest says of the finished extent is decided and written, before mu and
	// Store.mu. Otherwise a list without the sum could follow one with it, and the file may be gone by then.
	listing sync.Mutex

	remote  atomic.Bool  // the content is only in the tier; set under mu
	lastUse atomic.Int64 // with a tier: see Stat.Used, in Unix nanoseconds

	mu       sync.Mutex // guards what follows
	changed  sync.Cond  // synced, syncing or err have changed
	file     disk.File  // open for append; nil once finished, except for ephemeral ones
	direct   bool       // file takes aligned writes only; set before the extent is used
	named    bool       // a sealed extent has its final name; an ephemeral one has a name
	size     int64
	synced   int64 // bytes that are on disk
	written  int64 // bytes whose writeback has begun
	syncing  bool
	sealed   bool   // takes no more appends
	index    index  // used by readers
	finished bool   // sealed, synced, and has its final name
	sum      string // that of its object in the tier; "" without one
	stored   int64  // on a node of a cluster: the size of that object's content
	err      error  // a sync failed; data that was not synced is lost
	torn     bool   // the file may end with a part of a record: it keeps its name, so that the next Open cuts that off
	unnamed  bool   // giving the final name failed

	// What follows is for nodes of a cluster, see copies.go.
	ended      bool // takes no more records; see End
	begun      bool // this process has created and written it
	partial    bool // the extent of another node, of which this node may not have everything
	released   bool // the node that wrote it does not have it any more
	puts       int64
	putsSynced int64
	coverage   *coverage // of a partial extent; nil until it was read
}

func newExtent(s *Store, id uint64) *extent {
	e := &extent{s: s, id: id}
	e.changed.L = &e.mu
	return e
}

// lane is a sequence of extents. One of them takes appends.
type lane struct {
	s       *Store
	writers atomic.Int64 // large writers that chose this lane
	direct  bool         // its extents are written past the page cache if possible

	mu     sync.Mutex // held while a record is written, so that records are in order
	active *extent
	closed bool
}

func (s *Store) durable() bool { return !s.opts.Relaxed && !s.opts.Ephemeral }

// owns reports whether this process, or an earlier one on this folder, has written the extent.
func (s *Store) owns(id uint64) bool {
	m := s.mirror.Load()
	if m == nil {
		return id>>ownerShift == 0 || !s.opts.Mirrored
	}
	return id>>ownerShift == m.owner
}

func (s *Store) isPartial(id uint64) bool {
	s.mu.RLock()
	e := s.extents[id]
	s.mu.RUnlock()
	return e != nil && e.isPartial()
}

func (e *extent) isPartial() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.partial
}
