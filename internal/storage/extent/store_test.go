package extent

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestContentOfManySizes(t *testing.T) {
	t.Parallel()
	for _, o := range []Options{{}, {Relaxed: true}, {Ephemeral: true}} {
		t.Run(fmt.Sprintf("%+v", o), func(t *testing.T) {
			s := open(t, t.TempDir(), o)
			for _, n := range []int{0, 1, 4095, 4096, 4097, 5000, 64 << 10, 100_000, MaxRecord - 1, MaxRecord, MaxRecord + 1,
				3*MaxRecord + 7} {
				p := random(uint64(n), n)
				for _, hint := range []int64{-1, 0, int64(n), int64(n) * 3} {
					w := s.NewWriter(hint)
					if m, err := io.Copy(w, struct{ io.Reader }{bytes.NewReader(p)}); err != nil || m != int64(n) {
						t.Fatal(m, err)
					}
					slices, err := w.Commit()
					if err != nil {
						t.Fatal(err)
					}
					w.Close()
					if length(slices) != int64(n) || (n == 0) != (len(slices) == 0) {
						t.Errorf("%d bytes gave %d slices with %d bytes", n, len(slices), length(slices))
					}
					wantContent(t, s, slices, p)
					for _, x := range slices {
						if err := s.Verify(x); err != nil {
							t.Error(err)
						}
					}
				}
			}
		})
	}
}

func TestRanges(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), Options{Ephemeral: true})
	p := random(1, 3*MaxRecord+1000)
	slices := store(t, s, p)
	slices = append(slices, slices[0].Sub(10, 20), slices[0].Sub(0, 0))
	p = append(p, p[10:30]...)
	n := int64(len(p))
	for _, c := range []struct{ off, n int64 }{
		{0, 0}, {0, 1}, {0, n}, {n, 0}, {n - 1, 1}, {MaxRecord - 1, 2}, {MaxRecord, MaxRecord}, {17, 2*MaxRecord + 5},
		{n - 20, 20}, {n - 21, 2},
	} {
		if got := load(t, s, slices, c.off, c.n); !bytes.Equal(got, p[c.off:c.off+c.n]) {
			t.Errorf("[%d, +%d) differs", c.off, c.n)
		}
	}
	for _, c := range []struct{ off, n int64 }{{0, n + 1}, {n, 1}, {n + 1, 0}, {-1, 1}, {0, -1}, {1, 1 << 62}} {
		r, err := s.NewReader(slices, c.off, c.n)
		if c.n != 0 || c.off < 0 {
			if !errors.Is(err, ErrRange) {
				t.Errorf("[%d, +%d): %v, want ErrRange", c.off, c.n, err)
			}
		}
		if err == nil {
			r.Close()
		}
	}
}

func TestSlicesThatPointNowhere(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), Options{})
	good := store(t, s, random(1, 1000))[0]
	for name, c := range map[string]struct {
		slice Slice
		want  error
	}{
		"unknown extent":  {Slice{Extent: 77, Offset: 48, Length: 10}, ErrNotFound},
		"past the end":    {Slice{Extent: good.Extent, Offset: good.Offset, Length: 1001}, ErrCorrupt},
		"far past":        {Slice{Extent: good.Extent, Offset: 1 << 60, Length: 1 << 60}, ErrCorrupt},
		"inside header":   {Slice{Extent: good.Extent, Offset: 1, Length: 1}, ErrCorrupt},
		"negative offset": {Slice{Extent: good.Extent, Offset: -5, Length: 1}, ErrCorrupt},
	} {
		if _, err := s.NewReader([]Slice{c.slice}, 0, c.slice.Length); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	bad := good
	bad.CRC++
	if err := s.Verify(bad); !errors.Is(err, ErrCorrupt) {
		t.Errorf("wrong checksum: %v", err)
	}
}

func TestReopen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := random(1, 2*MaxRecord)
	s := open(t, dir, Options{})
	small, large := store(t, s, p[:100]), store(t, s, p)
	closeChecked(t, s)
	for _, entry := range names(t, dir) {
		if !strings.HasSuffix(entry, sealedSuffix) {
			t.Errorf("after Close there is %s", entry)
		}
	}
	s = open(t, dir, Options{})
	wantContent(t, s, small, p[:100])
	wantContent(t, s, large, p)
	again := store(t, s, p[:100])
	if again[0].Extent == small[0].Extent {
		t.Error("an extent of an earlier run was appended to")
	}
	r := open(t, dir, Options{ReadOnly: true})
	wantContent(t, r, large, p)
	wantContent(t, r, again, p[:100])
	if err := r.NewWriter(1).Close(); err != nil {
		t.Error(err)
	}
	w := r.NewWriter(1)
	defer w.Close()
	if _, err := w.Write(p[:1]); err != nil {
		t.Error(err)
	}
	if _, err := w.Commit(); !errors.Is(err, ErrReadOnly) {
		t.Errorf("commit to a read-only store: %v", err)
	}
}

