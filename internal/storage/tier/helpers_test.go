package tier

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/storage/extent"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// objects is an object store in memory.
type objects struct {
	mu      sync.Mutex // guards what follows
	m       map[string][]byte
	down    error
	created map[string]int
	ranges  int
}

func newObjects() *objects { return &objects{m: map[string][]byte{}, created: map[string]int{}} }

func (o *objects) String() string { return "memory" }

func (o *objects) Create(_ context.Context, name string, content io.ReaderAt, size int64) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.down != nil:
		return o.down
	case o.m[name] != nil:
		return ErrExists
	}
	p := make([]byte, size)
	if n, err := content.ReadAt(p, 0); int64(n) < size {
		return err
	}
	o.m[name] = p
	o.created[name]++
	return nil
}

func (o *objects) Range(_ context.Context, name string, off int64, p []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ranges++
	content, ok := o.m[name]
	switch {
	case o.down != nil:
		return o.down
	case !ok:
		return ErrAbsent
	case off+int64(len(p)) > int64(len(content)):
		return io.ErrUnexpectedEOF
	}
	copy(p, content[off:])
	return nil
}

func (o *objects) List(_ context.Context, prefix string, fn func(string, int64) error) error {
	o.mu.Lock()
	down, m := o.down, maps.Clone(o.m)
	o.mu.Unlock()
	if down != nil {
		return down
	}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if strings.HasPrefix(name, prefix) {
			if err := fn(name, int64(len(m[name]))); err != nil {
				return err
			}
		}
	}
	return nil
}

func (o *objects) Remove(_ context.Context, name string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.down == nil {
		delete(o.m, name)
	}
	return o.down
}

var errDown = errors.New("the store is down")

func (o *objects) set(down error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.down = down
}

// extents returns the names of the objects with content.
func (o *objects) extents() (names []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(o.m)) {
		if !strings.Contains(name, "/owner/") {
			names = append(names, name)
		}
	}
	return names
}

// content is what was stored, with its slices.
type content struct {
	slices []extent.Slice
	bytes  []byte
}

// rig is a folder of extents with a tier, and what is in it.
type rig struct {
	t     *testing.T
	dir   string
	o     Options
	eo    extent.Options
	tier  *Tier
	store *extent.Store
	mu    sync.Mutex // guards m
	m     map[string]content
}

// newRig opens a folder with extents of 256 KiB and a cache of 2 MiB, unless change changes that.
func newRig(t *testing.T, store *objects, change ...func(*rig)) *rig {
	r := &rig{t: t, dir: check.MemoryDir(t), m: map[string]content{},
		o:  Options{Objects: store, Cache: 2 << 20, Keep: -1, Least: 1, Log: slog.New(slog.DiscardHandler)},
		eo: extent.Options{SealSize: 256 << 10, Grace: -1}}
	for _, c := range change {
		c(r)
	}
	r.open()
	t.Cleanup(r.close)
	return r
}

func (r *rig) open() {
	r.t.Helper()
	if err := r.tryOpen(); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) tryOpen() (err error) {
	r.o.Dir = filepath.Join(r.dir, "tier")
	if r.tier, err = New(r.o); err != nil {
		return err
	}
	r.eo.Tier = r.tier
	r.eo.Refs = func(yield func(extent.Ref) bool) error { return r.refs(context.Background(), yield) }
	if r.store, err = extent.Open(filepath.Join(r.dir, "extents"), r.eo); err != nil {
		return err
	}
	if err = r.tier.Attach(r.t.Context(), r.store); err != nil {
		return errors.Join(err, r.store.Close())
	}
	return nil
}

func (r *rig) close() {
	if err := r.store.Close(); err != nil {
		r.t.Error(err)
	}
}

func (r *rig) reopen() {
	r.t.Helper()
	r.close()
	r.open()
}

func (r *rig) refs(_ context.Context, yield func(extent.Ref) bool) error {
	r.mu.Lock()
	var refs []extent.Ref
	for key, x := range r.m {
		for _, s := range x.slices {
			refs = append(refs, extent.Ref{Slice: s, Key: []byte(key)})
		}
	}
	r.mu.Unlock()
	for _, ref := range refs {
		if !yield(ref) {
			break
		}
	}
	return nil
}

func (r *rig) move(_ context.Context, moves []extent.Move) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range moves {
		x := r.m[string(m.Key)]
		x.slices = slices.Clone(x.slices)
		if i := slices.Index(x.slices, m.From); i >= 0 {
			x.slices[i] = m.To
			r.m[string(m.Key)] = x
		}
	}
	return nil
}

func random(seed uint64, n int) []byte {
	p := make([]byte, n)
	rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), byte(seed >> 16)}).Read(p)
	return p
}

func (r *rig) put(key string, p []byte) {
	r.t.Helper()
	w := r.store.NewWriter(int64(len(p)))
	defer w.Close()
	_, err := w.Write(p)
	x, err2 := w.Commit()
	if err = errors.Join(err, err2); err != nil {
		r.t.Fatal(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.m[key] = content{x, p}
}

// fill stores n contents of size bytes, and finishes their extents.
func (r *rig) fill(n, size int) {
	r.t.Helper()
	for i := range n {
		r.put(fmt.Sprint("fill", i), random(uint64(i), size))
	}
	r.reopen()
}

func (r *rig) copy() {
	r.t.Helper()
	if err := r.tier.Copy(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
}

// dropAll removes all files that the tier has, and all chunks.
func (r *rig) dropAll() {
	r.t.Helper()
	for _, x := range r.store.Stats() {
		if _, err := r.store.Drop(x.ID); err != nil {
			r.t.Fatal(err)
		}
		r.tier.Removed(x.ID)
	}
}

func (r *rig) read(key string) ([]byte, error) {
	r.mu.Lock()
	x := r.m[key]
	r.mu.Unlock()
	return r.readSlices(x.slices, 0, int64(len(x.bytes)))
}

func (r *rig) readSlices(x []extent.Slice, off, n int64) ([]byte, error) {
	in, err := r.store.NewReader(x, off, n)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	if err := in.Check(); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	_, err = in.WriteTo(&out)
	return out.Bytes(), err
}

// check reads everything.
func (r *rig) check() {
	r.t.Helper()
	for key, x := range r.m {
		if got, err := r.read(key); err != nil || !bytes.Equal(got, x.bytes) {
			r.t.Fatalf("%s: %v, equal: %v", key, err, bytes.Equal(got, x.bytes))
		}
	}
}

// compact deletes what is dead, and sweeps: no object may be left that no extent needs.
func (r *rig) compact() {
	r.t.Helper()
	for range 3 {
		if _, err := r.store.Compact(r.t.Context(), extent.Owner{Refs: r.refs, Move: r.move},
			extent.CompactOptions{BytesPerSecond: -1, MinSize: -1}); err != nil {
			r.t.Fatal(err)
		}
	}
	if _, err := r.tier.Sweep(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
}

// noStrays compares the objects with the extents.
func (r *rig) noStrays(store *objects) {
	r.t.Helper()
	var want []string
	for _, x := range r.store.Stats() {
		if x.Sum != "" {
			want = append(want, r.store.FolderID()+"/"+idText(x.ID))
		}
	}
	slices.Sort(want)
	if got := store.extents(); !slices.Equal(got, want) {
		r.t.Errorf("the store has %d objects, the folder %d:\n%v\n%v", len(got), len(want), got, want)
	}
}
