// Package diskspace lets a server continue when its disk is full: it detects a full disk early, and keeps a reserve. It
// also detects that a disk that refused a write accepts writes again.
//
// A [Guard] watches the free space of the data folder's disk. While there is too little, it refuses requests that need
// space; reads and deletes are served. Deletes and an orderly start need a few megabytes. They are reserved in a file
// of the data folder that is emptied when the disk is full, and filled again when there is space.
package diskspace

import (
	"errors"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// ReserveFile is the name of the reserve in the data folder.
const ReserveFile = "RESERVE"

const (
	// Reserve is the size of the reserve, in bytes: one step of each log file, and the data that the databases and the
	// queues' server write at the start.
	Reserve = 32 << 20
	// low is the free space in bytes, without the reserve, below which growth is refused. At plenty it is allowed again;
	// on a disk that is too small for that, at a fraction of what it has above low.
	low    = 32 << 20
	plenty = 64 << 20
	// least is the free space in bytes below which a node of a cluster must not go on: see [Guard.Exhausted].
	least = 16 << 20
	// smallShare is that fraction.
	smallShare = 4
	// interval is the time between two checks of the free space.
	interval = time.Second
)

// Options configure Open. The zero value watches the real disk.
type Options struct {
	// Log receives a line when the disk becomes full and when it has space again; nil means slog.Default().
	Log *slog.Logger
	// Free returns the free bytes of the disk that a folder is on; nil asks the operating system. For tests.
	Free func(dir string) (int64, error)
	// Capacity returns the size in bytes of the disk that a folder is on; nil asks the operating system. For tests.
	Capacity func(dir string) (int64, error)
}

// Guard watches one disk. Its methods are safe for concurrent use; on a nil Guard they do nothing.
type Guard struct {
	dir  string
	o    Options
	full atomic.Bool
	// exhausted is what [Guard.Exhausted] returns.
	exhausted atomic.Bool
	// failing is the error of a write because of which [Guard.Failing] returns an error; nil means that writes work.
	failing atomic.Pointer[error]
	mu      sync.Mutex // held while the reserve changes
	given   int64      // bytes of the reserve that became free when the disk was full; guarded by mu
	stop    chan struct{}
	done    chan struct{}
}

// Open starts watching the disk of a data folder. If the disk is full, it empties the reserve, so that the folder can
// be opened. Otherwise the reserve is created a second later if there is space: a start would wait for 32 MiB of zeros
// on a file system without fallocate, or in memory. Open never fails: without a reserve the server runs as without a
// Guard.
func Open(dir string, o Options) *Guard {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Capacity == nil {
		o.Capacity = capacity
		if o.Free != nil { // a disk of a test
			o.Capacity = func(string) (int64, error) { return math.MaxInt64, nil }
		}
	}
	if o.Free == nil {
		o.Free = free
	}
	g := &Guard{dir: dir, o: o, stop: make(chan struct{}), done: make(chan struct{})}
	g.look(false)
	go g.watch()
	return g
}

// Close stops watching. The reserve stays.
func (g *Guard) Close() {
	if g == nil {
		return
	}
	close(g.stop)
	<-g.done
}

// Full reports whether requests that need space must be refused.
func (g *Guard) Full() bool { return g != nil && g.full.Load() }

// Exhausted reports whether so little space is left that a node of a cluster must stop its copies, which grow by what
// clients write at other nodes although this one refuses its own: from less than 16 MiB, after the reserve was given,
// until there is space for more than deletes.
func (g *Guard) Exhausted() bool { return g != nil && g.exhausted.Load() }

// Failing returns the error with which the disk last refused a write, until it accepts writes again. Requests are not
// refused because of it.
func (g *Guard) Failing() error {
	if g == nil {
		return nil
	}
	if cause := g.failing.Load(); cause != nil {
		return *cause
	}
	return nil
}

// Failed reports whether err, the error of a request, means that the disk is full. If so, it empties the reserve and
// refuses growth from then on. An error of a disk that is broken or read-only is returned by [Guard.Failing] from then
// on.
func (g *Guard) Failed(err error) bool {
	if g != nil && (errors.Is(err, syscall.EIO) || errors.Is(err, syscall.EROFS)) && g.failing.CompareAndSwap(nil, &err) {
		g.o.Log.Error("the disk refused a request", "folder", g.dir, "err", err)
	}
	if !IsFull(err) {
		return false
	}
	if g != nil && !g.full.Load() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.enter("err", err)
	}
	return true
}

// IsFull reports whether an error means that a disk or its quota is full.
func IsFull(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, errQuota) }

func (g *Guard) watch() {
	defer close(g.done)
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-g.stop:
			return
		case <-ticker.C:
			g.Look()
		}
	}
}

// Look checks once whether the disk has space, and whether a disk that refused a write accepts writes again.
func (g *Guard) Look() { g.look(true) }

// look is Look. It creates or fills the reserve only if fill is set.
func (g *Guard) look(fill bool) {
	if g.failing.Load() != nil && g.probe() == nil {
		g.failing.Store(nil)
		g.o.Log.Info("the disk accepts writes again", "folder", g.dir)
	}
	n, err := g.o.Free(g.dir)
	if err != nil {
		return
	}
	switch {
	case n < least:
		g.exhausted.Store(true)
	case n >= low:
		g.exhausted.Store(false)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	again := g.plenty()
	switch have := g.size(); {
	case n < low:
		g.enter("free", n)
	case g.full.Load() && n < again+g.given-have:
		// What the reserve gave must be free besides; otherwise the state would alternate.
	default:
		if fill && have < Reserve && n >= again+Reserve-have && g.fill() != nil {
			g.empty()
			return
		}
		// Without the reserve if the disk has enough space to continue, and too little for that.
		if g.full.CompareAndSwap(true, false) {
			g.given = 0
			g.o.Log.Info("the disk has free space again; accepting writes", "folder", g.dir, "free", n)
		}
	}
}

// enter refuses growth from now on. The caller must hold mu.
func (g *Guard) enter(key string, value any) {
	if g.full.CompareAndSwap(false, true) {
		g.o.Log.Error("the disk is full: serving only reads and deletes until there is free space", "folder", g.dir, key,
			value)
	}
	g.given = max(g.given, g.size())
	g.empty()
}

// plenty returns the free space at which growth is allowed again.
func (g *Guard) plenty() int64 {
	size, err := g.o.Capacity(g.dir)
	if err != nil {
		return plenty
	}
	return min(plenty, low+max(size-low, 0)/smallShare)
}

func (g *Guard) path() string { return filepath.Join(g.dir, ReserveFile) }

// size returns the size of the reserve, in bytes.
func (g *Guard) size() int64 {
	info, err := os.Stat(g.path())
	if err != nil {
		return 0
	}
	return info.Size()
}

// empty frees the space of the reserve. If truncating fails, the reserve keeps its space, which does no harm.
func (g *Guard) empty() { _ = os.Truncate(g.path(), 0) }

// probe writes to the reserve and syncs it.
func (g *Guard) probe() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	f, err := os.OpenFile(g.path(), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteAt([]byte{0}, 0)
	return errors.Join(err, f.Sync(), f.Close())
}

// fill allocates the space of the reserve.
func (g *Guard) fill() error {
	f, err := os.OpenFile(g.path(), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(allocate(f, Reserve), f.Close())
}

// Free returns the free space of the disk in bytes. ok is false for a nil Guard, and if the operating system does not
// tell.
func (g *Guard) Free() (n int64, ok bool) {
	if g == nil {
		return 0, false
	}
	n, err := g.o.Free(g.dir)
	return n, err == nil
}
