package blob

import (
	"context"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/state/blob/offline"
	"github.com/lazuli-storage/lazuli/internal/storage/extent"
	"github.com/lazuli-storage/lazuli/internal/storage/tier"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// memoryObjects is an object store in memory.
type memoryObjects struct {
	mu sync.Mutex // guards m
	m  map[string][]byte
}

func (o *memoryObjects) String() string { return "memory" }

func (o *memoryObjects) Create(_ context.Context, name string, content io.ReaderAt, size int64) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.m[name] != nil {
		return tier.ErrExists
	}
	p := make([]byte, size)
	if n, err := content.ReadAt(p, 0); int64(n) < size {
		return err
	}
	o.m[name] = p
	return nil
}

func (o *memoryObjects) Range(_ context.Context, name string, off int64, p []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	content, ok := o.m[name]
	if !ok {
		return tier.ErrAbsent
	}
	if off+int64(len(p)) > int64(len(content)) {
		return io.ErrUnexpectedEOF
	}
	copy(p, content[off:])
	return nil
}

func (o *memoryObjects) List(_ context.Context, prefix string, fn func(string, int64) error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for name, content := range o.m {
		if strings.HasPrefix(name, prefix) {
			if err := fn(name, int64(len(content))); err != nil {
				return err
			}
		}
	}
	return nil
}

func (o *memoryObjects) Remove(_ context.Context, name string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.m, name)
	return nil
}

// removeContent removes all objects with content, but not that which says whose they are.
func (o *memoryObjects) removeContent(t *testing.T) {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	before := len(o.m)
	for name := range o.m {
		if !strings.Contains(name, "/owner/") {
			delete(o.m, name)
		}
	}
	if len(o.m) == before {
		t.Fatal("nothing was in the store")
	}
}

// moveToTier moves all content of a folder to a store.
func (f *folder) moveToTier(o tier.Options) {
	f.t.Helper()
	away := check.Must(tier.New(o))(f.t)
	content := check.Must(extent.Open(f.extents, extent.Options{Tier: away}))(f.t)
	check.OK(f.t, away.Attach(f.t.Context(), content))
	check.OK(f.t, away.Copy(f.t.Context()))
	for _, x := range content.Stats() {
		check.Must(content.Drop(x.ID))(f.t)
	}
	check.OK(f.t, content.Close())
}

// A check with a tier counts the content that is only there, reports each object that is missing, and reads the content
// on request. Without the tier it counts that content, too, and does not miss it.
func TestCheckOfATier(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	f.use(func(r *rig) {
		r.box("a", "box")
		r.put("f", strings.Repeat("content ", 1000))
	})
	objects := &memoryObjects{m: map[string][]byte{}}
	options := tier.Options{Objects: objects, Dir: filepath.Join(filepath.Dir(f.path), "tier"), Cache: 1 << 20,
		Least: 1, Log: slog.New(slog.DiscardHandler)}
	f.moveToTier(options)
	run := func(o offline.CheckOptions) (a offline.Audit, found string) {
		t.Helper()
		o.Report = func(err error) { found += err.Error() + "\n" }
		return check.Must(offline.Check(f.path, f.extents, o))(t), found
	}
	for name, o := range map[string]offline.CheckOptions{"without the tier": {}, "with the tier": {Tier: &options}} {
		a, found := run(o)
		if a.RemoteExtents != 1 || a.Remote < 8000 || a.Extents != 0 || a.Unneeded != 0 || found != "" {
			t.Errorf("%s: %+v, found %q", name, a, found)
		}
	}
	if a, found := run(offline.CheckOptions{Tier: &options, Objects: true}); a.Extents != 1 || a.RemoteExtents != 0 ||
		found != "" {
		t.Errorf("with the content of the tier: %+v, found %q", a, found)
	}
	objects.removeContent(t)
	if _, found := run(offline.CheckOptions{}); found != "" {
		t.Errorf("without the tier, objects are missed: %q", found)
	}
	const want = "in the tier of content: its object does not exist in memory; 1 slices refer to it"
	if _, found := run(offline.CheckOptions{Tier: &options}); !strings.Contains(found, want) {
		t.Errorf("found %q, want %q", found, want)
	}
}
