// Package extent keeps blob content in append-only files.
package extent

import (
	"errors"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"sync"
)

// Slice is a piece of content inside an extent.
type Slice struct {
	Extent         uint64
	Offset, Length int64
	CRC            uint32 // of the payload, Castagnoli
}

// Options configure Open.
type Options struct {
	// Relaxed acknowledges writes before they are synced.
	Relaxed bool
	// Ephemeral keeps no name on disk.
	Ephemeral bool
}

// Store is one open folder of extents.
type Store struct {
	mu   sync.Mutex
	f    *os.File
	size int64
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Open opens or creates the folder dir.
func Open(dir string, o Options) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, "first"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return &Store{f: f, size: st.Size()}, nil
}

// Close closes the store.
func (s *Store) Close() error { return s.f.Close() }

// NewWriter returns a writer; sizeHint is the expected size in bytes, -1 if unknown.
func (s *Store) NewWriter(sizeHint int64) *Writer { return &Writer{s: s} }

// Writer takes content.
type Writer struct {
	s      *Store
	slices []Slice
}

// Write appends p.
func (w *Writer) Write(p []byte) (int, error) {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	if _, err := w.s.f.WriteAt(p, w.s.size); err != nil {
		return 0, err
	}
	w.slices = append(w.slices, Slice{1, w.s.size, int64(len(p)), crc32.Checksum(p, castagnoli)})
	w.s.size += int64(len(p))
	return len(p), nil
}

// Commit returns where the content lies; it is durable.
func (w *Writer) Commit() ([]Slice, error) { return w.slices, w.s.f.Sync() }

// Close releases the writer's pin. Without Commit the content is abandoned.
func (w *Writer) Close() error { return nil }

// Reader reads a range of content.
type Reader struct {
	s      *Store
	slices []Slice
}

// NewReader reads n bytes from off of the content made of slices.
func (s *Store) NewReader(slices []Slice, off, n int64) (*Reader, error) {
	r := &Reader{s: s}
	for _, x := range slices {
		if off >= x.Length {
			off -= x.Length
			continue
		}
		x.Offset, x.Length, off = x.Offset+off, x.Length-off, 0
		x.Length = min(x.Length, n)
		n -= x.Length
		if x.Length > 0 {
			r.slices = append(r.slices, x)
		}
	}
	if n > 0 {
		return nil, errors.New("extent: range past the end")
	}
	return r, nil
}

// Read implements io.Reader.
func (r *Reader) Read(p []byte) (int, error) {
	for len(r.slices) > 0 && r.slices[0].Length == 0 {
		r.slices = r.slices[1:]
	}
	if len(r.slices) == 0 {
		return 0, io.EOF
	}
	x := &r.slices[0]
	n, err := r.s.f.ReadAt(p[:min(int64(len(p)), x.Length)], x.Offset)
	x.Offset, x.Length = x.Offset+int64(n), x.Length-int64(n)
	return n, err
}

// WriteTo implements io.WriterTo.
func (r *Reader) WriteTo(dst io.Writer) (int64, error) {
	return io.Copy(dst, struct{ io.Reader }{r})
}

// Close releases the reader.
func (r *Reader) Close() error { return nil }