func names(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != ManifestFile && e.Name() != MarksFile {
			names = append(names, e.Name())
		}
	}
	return names
}

func TestEphemeralLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "0000000000000007"+openSuffix), []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := open(t, dir, Options{Ephemeral: true, SealSize: 1 << 20})
	p := random(1, 5*MaxRecord)
	slices := store(t, s, p)
	if canReopen && len(names(t, dir)) != 0 {
		t.Errorf("while open there is %v", names(t, dir))
	}
	wantContent(t, s, slices, p)
	closeChecked(t, s)
	if left := names(t, dir); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestSealedExtentsStayReadable(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), Options{SealSize: 100_000})
	var all [][]Slice
	for i := range 40 {
		all = append(all, store(t, s, random(uint64(i), 10_000)))
	}
	large := random(99, 3*MaxRecord)
	slices := store(t, s, large)
	for i, x := range all {
		wantContent(t, s, x, random(uint64(i), 10_000))
	}
	wantContent(t, s, slices, large)
	if n := len(s.Stats()); n < 5 {
		t.Errorf("%d extents: the test shows nothing", n)
	}
}

func TestWriterAfterItsEnd(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), Options{})
	w := s.NewWriter(10)
	w.Write([]byte("x"))
	if _, err := w.Commit(); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte("y")); !errors.Is(err, ErrClosed) {
		t.Errorf("write after commit: %v", err)
	}
	if _, err := w.Commit(); !errors.Is(err, ErrClosed) {
		t.Errorf("second commit: %v", err)
	}
	w.Close()
	w.Close()
	abandoned := s.NewWriter(10)
	abandoned.Write([]byte("x"))
	abandoned.Close()
	if _, err := abandoned.Commit(); !errors.Is(err, ErrClosed) {
		t.Errorf("commit after close: %v", err)
	}
	r, _ := s.NewReader(store(t, s, []byte("abc")), 0, 3)
	r.Close()
	if _, err := r.Read(make([]byte, 1)); !errors.Is(err, ErrClosed) {
		t.Errorf("read after close: %v", err)
	}
	s.Close()
	late := s.NewWriter(1)
	defer late.Close()
	late.Write([]byte("x"))
	if _, err := late.Commit(); !errors.Is(err, ErrClosed) {
		t.Errorf("commit to a closed store: %v", err)
	}
	if _, err := s.NewReader([]Slice{{Extent: 1, Length: 1}}, 0, 1); !errors.Is(err, ErrClosed) {
		t.Errorf("read from a closed store: %v", err)
	}
}

// TestConcurrentWritersAndReaders mixes sizes, abandons some, and reads back while others write.
func TestConcurrentWritersAndReaders(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), Options{SealSize: 1 << 20})
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(1, uint64(g)))
			for i := range 20 {
				n := rnd.IntN(3000)
				if i%7 == 0 {
					n = rnd.IntN(2 * MaxRecord)
				}
				p := random(uint64(g*1000+i), n)
				w := s.NewWriter(int64(n))
				if _, err := w.Write(p); err != nil {
					t.Error(err)
				}
				if i%5 == 4 {
					w.Close()
					continue
				}
				slices, err := w.Commit()
				w.Close()
				if err != nil {
					t.Error(err)
					return
				}
				r, err := s.NewReader(slices, 0, int64(n))
				if err != nil {
					t.Error(err)
					return
				}
				if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, p) {
					t.Errorf("%d bytes of writer %d differ: %v", n, g, err)
				}
				r.Close()
			}
		})
	}
	wg.Wait()
}

func TestHandlesAreBounded(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), Options{SealSize: 1})
	var all [][]Slice
	for i := range maxIdleHandles + 30 {
		all = append(all, store(t, s, []byte{byte(i)}))
	}
	for range 2 {
		for i, x := range all {
			wantContent(t, s, x, []byte{byte(i)})
		}
	}
	if n := s.handles.lru.Len(); n != maxIdleHandles {
		t.Errorf("%d idle files, want %d", n, maxIdleHandles)
	}
	// Readers that are open at the same time have files of their own.
	slices := store(t, s, random(1, 200_000))
	var readers []*Reader
	for range 10 {
		r, err := s.NewReader(slices, 0, 200_000)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		readers = append(readers, r)
	}
	var wg sync.WaitGroup
	for _, r := range readers {
		wg.Go(func() {
			var b bytes.Buffer
			if _, err := r.WriteTo(&b); err != nil || !bytes.Equal(b.Bytes(), random(1, 200_000)) {
				t.Errorf("a reader disturbed by others: %v", err)
			}
		})
	}
	wg.Wait()
}
