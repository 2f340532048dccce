package extent

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/faultdisk"
)

// commitLogged stores p and returns a copy of what the log must have; ok is false if the content is durable already.
func commitLogged(t *testing.T, s *Store, p []byte) (c content, l Logged, ok bool) {
	t.Helper()
	w := s.NewWriter(int64(len(p)))
	defer w.Close()
	if _, err := w.Write(p); err != nil {
		t.Fatal(err)
	}
	slices, l, ok, err := w.CommitLogged()
	if err != nil {
		t.Fatal(err)
	}
	return content{slices, p}, Logged{bytes.Clone(l.Key), bytes.Clone(l.Value)}, ok
}

func TestCommitLoggedSyncsNothing(t *testing.T) {
	t.Parallel()
	fsys := &faultdisk.FS{}
	s := open(t, t.TempDir(), Options{FS: fsys, Logged: 4_000})
	store(t, s, random(1, 10)) // creates the extent
	syncs := fsys.FailNth(1, syscall.EIO, faultdisk.Sync)
	c, l, ok := commitLogged(t, s, random(2, 4_000))
	if !ok || syncs() != 0 || len(l.Key) != 16 || len(l.Value) != 4_000+recordHeaderSize {
		t.Errorf("logged: %v, %d syncs, key of %d bytes, value of %d bytes", ok, syncs(), len(l.Key), len(l.Value))
	}
	wantContent(t, s, c.slices, c.bytes)
	fsys.SetHook(nil)
	for _, n := range []int{0, 4_001, 2 << 20} {
		calls := fsys.FailNth(1000, syscall.EIO, faultdisk.Sync)
		c, _, ok := commitLogged(t, s, random(3, n))
		if ok || n > 0 && calls() == 0 {
			t.Errorf("%d bytes: left to the log: %v, %d syncs", n, ok, calls())
		}
		wantContent(t, s, c.slices, c.bytes)
		fsys.SetHook(nil)
	}
	for _, o := range []Options{{Relaxed: true, Logged: 4_000}, {Ephemeral: true, Logged: 4_000}, {}} {
		if _, _, ok := commitLogged(t, open(t, t.TempDir(), o), random(4, 10)); ok {
			t.Errorf("%+v: content is left to the log", o)
		}
	}
}

// SyncLogged fails as long as content could not be synced, also if another writer's sync failed before it.
func TestSyncLoggedReportsContentThatIsNotDurable(t *testing.T) {
	t.Parallel()
	fsys := &faultdisk.FS{}
	dir := t.TempDir()
	s, err := Open(dir, Options{FS: fsys, Logged: 4_000})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, ok := commitLogged(t, s, random(1, 100)); !ok {
		t.Fatal("the content is not left to the log")
	}
	fsys.Fail(1, faultdisk.Failure{Err: syscall.EIO, Once: true}, faultdisk.Sync)
	w := s.NewWriter(5_000)
	_, _ = w.Write(random(2, 5_000))
	if _, err := w.Commit(); err == nil {
		t.Error("the other writer's sync succeeded")
	}
	w.Close()
	for range 2 {
		if err := s.SyncLogged(); err == nil {
			t.Error("SyncLogged succeeded after a failed sync")
		}
	}
	if err := s.Close(); err == nil {
		t.Error("Close succeeded after a failed sync")
	}
}

