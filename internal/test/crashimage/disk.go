package crashimage

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Disk is a folder of which some changes are synced and others are not.
type Disk struct {
	root    *inode
	Changed [Variants]int // number of changes of each variant's image
}

// Variant selects the unsynced changes that an image has.
type Variant int

// The variants of an image.
const (
	// Synced has no unsynced changes.
	Synced Variant = iota
	// Names has all creations, renames and removals, and no unsynced content.
	Names
	// Holes has all names, and every other unsynced write: later writes without earlier ones.
	Holes
	// Killed has all changes: the process ended and the machine did not.
	Killed
	// Reappeared has all creations and renames, every other unsynced removal, the last one included, and no unsynced
	// content: later removals without earlier ones.
	Reappeared
	// Variants is the number of variants.
	Variants
)

func (v Variant) String() string {
	return [...]string{"synced", "names", "holes", "killed", "reappeared"}[v]
}

// inode is a file or a folder.
type inode struct {
	synced  []byte
	pending []pendingWrite
	folder  bool
	now     map[string]*inode
	onDisk  map[string]*inode
	removed []removal // unsynced
}

// removal is an unsynced removal from a folder.
type removal struct {
	name string
	file *inode
}

// pendingWrite is an unsynced change of a file's content.
type pendingWrite struct {
	at       int // number of the event
	offset   int64
	data     []byte
	truncate bool
}

func newFolder() *inode {
	return &inode{folder: true, now: make(map[string]*inode), onDisk: make(map[string]*inode)}
}

// Replay applies a recording. step is called after each event.
func (r *Recording) Replay(step func(n int, e Event, d *Disk) error) error {
	d := &Disk{root: newFolder()}
	for n, e := range r.Events {
		if err := d.apply(n, e); err != nil {
			return fmt.Errorf("event %d, %v: %w", n, e, err)
		}
		if err := step(n, e, d); err != nil {
			return err
		}
	}
	return nil
}

// parent returns the folder of a path and the last name.
func (d *Disk) parent(path string) (*inode, string, error) {
	at := d.root
	parts := strings.Split(path, "/")
	for _, name := range parts[:len(parts)-1] {
		at = at.now[name]
		if at == nil || !at.folder {
			return nil, "", errors.New("no such folder")
		}
	}
	return at, parts[len(parts)-1], nil
}

func (d *Disk) find(path string) *inode {
	if path == "." {
		return d.root
	}
	folder, name, err := d.parent(path)
	if err != nil {
		return nil
	}
	return folder.now[name]
}

func (d *Disk) change(variants ...Variant) {
	for _, v := range variants {
		d.Changed[v]++
	}
}

func (d *Disk) apply(n int, e Event) error {
	switch e.Kind {
	case Print:
		return nil
	case Sync:
		return d.sync(e)
	}
	folder, name, err := d.parent(e.Path)
	if err != nil {
		return err
	}
	// Names change in memory at once; what the disk has of them is decided by the sync of the folder. change marks the
	// images in which that shows.
	switch e.Kind {
	case Mkdir:
		folder.now[name] = newFolder()
		d.change(Names, Holes, Killed, Reappeared)
	case Remove:
		// Kept: until the folder is synced, a power failure may bring the name back.
		folder.removed = append(folder.removed, removal{name, folder.now[name]})
		delete(folder.now, name)
		d.change(Names, Holes, Killed, Reappeared)
	case Rename:
		to, toName, err := d.parent(e.To)
		if err != nil {
			return err
		}
		to.now[toName] = folder.now[name]
		delete(folder.now, name)
		d.change(Names, Holes, Killed, Reappeared)
	case Link:
		to, toName, err := d.parent(e.To)
		if err != nil {
			return err
		}
		to.now[toName] = folder.now[name]
		d.change(Names, Holes, Killed, Reappeared)
	case Create, Truncate, Write:
		f := folder.now[name]
		if f == nil {
			f = new(inode)
			folder.now[name] = f
			d.change(Names, Holes, Killed, Reappeared)
		}
		if e.Kind != Create {
			// Content is kept as writes and not applied: an image may have any part of those after the last sync.
			f.pending = append(f.pending, pendingWrite{n, e.Offset, e.Data, e.Kind == Truncate})
			d.change(Holes, Killed)
		}
	}
	return nil
}

