package extent

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/lazuli-storage/lazuli/internal/storage/disk"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// content is something that was committed.
type content struct {
	slices []Slice
	bytes  []byte
}

// TestCrashAgainstModel writes, commits and abandons at random, then takes a copy of the folder as a power failure
// would leave it: everything that had been synced, and of the rest some prefix, possibly damaged. What was committed
// must be there, the torn tail gone, and the store usable; over several lives.
func TestCrashAgainstModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		root := check.MemoryDir(t)
		defer os.RemoveAll(root) // a hundred of them would fill the memory
		dir := filepath.Join(root, "0")
		var kept []content
		for range rapid.IntRange(1, 3).Draw(rt, "lives") {
			s, err := Open(dir, Options{SealSize: 200_000, Refs: refsOf(&kept)})
			if err != nil {
				rt.Fatal(err)
			}
			for _, c := range kept {
				sameContent(rt, s, c)
			}
			for range rapid.IntRange(0, 12).Draw(rt, "writes") {
				n := rapid.SampledFrom([]int{1, 100, 5000, 70_000, 300_000, MaxRecord + 5}).Draw(rt, "size")
				p := random(rapid.Uint64Range(0, 1<<30).Draw(rt, "seed"), n)
				w := s.NewWriter(rapid.SampledFrom([]int64{-1, int64(n)}).Draw(rt, "hint"))
				if _, err := w.Write(p); err != nil {
					rt.Fatal(err)
				}
				switch rapid.IntRange(0, 3).Draw(rt, "end") {
				case 0: // abandoned
				case 1: // appended, not committed
					if err := w.flush(true); err != nil {
						rt.Fatal(err)
					}
				default:
					slices, err := w.Commit()
					if err != nil {
						rt.Fatal(err)
					}
					kept = append(kept, content{slices, p})
				}
				w.Close()
			}
			next := filepath.Join(root, "next"+filepath.Base(dir))
			crash(rt, s, dir, next)
			s.Close()
			dir = next
		}
		s, err := Open(dir, Options{Refs: refsOf(&kept)})
		if err != nil {
			rt.Fatal(err)
		}
		defer s.Close()
		for _, c := range kept {
			sameContent(rt, s, c)
		}
		for _, x := range s.Stats() {
			end := int64(0)
			if _, _, err := s.Walk(x.ID, func(r Slice) error { end = r.Offset + r.Length; return nil }); err != nil ||
				end != x.Size {
				rt.Fatalf("extent %x: the last record ends at %d of %d, %v", x.ID, end, x.Size, err)
			}
		}
		for _, name := range names(t, dir) {
			if strings.HasSuffix(name, openSuffix) {
				rt.Fatalf("%s was not finished", name)
			}
		}
	})
}

// refsOf is an Options.Refs of an owner that refers to everything that was committed.
func refsOf(kept *[]content) func(func(Ref) bool) error {
	return func(yield func(Ref) bool) error {
		for _, c := range *kept {
			for _, x := range c.slices {
				if !yield(Ref{Slice: x}) {
					return nil
				}
			}
		}
		return nil
	}
}

func sameContent(rt *rapid.T, s *Store, c content) {
	r, err := s.NewReader(c.slices, 0, int64(len(c.bytes)))
	if err != nil {
		rt.Fatal(err)
	}
	defer r.Close()
	var b bytes.Buffer
	if _, err := r.WriteTo(&b); err != nil || !bytes.Equal(b.Bytes(), c.bytes) {
		rt.Fatalf("committed content of %d bytes is lost: %v", len(c.bytes), err)
	}
}

// crash copies dir to next as a power failure might leave it.
func crash(rt *rapid.T, s *Store, dir, next string) {
	s.sealing.Wait() // renames are not what is tested here
	if err := os.MkdirAll(next, 0o700); err != nil {
		rt.Fatal(err)
	}
	for _, name := range []string{ManifestFile, MarksFile} {
		if err := disk.CopyFile(disk.OS, filepath.Join(dir, name), filepath.Join(next, name)); err != nil &&
			!errors.Is(err, os.ErrNotExist) {
			rt.Fatal(err)
		}
	}
	for _, e := range s.extents {
		name := filepath.Base(e.path())
		p, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			rt.Fatal(err)
		}
		if unsynced := len(p) - int(e.synced); unsynced > 0 {
			p = p[:int(e.synced)+rapid.IntRange(0, unsynced).Draw(rt, "survives")]
			// Sectors reach the disk in any order.
			if tail := p[e.synced:]; len(tail) > 0 && rapid.Bool().Draw(rt, "damage") {
				at := rapid.IntRange(0, len(tail)-1).Draw(rt, "at")
				clear(tail[at:min(len(tail), at+4096)])
			}
		}
		if err := os.WriteFile(filepath.Join(next, name), p, 0o600); err != nil {
			rt.Fatal(err)
		}
	}
}

func TestWalkReportsDamage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir, Options{})
	var last Slice
	for i := range 5 {
		last = store(t, s, random(uint64(i), 1000))[0]
	}
	closeChecked(t, s)
	path := filepath.Join(dir, names(t, dir)[0])
	p, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		damage        func([]byte) []byte
		records       int
		intact, total int64
	}{
		"none":                   {func(p []byte) []byte { return p }, 5, 32 + 5*1016, 32 + 5*1016},
		"payload":                {func(p []byte) []byte { p[last.Offset] ^= 1; return p }, 4, 32 + 4*1016, 32 + 5*1016},
		"header":                 {func(p []byte) []byte { p[last.Offset-10] ^= 1; return p }, 4, 32 + 4*1016, 32 + 5*1016},
		"short":                  {func(p []byte) []byte { return p[:len(p)-1] }, 4, 32 + 4*1016, 32 + 5*1016 - 1},
		"long":                   {func(p []byte) []byte { return append(p, 0, 0, 0) }, 5, 32 + 5*1016, 32 + 5*1016 + 3},
		"repeated":               {func(p []byte) []byte { return append(p, p[32:32+1016]...) }, 5, 32 + 5*1016, 32 + 6*1016},
		"file header":            {func(p []byte) []byte { p[9] ^= 1; return p }, 5, 5 * 1016, 32 + 5*1016},
		"middle":                 {func(p []byte) []byte { p[32+2*1016+500] ^= 1; return p }, 4, 32 + 4*1016, 32 + 5*1016},
		"a header in the middle": {func(p []byte) []byte { p[32+2*1016] ^= 1; return p }, 4, 32 + 4*1016, 32 + 5*1016},
		"a hole":                 {func(p []byte) []byte { clear(p[500:3000]); return p }, 2, 32 + 2*1016, 32 + 5*1016},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			damaged := c.damage(bytes.Clone(p))
			if err := os.WriteFile(filepath.Join(dir, filepath.Base(path)), damaged, 0o600); err != nil {
				t.Fatal(err)
			}
			s, err := Open(dir, Options{ReadOnly: true})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			records := 0
			intact, torn, err := s.Walk(last.Extent, func(Slice) error { records++; return nil })
			if err != nil || records != c.records || intact != c.intact || intact+torn != c.total {
				t.Errorf("%d records, %d intact, %d torn, %v; want %d, %d, %d", records, intact, torn, err, c.records, c.intact,
					c.total-c.intact)
			}
		})
	}
}
