package extent

import (
	"bytes"
	"errors"
	"io"
	"os"
	"testing"
)

// cutting is a destination under which the file becomes shorter once a write has begun. It then reads what it was
// given, as a connection over TLS does.
type cutting struct {
	cut  func()
	read bytes.Buffer
}

func (c *cutting) Write(p []byte) (int, error) {
	c.cut()
	for i := range p {
		b := p[i] // faults before the buffer grows
		c.read.WriteByte(b)
	}
	return len(p), nil
}

func TestFileThatEndsWhileItIsSent(t *testing.T) {
	if !canReopen {
		t.Skip("no mappings on this system")
	}
	t.Parallel()
	s, err := Open(t.TempDir(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	content := random(1, 3*MaxRecord)
	slices := store(t, s, content)
	r, err := s.NewReader(slices, 0, int64(len(content)))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	// The first look checks the records, which are mapped from then on.
	if n, err := r.WriteTo(io.Discard); n != int64(len(content)) || err != nil {
		t.Fatal(n, err)
	}
	if err := r.Reset(slices, 0, int64(len(content))); err != nil {
		t.Fatal(err)
	}
	var whole bytes.Buffer
	if _, err := r.WriteTo(&whole); err != nil || !bytes.Equal(whole.Bytes(), content) {
		t.Fatalf("mapped content differs: %v", err)
	}
	if err := r.Reset(slices, 0, int64(len(content))); err != nil {
		t.Fatal(err)
	}
	second := slices[1]
	dst := &cutting{}
	dst.cut = func() {
		if dst.read.Len() > 0 {
			// At the end of a page: the rest of a page would read as zeros.
			page := int64(os.Getpagesize())
			if err := os.Truncate(r.cur.file.Name(), second.Offset/page*page+2*page); err != nil {
				t.Error(err)
			}
		}
	}
	n, err := r.WriteTo(dst)
	if !errors.Is(err, ErrCorrupt) || n < slices[0].Length || n >= int64(len(content)) {
		t.Errorf("%d bytes, %v; want ErrCorrupt after the first record", n, err)
	}
	if !bytes.HasPrefix(content, dst.read.Bytes()) {
		t.Error("it wrote other bytes")
	}
}

// Records beside each other are sent from one mapping, which ends with the reader.
func TestRecordsShareAMapping(t *testing.T) {
	if !canReopen {
		t.Skip("no mappings on this system")
	}
	t.Parallel()
	s, err := Open(t.TempDir(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	content := random(1, mapWindow+2*MaxRecord)
	slices := store(t, s, content)
	r, err := s.NewReader(slices, 0, int64(len(content)))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := r.WriteTo(io.Discard); err != nil { // which checks the records
		t.Fatal(err)
	}
	if err := r.Reset(slices, MaxRecord/2, int64(len(content))-MaxRecord); err != nil {
		t.Fatal(err)
	}
	lengths := map[int]int{} // of the mappings, with the number of writes from each
	var got bytes.Buffer
	for r.Len() > 0 {
		if _, err := r.writePiece(&got); err != nil {
			t.Fatal(err)
		}
		lengths[len(r.mapped.bytes)]++
	}
	if !bytes.Equal(got.Bytes(), content[MaxRecord/2:len(content)-MaxRecord/2]) {
		t.Error("content differs")
	}
	if len(lengths) != 2 {
		t.Errorf("lengths of mappings with their writes: %v; want two of them", lengths)
	}
	for n := range lengths {
		if n > mapWindow {
			t.Errorf("a mapping of %d bytes", n)
		}
	}
	if r.Close(); r.mapped.unmap != nil {
		t.Error("a mapping is left after Close")
	}
}
