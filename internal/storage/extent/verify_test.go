package extent

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// damagedCopy copies a folder of extents and changes one byte.
func damagedCopy(t *testing.T, dir, name string, at int) string {
	t.Helper()
	to := t.TempDir()
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	spoil(t, filepath.Join(to, name), at)
	return to
}

func spoil(t *testing.T, path string, at int) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b [1]byte
	if _, err := f.ReadAt(b[:], int64(at)); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 0x10
	if _, err := f.WriteAt(b[:], int64(at)); err != nil {
		t.Fatal(err)
	}
}

// prefixOf reads through WriteTo or Read and reports what came, which must be a prefix of what was written.
func prefixOf(t *testing.T, s *Store, x []Slice, off, n int64, want []byte, how string) error {
	t.Helper()
	r, err := s.NewReader(x, off, n)
	if err != nil {
		return err
	}
	defer r.Close()
	var got bytes.Buffer
	switch how {
	case "WriteTo":
		_, err = r.WriteTo(&got)
	case "Read":
		_, err = io.CopyBuffer(&got, struct{ io.Reader }{r}, make([]byte, 10_000))
	case "large Read":
		_, err = io.CopyBuffer(&got, struct{ io.Reader }{r}, make([]byte, 3<<20))
	}
	if !bytes.HasPrefix(want[off:off+n], got.Bytes()) || err == nil && int64(got.Len()) != n {
		t.Errorf("%s from %d: %d bytes that are not those written came out, %v", how, off, got.Len(), err)
	}
	return err
}

// TestDamageIsNeverRead spoils one byte of an extent at a time and reads content of every size, whole, in parts, and as
// slices that are parts of records themselves: no wrong byte comes out, and damage within the records that are read is
// an error.
func TestDamageIsNeverRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir, Options{})
	contents := map[string][]byte{}
	refs := map[string][]Slice{}
	for i, n := range []int{1, 4096, 60_000, 70_000, 300_000, 2<<20 + 777} {
		name := fmt.Sprint(n)
		contents[name] = random(uint64(i), n)
		refs[name] = store(t, s, contents[name])
	}
	// As a page blob that was written into.
	whole := refs["300000"][0]
	refs["parts"] = []Slice{whole.Sub(0, 100_000), refs["4096"][0].Sub(10, 1000), whole.Sub(101_000, 199_000)}
	contents["parts"] = slices.Concat(contents["300000"][:100_000], contents["4096"][10:1010],
		contents["300000"][101_000:])
	closeChecked(t, s)

	rng := rand.New(rand.NewPCG(1, 2))
	failed := 0
	for _, file := range names(t, dir) {
		info, err := os.Stat(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		for range check.Size(8, 25) {
			at := rng.IntN(int(info.Size()))
			s, err := Open(damagedCopy(t, dir, file, at), Options{})
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range slices.Sorted(maps.Keys(refs)) {
				n := int64(len(contents[name]))
				hit := false
				for _, x := range refs[name] {
					hit = hit || x.Extent == extentID(file) && int64(at) >= x.Offset && int64(at) < x.Offset+x.Length
				}
				for _, how := range []string{"WriteTo", "Read", "large Read"} {
					err := prefixOf(t, s, refs[name], 0, n, contents[name], how)
					if hit && !errors.Is(err, ErrCorrupt) {
						t.Errorf("%s of %s with byte %d of %s spoilt: %v, want ErrCorrupt", how, name, at, file, err)
					}
					if hit {
						failed++
					}
					from := rng.Int64N(n)
					_ = prefixOf(t, s, refs[name], from, rng.Int64N(n-from+1), contents[name], how)
				}
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if failed == 0 {
		t.Error("no byte of content was spoilt: the test shows nothing")
	}
}

func extentID(file string) uint64 { id, _, _ := parseName(file); return id }

// TestLargeRecordsAreCheckedAgain spoils a record after it was read: within Options.Recheck that is not noticed, after
// that it is.
func TestLargeRecordsAreCheckedAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir, Options{Recheck: time.Hour})
	now := time.Unix(1_700_000_000, 0)
	s.now = func() time.Time { return now }
	p := random(1, 500_000)
	x := store(t, s, p)
	wantContent(t, s, x, p)
	spoil(t, filepath.Join(dir, names(t, dir)[0]), int(x[0].Offset)+10)
	read := func() error {
		r, err := s.NewReader(x, 400_000, 100_000)
		if err != nil {
			return err
		}
		defer r.Close()
		return r.Check()
	}
	now = now.Add(50 * time.Minute)
	if err := read(); err != nil {
		t.Errorf("within the hour: %v", err)
	}
	now = now.Add(11 * time.Minute)
	if err := read(); !errors.Is(err, ErrCorrupt) {
		t.Errorf("after the hour: %v, want ErrCorrupt", err)
	}
	if s.Damages() != 1 {
		t.Errorf("%d damages are counted, want 1", s.Damages())
	}
	spoil(t, filepath.Join(dir, names(t, dir)[0]), int(x[0].Offset)+10) // as it was
}

// TestDamageStopsOpen spoils an extent that was being written when the process was killed. If the metadata needs what
// is damaged, Open fails and changes nothing; otherwise it goes on.
func TestDamageStopsOpen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir, Options{})
	var kept []content
	for i := range 10 {
		p := random(uint64(i), 1000)
		kept = append(kept, content{store(t, s, p), p})
	}
	killed := t.TempDir()
	if err := os.CopyFS(killed, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	file := names(t, killed)[0]
	if !strings.HasSuffix(file, openSuffix) {
		t.Fatalf("%s is not open", file)
	}
	for _, c := range []struct {
		name    string
		at      int64
		needs   []content
		refused bool
	}{
		{"the middle, needed", kept[3].slices[0].Offset + 5, kept, true},
		{"a header in the middle, needed", kept[3].slices[0].Offset - 3, kept, true},
		{"the last record, needed", kept[9].slices[0].Offset + 5, kept, true},
		{"the middle, not needed", kept[3].slices[0].Offset + 5, append(slices.Clone(kept[:3]), kept[4:]...), false},
		{"the last record, not needed", kept[9].slices[0].Offset + 5, kept[:9], false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := damagedCopy(t, killed, file, int(c.at))
			s, err := Open(dir, Options{Refs: refsOf(&c.needs)})
			if c.refused {
				if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), file) ||
					!strings.Contains(err.Error(), "fsck --repair") {
					t.Errorf("%v, want ErrCorrupt that names %s and the next step", err, file)
				}
				if got := names(t, dir); !slices.Equal(got, []string{file}) {
					t.Errorf("Open changed the folder: %v", got)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			for _, x := range c.needs {
				wantContent(t, s, x.slices, x.bytes)
			}
		})
	}
}
