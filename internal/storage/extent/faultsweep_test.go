package extent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/faultdisk"
)

// TestEveryOperationCanFail makes each creation, write, truncation, sync, rename and removal of a run fail, one run for
// each, for a moment or for good. Commits must name the error, everything committed must be readable then and after
// opening the folder again, and when the disk works again new content is accepted.
func TestEveryOperationCanFail(t *testing.T) {
	t.Parallel()
	faultdisk.Sweep(t, runWithFailure)
}

// runWithFailure makes the n-th operation of a run fail. It reports whether the run had so many.
func runWithFailure(t *testing.T, n int, failure faultdisk.Failure) bool {
	t.Helper()
	dir := check.MemoryDir(t)
	fsys := &faultdisk.FS{}
	calls := fsys.Fail(n, failure)
	kept := catalogue{m: map[string]content{}}
	options := Options{FS: fsys, SealSize: 2_000, Grace: -1,
		Refs: func(yield func(Ref) bool) error { return kept.refs(t.Context(), yield) }}
	s, err := Open(dir, options)
	if err != nil {
		if !errors.Is(err, failure.Err) {
			t.Errorf("operation %d: open: %v does not have the cause %v", n, err, failure.Err)
		}
		fsys.SetHook(nil)
		closeChecked(t, open(t, dir, options))
		return true
	}
	reported := false
	put := func(seed uint64) error {
		p := random(seed, 300+int(seed%5)*200)
		w := s.NewWriter(int64(len(p)))
		defer w.Close()
		_, err := w.Write(p)
		if err == nil {
			var slices []Slice
			if slices, err = w.Commit(); err == nil {
				kept.m[fmt.Sprint(seed)] = content{slices, p}
			}
		}
		s.sealing.Wait() // one operation at a time
		return err
	}
	for i := range uint64(12) {
		if err := put(i); err != nil {
			reported = true
			if !errors.Is(err, failure.Err) {
				t.Errorf("operation %d: commit: %v does not have the cause %v", n, err, failure.Err)
			}
		}
		if i >= 6 {
			for j := range i - 2 { // deleted blobs: some extents are dead then, some partly
				if j%3 != 0 {
					delete(kept.m, fmt.Sprint(j))
				}
			}
			if _, err := s.Compact(t.Context(), kept.owner(), CompactOptions{MinLive: 0.9}); err != nil {
				reported = true
				if !errors.Is(err, failure.Err) {
					t.Errorf("operation %d: compact: %v does not have the cause %v", n, err, failure.Err)
				}
			}
			s.sealing.Wait()
		}
	}
	fsys.SetHook(nil)
	if err := put(100); err != nil {
		t.Errorf("operation %d: commit when the disk works again: %v", n, err)
	}
	for _, c := range kept.m {
		wantContent(t, s, c.slices, c.bytes)
	}
	killed := filepath.Join(check.MemoryDir(t), "extents")
	if err := os.CopyFS(killed, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	hit := calls() >= n
	if err := s.Close(); err != nil {
		reported = true
		if !errors.Is(err, failure.Err) {
			t.Errorf("operation %d: close: %v", n, err)
		}
	}
	failed := filepath.Base(fsys.Failed().Name)
	// says less, or is repeated
	listing := failed == MarksFile || strings.HasPrefix(failed, ManifestFile) || failed == filepath.Base(dir)
	// Close has repeated a rename
	if hit && !reported && fsys.Failed().Kind != faultdisk.Rename && !listing {
		t.Errorf("operation %d failed, and no call returned an error", n)
	}
	for _, dir := range []string{killed, dir} {
		s, err := Open(dir, options)
		if err != nil {
			t.Errorf("operation %d: open again: %v", n, err)
			continue
		}
		for _, c := range kept.m {
			wantContent(t, s, c.slices, c.bytes)
		}
		closeChecked(t, s)
	}
	return hit
}
