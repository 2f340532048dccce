package extent

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
)

// open returns a store, which is checked and closed at the end of the test.
func open(t testing.TB, dir string, o Options) *Store {
	t.Helper()
	s, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeChecked(t, s) })
	return s
}

// closeChecked walks all extents, checks that no pin is held, and closes.
func closeChecked(t testing.TB, s *Store) {
	t.Helper()
	for _, x := range s.Stats() {
		_, torn, err := s.Walk(x.ID, nil)
		if errors.Is(err, ErrClosed) {
			return
		}
		if err != nil || torn != 0 {
			t.Errorf("extent %x: %d torn bytes, %v", x.ID, torn, err)
		}
	}
	for id, e := range s.extents {
		if w, r := e.writers.Load(), e.readers.Load(); w != 0 || r != 0 {
			t.Errorf("extent %x is still held by %d writers and %d readers", id, w, r)
		}
	}
	if err := s.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

// random returns n bytes that do not compress, the same ones for the same seed.
func random(seed uint64, n int) []byte {
	p := make([]byte, n)
	rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), byte(seed >> 16), byte(seed >> 24)}).Read(p)
	return p
}

func store(t testing.TB, s *Store, p []byte) []Slice {
	t.Helper()
	w := s.NewWriter(int64(len(p)))
	defer w.Close()
	if _, err := w.Write(p); err != nil {
		t.Fatal(err)
	}
	slices, err := w.Commit()
	if err != nil {
		t.Fatal(err)
	}
	return slices
}

// load reads a range through Read, then through WriteTo, and compares the two.
func load(t testing.TB, s *Store, slices []Slice, off, n int64) []byte {
	t.Helper()
	r, err := s.NewReader(slices, off, n)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	got, err := io.ReadAll(struct{ io.Reader }{r})
	if err != nil {
		t.Fatal(err)
	}
	r2, err := s.NewReader(slices, off, n)
	if err != nil {
		t.Fatal(err)
	}
	defer r2.Close()
	var second bytes.Buffer
	if m, err := r2.WriteTo(&second); err != nil || m != n || !bytes.Equal(got, second.Bytes()) {
		t.Fatalf("WriteTo wrote %d bytes, %v; Read and WriteTo agree: %v", m, err, bytes.Equal(got, second.Bytes()))
	}
	return got
}

func wantContent(t testing.TB, s *Store, slices []Slice, want []byte) {
	t.Helper()
	if got := load(t, s, slices, 0, int64(len(want))); !bytes.Equal(got, want) {
		t.Fatalf("content of %d bytes differs from the %d written", len(got), len(want))
	}
}

func length(slices []Slice) (n int64) {
	for _, x := range slices {
		n += x.Length
	}
	return n
}
