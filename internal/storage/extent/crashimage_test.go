package extent

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/faultdisk"
)

// TestCrashImages commits contents of several writers and, before each write, sync, creation and rename, makes the
// images that a power failure at that moment may leave. Each must open, and have everything that was committed.
func TestCrashImages(t *testing.T) {
	t.Parallel()
	dir, scratch := t.TempDir(), check.MemoryDir(t)
	fsys := &faultdisk.FS{}
	recorder, err := fsys.Record(dir)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(3, 5))
	var mu sync.Mutex // guards kept and images: extents are also finished in the background
	var kept []content
	images, moments, enough, pairs := 0, 0, check.Size(80, 200), check.Size(8, 20)
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
	s, err := Open(dir, Options{FS: fsys, SealSize: 40_000})
	if err != nil {
		t.Fatal(err)
	}
	fsys.SetHook(func(op faultdisk.Op) error {
		check(fmt.Sprint("before ", op.Kind, " of ", filepath.Base(op.Name)))
		return nil
	})
	for i := range pairs {
		// Two writers whose records lie in one extent, of which the first commits.
		a, b := random(uint64(2*i), 1+rng.IntN(9_000)), random(uint64(2*i+1), 1+rng.IntN(9_000))
		wa, wb := s.NewWriter(-1), s.NewWriter(-1)
		_, _ = wa.Write(a)
		_, _ = wb.Write(b)
		if i%2 == 0 {
			if err := wb.flush(true); err != nil {
				t.Fatal(err)
			}
		}
		slices, err := wa.Commit()
		if err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		kept = append(kept, content{slices, a})
		mu.Unlock()
		if i%3 == 0 {
			if slices, err = wb.Commit(); err != nil {
				t.Fatal(err)
			}
			mu.Lock()
			kept = append(kept, content{slices, b})
			mu.Unlock()
		}
		wa.Close()
		wb.Close()
		s.sealing.Wait() // one operation at a time
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	fsys.SetHook(nil)
	check("after Close")
	t.Logf("%d images", images)
	if images < enough {
		t.Errorf("%d images: the test shows nothing", images)
	}
}
