package faultdisk

import (
	"bytes"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// Recorder keeps what a disk holds for certain, and what a power failure may lose: writes that no Sync followed, and names that no
// SyncDir followed. It models a disk that writes sectors of 512 bytes as a whole, in any order.
type Recorder struct {
	mu    sync.Mutex
	dir   string
	files map[string]*contents // by name now
	names map[string]*contents // by name on disk
}

// contents is one file, whatever its name.
type contents struct {
	durable []byte
	now     []byte
	pending []pending
}

type pending struct {
	offset int64
	data   []byte
	size   int64 // of a truncation; -1 for a write
}

// Record makes f keep what happens below dir, which is empty or whose files are durable.
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
	// In sectors, each of which a crash may lose alone.
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

// Loss says which of the changes that were not synced an image has.
type Loss int

// The kinds of images.
const (
	LoseAll    Loss = iota // nothing that was not synced
	LoseNone               // everything, as when the process alone dies
	LoseSome               // each sector, and each name, by chance
	LoseHeads              // of each file the first half of its unsynced sectors
	LosesCount             // number of kinds
)

// Image writes to a folder what the disk may hold if the power failed now.
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