func (d *Disk) sync(e Event) error {
	f := d.find(e.Path)
	if f == nil {
		return nil // removed meanwhile
	}
	if f.folder {
		f.onDisk = make(map[string]*inode, len(f.now))
		for name, i := range f.now {
			f.onDisk[name] = i
		}
		if len(f.removed) > 0 {
			f.removed = nil
			d.change(Reappeared)
		}
		d.change(Synced)
		return nil
	}
	covered := 0
	for covered < len(f.pending) && f.pending[covered].at < e.begun {
		f.synced = f.pending[covered].apply(f.synced)
		covered++
	}
	if covered > 0 {
		f.pending = f.pending[covered:]
		d.change(Synced, Names, Holes, Reappeared)
	}
	return nil
}

func (w pendingWrite) apply(content []byte) []byte {
	end := w.offset + int64(len(w.data))
	if w.truncate && int64(len(content)) > w.offset {
		return content[:w.offset:w.offset]
	}
	if grow := end - int64(len(content)); grow > 0 {
		content = append(content, make([]byte, grow)...)
	}
	copy(content[w.offset:], w.data)
	return content
}

// content returns a file's content in an image.
func (f *inode) content(v Variant, choice *rand.Rand) []byte {
	if v == Synced || v == Names || v == Reappeared || len(f.pending) == 0 {
		return f.synced
	}
	out := append([]byte(nil), f.synced...)
	for i, w := range f.pending {
		if v == Killed || w.truncate || i%2 == 1 || choice.IntN(4) == 0 {
			out = w.apply(out)
		}
	}
	return out
}

// withRemoved returns the names of a folder, with every other one that was removed and is not in use again. The last
// removal is done.
func (f *inode) withRemoved() map[string]*inode {
	names := maps.Clone(f.now)
	for i := len(f.removed) - 2; i >= 0; i -= 2 {
		if r := f.removed[i]; names[r.name] == nil && r.file != nil {
			names[r.name] = r.file
		}
	}
	return names
}

// Write writes an image to an existing, empty folder. seed determines the writes that [Holes] selects.
func (d *Disk) Write(to string, v Variant, seed uint64) error {
	return d.root.write(to, v, rand.New(rand.NewPCG(seed, 0)))
}

// Files returns the files of an image below a path, or all, by their paths, and does not write it. The contents must
// not be changed.
func (d *Disk) Files(below string, v Variant, seed uint64) map[string][]byte {
	files := map[string][]byte{}
	d.root.files(files, "", below, v, rand.New(rand.NewPCG(seed, 0)))
	return files
}

func (f *inode) files(found map[string][]byte, at, below string, v Variant, choice *rand.Rand) {
	for name, i := range f.names(v) {
		path := filepath.Join(at, name)
		switch inside := below == "" || path == below || strings.HasPrefix(path, below+"/"); {
		case i.folder && (inside || strings.HasPrefix(below, path+"/")):
			i.files(found, path, below, v, choice)
		case !i.folder && inside:
			found[path] = i.content(v, choice)
		}
	}
}

// names returns the names of a folder in an image.
func (f *inode) names(v Variant) map[string]*inode {
	switch v {
	case Synced:
		return f.onDisk
	case Reappeared:
		return f.withRemoved()
	}
	return f.now
}

func (f *inode) write(to string, v Variant, choice *rand.Rand) error {
	names := f.names(v)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		i, path := names[name], filepath.Join(to, name)
		if i.folder {
			if err := os.Mkdir(path, 0o700); err != nil {
				return err
			}
			if err := i.write(path, v, choice); err != nil {
				return err
			}
			continue
		}
		if err := os.WriteFile(path, i.content(v, choice), 0o600); err != nil {
			return err
		}
	}
	return nil
}
