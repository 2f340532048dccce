package extent

import (
	"bytes"
	"context"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"testing"
)

// elsewhere is another node, which has the records of a store.
type elsewhere struct{ s *Store }

func (e elsewhere) Begin() MirrorWriter { panic("nothing is written") }

func (e elsewhere) Fetch(x Slice) (int64, []byte, error) { return e.s.Record(x) }

func (e elsewhere) Healed(Slice) {}

// extract writes what refs refer to into a new folder.
func extract(t *testing.T, s *Store, dir string, refs func(func(Ref) bool) error) error {
	return Restore(dir, Options{}, func(emit func(Content) error) error {
		return s.Backup(t.Context(), refs, func(Window) []Range { return nil }, emit)
	})
}

// What is referred to is at the same places of the new folder; the rest is filler, also where it is longer than a
// record.
func TestExtract(t *testing.T) {
	t.Parallel()
	s, err := Open(t.TempDir(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	write := func(content []byte) []Slice {
		t.Helper()
		w := s.NewWriter(int64(len(content)))
		defer w.Close()
		if _, err := w.Write(content); err != nil {
			t.Fatal(err)
		}
		list, err := w.Commit()
		if err != nil {
			t.Fatal(err)
		}
		return slices.Clone(list)
	}
	first := write([]byte("first"))
	for range 3 {
		write(bytes.Repeat([]byte("dead"), 200<<10)) // beyond the largest record
	}
	write([]byte("x")) // the shortest record
	second := write([]byte("second"))
	large := write(bytes.Repeat([]byte("live"), 700<<10))

	refs := func(yield func(Ref) bool) error {
		for _, x := range slices.Concat(first, second, large) {
			if !yield(Ref{Slice: x}) || !yield(Ref{Slice: x.Sub(1, 2)}) {
				return nil
			}
		}
		return nil
	}
	dir := filepath.Join(t.TempDir(), "extents")
	release := s.Hold()
	nothing := Owner{Refs: func(context.Context, func(Ref) bool) error {
		t.Error("Compact runs while extents are held")
		return nil
	}}
	if done, err := s.Compact(t.Context(), nothing, CompactOptions{}); err != nil || done != (Compacted{}) {
		t.Errorf("compacted while extents are held: %+v, %v", done, err)
	}
	if err := extract(t, s, dir, refs); err != nil {
		t.Fatal(err)
	}
	release()
	to, err := Open(dir, Options{}) // without Refs, it refuses gaps
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	for _, c := range []struct {
		list []Slice
		want []byte
	}{{first, []byte("first")}, {second, []byte("second")}, {large, bytes.Repeat([]byte("live"), 700<<10)}} {
		r, err := to.NewReader(c.list, 0, int64(len(c.want)))
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r)
		if err != nil || !bytes.Equal(got, c.want) {
			t.Errorf("read %d bytes, want %d: %v", len(got), len(c.want), err)
		}
		r.Close()
	}

	// A node of a cluster that has nothing gets the records from another one.
	empty, err := Open(t.TempDir(), Options{Mirrored: true})
	if err != nil {
		t.Fatal(err)
	}
	defer empty.Close()
	if err := empty.Mirror(elsewhere{s}, 1); err != nil {
		t.Fatal(err)
	}
	if err := extract(t, empty, filepath.Join(t.TempDir(), "extents"), refs); err != nil {
		t.Errorf("content of another node: %v", err)
	}

	missing := func(yield func(Ref) bool) error {
		yield(Ref{Slice: Slice{Extent: 1, Offset: 48, Length: 3, CRC: 1}})
		return nil
	}
	if err := extract(t, s, filepath.Join(t.TempDir(), "extents"), missing); !errors.Is(err, ErrNotFound) {
		t.Errorf("content that is missing: %v", err)
	}
}
