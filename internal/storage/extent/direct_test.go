package extent

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"unsafe"

	"github.com/lazuli-storage/lazuli/internal/storage/disk"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/faultdisk"
)

// refusing is a file system without direct I/O: it refuses either to open files for that, or to write to them.
type refusing struct {
	disk.FS
	writes  bool
	refused atomic.Int64
}

func (f *refusing) OpenFile(name string, flag int, perm fs.FileMode) (disk.File, error) {
	if flag&directFlag == 0 {
		return f.FS.OpenFile(name, flag, perm)
	}
	if f.writes {
		file, err := f.FS.OpenFile(name, flag&^directFlag, perm)
		return refusingFile{file, f}, err
	}
	f.refused.Add(1)
	return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.EINVAL}
}

type refusingFile struct {
	disk.File
	fs *refusing
}

func (f refusingFile) WriteAt([]byte, int64) (int, error) {
	f.fs.refused.Add(1)
	return 0, &fs.PathError{Op: "write", Path: f.Name(), Err: syscall.EINVAL}
}

func TestBulkContentWithoutDirectIO(t *testing.T) {
	t.Parallel()
	if !canDirect {
		t.Skip("Lazuli does not use direct I/O on " + runtime.GOOS)
	}
	for _, writes := range []bool{false, true} {
		fsys := &refusing{FS: disk.OS, writes: writes}
		dir := t.TempDir()
		s := open(t, dir, Options{FS: fsys, SealSize: 1 << 20})
		for i := range 4 {
			p := random(uint64(i), 700<<10)
			wantContent(t, s, store(t, s, p), p)
		}
		if n := fsys.refused.Load(); n != 1 {
			t.Errorf("tried direct I/O %d times", n)
		}
		if n, err := filepath.Glob(filepath.Join(dir, "0*")); err != nil || len(n) != len(s.Stats()) {
			t.Errorf("%d files for %d extents, %v", len(n), len(s.Stats()), err)
		}
	}
}

// directDir returns a folder on a file system with direct I/O.
func directDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	s := open(t, dir, Options{})
	store(t, s, random(1, bulkThreshold))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s.notDirect.Load() || !canDirect {
		t.Skip("this file system has no direct I/O")
	}
	return t.TempDir()
}

// Writes to bulk extents are aligned, filler is an intact record that nothing refers to, and an extent with filler is
// not rewritten because of it.
func TestDirectWritesAreAligned(t *testing.T) {
	t.Parallel()
	dir := directDir(t)
	fsys := &faultdisk.FS{}
	var writes atomic.Int64
	fsys.SetHook(func(op faultdisk.Op) error {
		if op.Kind == faultdisk.Write && strings.HasSuffix(op.Name, openSuffix) {
			writes.Add(1)
			if op.Offset%directAlign != 0 || len(op.Data)%directAlign != 0 {
				t.Errorf("write of %d bytes at offset %d", len(op.Data), op.Offset)
			}
		}
		return nil
	})
	s := open(t, dir, Options{FS: fsys, Grace: -1})
	c := &catalogue{m: map[string]content{}}
	var live int64
	for i, n := range []int{bulkThreshold, MaxRecord, MaxRecord - recordHeaderSize, 3 * MaxRecord, 5*MaxRecord + 1,
		300<<10 - recordHeaderSize - 1, 300<<10 - recordHeaderSize, 300<<10 - 2*recordHeaderSize,
		300<<10 - 2*recordHeaderSize - 1, 300<<10 + 1} {
		c.put(t, s, fmt.Sprint(i), random(uint64(i), n))
		live += int64(n)
	}
	if writes.Load() < 15 {
		t.Errorf("%d writes", writes.Load())
	}
	for i := range s.bulk {
		s.bulk[i].mu.Lock()
		s.bulk[i].seal()
		s.bulk[i].mu.Unlock()
	}
	s.sealing.Wait()
	fsys.SetHook(nil)
	done, err := s.Compact(t.Context(), c.owner(), CompactOptions{MinLive: 1, MinSize: -1, BytesPerSecond: -1})
	if err != nil || done.Rewritten != 0 || done.LiveBytes != live {
		t.Errorf("compaction: %+v, %v", done, err)
	}
	c.check(t, s)
}

// A writer whose length was not known, or was expected to be greater, ends with a small record in a bulk extent.
func TestDirectWritesOfUnexpectedLength(t *testing.T) {
	t.Parallel()
	fsys := &faultdisk.FS{}
	fsys.SetHook(func(op faultdisk.Op) error {
		if op.Kind == faultdisk.Write && strings.HasSuffix(op.Name, openSuffix) &&
			uintptr(unsafe.Pointer(unsafe.SliceData(op.Data)))%directAlign != 0 {
			t.Errorf("write of %d bytes from memory that is not aligned", len(op.Data))
		}
		return nil
	})
	s := open(t, directDir(t), Options{FS: fsys})
	for _, hint := range []int64{-1, bulkThreshold, 10 << 20} {
		for _, n := range []int{bulkThreshold, MaxRecord + 1, 2*MaxRecord + 5_000} {
			p := random(uint64(n), n)
			w := s.NewWriter(hint)
			if _, err := w.Write(p); err != nil {
				t.Fatal(err)
			}
			slices, err := w.Commit()
			if err != nil {
				t.Fatal(err)
			}
			wantContent(t, s, slices, p)
			w.Close()
		}
	}
}

// TestCrashImagesOfBulkContent is TestCrashImages for records that are written directly.
func TestCrashImagesOfBulkContent(t *testing.T) {
	t.Parallel()
	dir, scratch := directDir(t), check.MemoryDir(t)
	fsys := &faultdisk.FS{}
	recorder, err := fsys.Record(dir)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(4, 6))
	var mu sync.Mutex
	var kept []content
	images, moments, enough, commits := 0, 0, check.Size(30, 60), check.Size(2, 5)
	check := func(what string) {
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
			if err := errors.Join(s.Close(), os.RemoveAll(to)); err != nil {
				t.Fatal(err)
			}
		}
	}
	s, err := Open(dir, Options{FS: fsys, SealSize: 800_000})
	if err != nil {
		t.Fatal(err)
	}
	fsys.SetHook(func(op faultdisk.Op) error {
		check(fmt.Sprint("before ", op.Kind, " of ", filepath.Base(op.Name)))
		return nil
	})
	for i := range commits {
		p := random(uint64(i), bulkThreshold+rng.IntN(50_000))
		slices := store(t, s, p)
		mu.Lock()
		kept = append(kept, content{slices, p})
		mu.Unlock()
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
