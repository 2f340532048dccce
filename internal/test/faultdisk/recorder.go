package faultdisk

import (
	"bytes"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// Recorder separates durable changes from those that a power failure may lose: writes without a later Sync, and names
// without a later SyncDir. It models a disk that writes sectors of 512 bytes atomically, in any order.
type Recorder struct {
	mu    sync.Mutex
	dir   string
	files map[string]*contents // by current name
	names map[string]*contents // by durable name
}

// contents is one file, independent of its name.
type contents struct {
	durable []byte
	now     []byte
	pending []pending
}

type pending struct {
	offset int64
	data   []byte
	size   int64 // new size for a truncation; -1 for a write
}

// Record makes f record all changes below dir, which is empty or whose files are durable.
func (f *FS) Record(dir string) (*Recorder, error) {
	r := &Recorder{dir: dir, files: map[string]*contents{}, names: map[string]*contents{}}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if e.Type().IsRegular() {
			p, err := os.ReadFile(filepath.Join(dir, e.Name()))
			if err != nil {
				return nil, err
			}
			c := &contents{durable: p, now: bytes.Clone(p)}
			r.files[e.Name()], r.names[e.Name()] = c, c
		}
	}
	f.mu.Lock()
	f.done = r.done
	f.mu.Unlock()
	return r, nil
}

func (r *Recorder) done(op Op) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if op.Kind == SyncDir {
		if op.Name == r.dir {
			r.names = maps.Clone(r.files)
		}
		return
	}
	name, err := filepath.Rel(r.dir, op.Name)
	if err != nil || filepath.Dir(name) != "." {
		return
	}
	switch op.Kind {
	case Create:
		r.files[name] = &contents{}
	case Rename:
		r.files[filepath.Base(op.To)] = r.files[name]
		delete(r.files, name)
	case Remove:
		delete(r.files, name)
	case Write:
		r.files[name].write(op.Offset, op.Data)
	case Truncate:
		r.files[name].truncate(op.Size)
	case Sync:
		c := r.files[name]
		c.durable, c.pending = bytes.Clone(c.now), nil
	}
}

func (c *contents) write(offset int64, p []byte) {
	c.now = apply(c.now, pending{offset: offset, data: p, size: -1})
	// The write is split into sectors, each of which a crash may lose.
	for len(p) > 0 {
		n := min(int64(len(p)), 512-offset%512)
		c.pending = append(c.pending, pending{offset: offset, data: bytes.Clone(p[:n]), size: -1})
		p, offset = p[n:], offset+n
	}
}

func (c *contents) truncate(size int64) {
	c.now = apply(c.now, pending{size: size})
	c.pending = append(c.pending, pending{size: size})
}

func apply(b []byte, w pending) []byte {
	if w.size >= 0 {
		if int64(len(b)) >= w.size {
			return b[:w.size]
		}
		return append(b, make([]byte, w.size-int64(len(b)))...)
	}
	if missing := w.offset + int64(len(w.data)) - int64(len(b)); missing > 0 {
		b = append(b, make([]byte, missing)...)
	}
	copy(b[w.offset:], w.data)
	return b
}

// Loss selects the unsynced changes that an image lacks.
type Loss int

// The kinds of images.
const (
	LoseAll    Loss = iota // all unsynced changes
	LoseNone               // nothing, as when only the process ends
	LoseSome               // random sectors and names
	LoseHeads              // the first half of the unsynced sectors of each file
	LosesCount             // number of kinds
)

// LossesAt returns the kinds of images that a test makes of the n-th moment of a run: with LAZULI_TEST_FULL all, and
// otherwise two in turn. A power failure that takes all is among them at two of three moments.
func LossesAt(n int) []Loss {
	some := [][]Loss{{LoseAll, LoseNone}, {LoseSome, LoseHeads}, {LoseAll, LoseSome}}[n%3]
	return check.Size(some, []Loss{LoseAll, LoseNone, LoseSome, LoseHeads})
}

// Image writes to a folder a possible content of the disk after a power failure now.
func (r *Recorder) Image(to string, loss Loss, rng *rand.Rand) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	names := r.names
	if loss == LoseNone || loss == LoseSome && rng.IntN(2) == 0 {
		names = r.files
	}
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		c := names[name]
		content := bytes.Clone(c.durable)
		for i, w := range c.pending {
			keep := false
			switch loss {
			case LoseNone:
				keep = true
			case LoseSome:
				keep = rng.IntN(2) == 0
			case LoseHeads:
				keep = i >= (len(c.pending)+1)/2
			}
			if keep {
				content = apply(content, w)
			}
		}
		if err := os.WriteFile(filepath.Join(to, name), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}
