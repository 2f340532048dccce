// Package diskspace lets a server go on when its disk is full: it notices that in time, and keeps a reserve.
//
// A [Guard] watches the free space of the data folder's disk. While it is short, requests that need room are refused, and reads and
// deletes are served. The last megabytes, which deletes and an orderly start need, are kept in a file of the data folder that is
// emptied when the disk is full, and filled again once there is room.
package diskspace

import (
	"errors"
	"log/slog"
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
	// Reserve is the size of the reserve, in bytes: a step of each log file, and what the databases and the queues' server write when
	// they start.
	Reserve = 32 << 20
	// low is the free space in bytes, beside the reserve, below which growth is refused; plenty is that from which it is accepted
	// again.
	low    = 32 << 20
	plenty = 64 << 20
	// interval is how often the free space is looked at.
	interval = time.Second
)

// Options configure Open. The zero value watches the real disk.
type Options struct {
	// Log takes a line when the disk becomes full, and when it no longer is; nil is slog.Default().
	Log *slog.Logger
	// Free returns the free bytes of the disk that a folder is on; nil asks the operating system. For tests.
	Free func(dir string) (int64, error)
}

// Guard watches one disk. Its methods are safe for concurrent use; those of the nil Guard do nothing.
type Guard struct {
	dir  string
	o    Options
	full atomic.Bool
	mu   sync.Mutex // held while the reserve changes
	stop chan struct{}
	done chan struct{}
}

// Open begins to watch the disk of a data folder, and makes the reserve if there is room. If the disk is full, it empties the reserve, so that
// the folder can be opened. It fails never: without a reserve the server is as good as without a Guard.
func Open(dir string, o Options) *Guard {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Free == nil {
		o.Free = free
	}
	g := &Guard{dir: dir, o: o, stop: make(chan struct{}), done: make(chan struct{})}
	g.Look()
	go g.watch()
	return g
}

// Close ends the watch. The reserve stays.
func (g *Guard) Close() {
	if g == nil {
		return
	}
	close(g.stop)
	<-g.done
}

// Full reports whether requests that need room are to be refused.
func (g *Guard) Full() bool { return g != nil && g.full.Load() }

// Failed takes an error of a write. If the disk is full, that counts from now on, and the reserve is emptied.
func (g *Guard) Failed(err error) bool {
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

// IsFull reports whether an error means that a disk, or a quota on it, is full.
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

// Look looks at the free space once.
func (g *Guard) Look() {
	n, err := g.o.Free(g.dir)
	if err != nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	switch have := g.size(); {
	case n < low:
		g.enter("free", n)
	case g.full.Load() && n < plenty+Reserve-have:
		// Not yet: the reserve comes first, and leaving at once would begin to and fro.
	default:
		if have < Reserve && n < plenty+Reserve-have {
			return // enough to go on, not for the reserve
		}
		if have < Reserve && g.fill() != nil {
			g.empty()
			return
		}
		if g.full.CompareAndSwap(true, false) {
			g.o.Log.Info("the disk has room again; writes are accepted", "folder", g.dir, "free", n)
		}
	}
}

// enter refuses growth from now on. The caller holds mu.
func (g *Guard) enter(key string, value any) {
	if g.full.CompareAndSwap(false, true) {
		g.o.Log.Error("the disk is full: only reads and deletes are served until there is room", "folder", g.dir, key, value)
	}
	g.empty()
}

func (g *Guard) path() string { return filepath.Join(g.dir, ReserveFile) }

// size returns the bytes that the reserve has.
func (g *Guard) size() int64 {
	info, err := os.Stat(g.path())
	if err != nil {
		return 0
	}
	return info.Size()
}

// empty gives the reserve's space back. A file that cannot be made smaller keeps it: that is no worse.
func (g *Guard) empty() { _ = os.Truncate(g.path(), 0) }

// fill takes the space of the reserve.
func (g *Guard) fill() error {
	f, err := os.OpenFile(g.path(), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(allocate(f, Reserve), f.Close())
}