// TestCrashImagesOfLoggedContent is TestCrashImages with content of which some becomes durable with a log: that has
// each content from its commit to the next SyncLogged.
func TestCrashImagesOfLoggedContent(t *testing.T) {
	t.Parallel()
	dir, scratch := t.TempDir(), check.MemoryDir(t)
	fsys := &faultdisk.FS{}
	recorder, err := fsys.Record(dir)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(3, 5))
	var mu sync.Mutex // guards kept, log and images: extents are also finished in the background
	var kept []content
	var log []Logged
	images, moments, enough, commits := 0, 0, check.Size(80, 200), check.Size(18, 30)
	check := func(what string) {
		t.Helper()
		mu.Lock()
		defer mu.Unlock()
		moments++
		for _, loss := range faultdisk.LossesAt(moments) {
			images++
			to := filepath.Join(scratch, fmt.Sprint(images))
			if err := recorder.Image(to, loss, rng); err != nil {
				t.Fatal(err)
			}
			wantWalked(t, to, log, kept)
			restorer := NewRestorer(to, nil, false)
			for _, l := range log {
				if err := restorer.Restore(l.Key, l.Value); err != nil {
					t.Fatal(err)
				}
			}
			if err := restorer.Sync(); err != nil {
				t.Fatal(err)
			}
			s, err := Open(to, Options{Refs: refsOf(&kept)})
			if err != nil {
				t.Fatalf("%s, loss %d: %v", what, loss, err)
			}
			for _, c := range kept {
				wantContent(t, s, c.slices, c.bytes)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if err := os.RemoveAll(to); err != nil {
				t.Fatal(err)
			}
		}
	}
	s, err := Open(dir, Options{FS: fsys, SealSize: 30_000, Logged: 4_000})
	if err != nil {
		t.Fatal(err)
	}
	fsys.SetHook(func(op faultdisk.Op) error {
		check(fmt.Sprint("before ", op.Kind, " of ", filepath.Base(op.Name)))
		return nil
	})
	for i := range commits {
		c, l, ok := commitLogged(t, s, random(uint64(i), 1+rng.IntN(5_000)))
		mu.Lock()
		switch {
		case !ok:
			kept = append(kept, c)
		case i%5 > 0: // of others the log has nothing: their transactions fail
			kept, log = append(kept, c), append(log, l)
		}
		n := len(log)
		mu.Unlock()
		if i%7 == 6 {
			if err := s.SyncLogged(); err != nil {
				t.Fatal(err)
			}
			mu.Lock()
			log = log[n:]
			mu.Unlock()
		}
		s.sealing.Wait() // one operation at a time
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	fsys.SetHook(nil)
	log = nil
	check("after Close")
	t.Logf("%d images", images)
	if images < enough {
		t.Errorf("%d images: the test shows nothing", images)
	}
}

// wantWalked checks that a store that is opened read-only finds all contents, those that only the log has among them.
func wantWalked(t *testing.T, dir string, log []Logged, kept []content) {
	t.Helper()
	restorer := NewRestorer(dir, nil, true)
	for _, l := range log {
		if err := restorer.Restore(bytes.Clone(l.Key), bytes.Clone(l.Value)); err != nil {
			t.Fatal(err)
		}
	}
	s, err := Open(dir, Options{ReadOnly: true, Restored: restorer})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	found := map[Slice]bool{}
	for _, x := range s.Stats() {
		if _, _, err := s.Walk(x.ID, func(x Slice) error { found[x] = true; return nil }); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range kept {
		for _, x := range c.slices {
			if !found[x] {
				t.Errorf("read-only: there is no record %+v", x)
			}
		}
	}
}

// Records of the log whose extent is finished or gone, and damaged ones, change nothing.
func TestRestoreIgnoresWhatNeedsNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir, Options{Logged: 4_000})
	c, l, _ := commitLogged(t, s, random(1, 100))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	damaged := bytes.Clone(l.Value)
	damaged[50]++
	other := bytes.Clone(l.Key)
	other[7]++ // another extent's id
	r := NewRestorer(dir, nil, false)
	for _, x := range []Logged{l, {l.Key, damaged}, {other, l.Value}, {l.Key[:3], l.Value}, {l.Key, l.Value[:10]}} {
		if err := r.Restore(x.Key, x.Value); err != nil {
			t.Error(err)
		}
	}
	if err := r.Sync(); err != nil {
		t.Error(err)
	}
	s = open(t, dir, Options{})
	wantContent(t, s, c.slices, c.bytes)
	if n := len(s.Stats()); n != 1 {
		t.Errorf("%d extents", n)
	}
}
