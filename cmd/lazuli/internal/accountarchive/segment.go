package accountarchive

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/lazuli-storage/lazuli/internal/storage/disk"
)

// segmentWriter writes the segments of a resource, one after another.
type segmentWriter struct {
	dir      string
	folder   string // within dir
	suffix   string
	resource *Resource
	// limit is the size in bytes at which a segment ends.
	limit int64

	wrote func(n int64) // called after each write; may be nil

	file  *os.File
	buf   *bufio.Writer
	hash  hash.Hash
	size  int64
	items int
}

// segmentLimit is the size of a segment, apart from its last item.
const segmentLimit = 64 << 20

var folders = map[string]string{KindTable: "tables", KindQueue: "queues", KindContainer: "containers"}

func newSegmentWriter(dir string, r *Resource, suffix string, limit int64) *segmentWriter {
	return &segmentWriter{dir: dir, folder: folders[r.Kind] + "/" + r.Name, suffix: suffix, resource: r, limit: limit}
}

// Write adds bytes to the current segment.
func (w *segmentWriter) Write(p []byte) (int, error) {
	if w.file == nil {
		if err := disk.MkdirAll(filepath.Join(w.dir, filepath.FromSlash(w.folder)), 0o700); err != nil {
			return 0, err
		}
		f, err := os.OpenFile(filepath.Join(w.dir, filepath.FromSlash(w.name()))+disk.PartSuffix,
			os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
		if err != nil {
			return 0, err
		}
		w.file, w.hash, w.size, w.items = f, sha256.New(), 0, 0
		w.buf = bufio.NewWriterSize(io.MultiWriter(f, w.hash), 256<<10)
	}
	n, err := w.buf.Write(p)
	if w.size += int64(n); w.wrote != nil {
		w.wrote(int64(n))
	}
	return n, err
}

func (w *segmentWriter) name() string {
	return fmt.Sprintf("%s/%06d.%s", w.folder, len(w.resource.Segments)+1, w.suffix)
}

// full reports whether the segment has reached its size.
func (w *segmentWriter) full() bool { return w.file != nil && w.size >= w.limit }

// end makes the segment durable and adds it to the resource. Without an item it does nothing.
func (w *segmentWriter) end() error {
	if w.file == nil {
		return nil
	}
	// Content first, then the name, then the folder: after a power failure a segment with its name is whole. The manifest
	// that lists it is written after this.
	err := w.buf.Flush()
	if err == nil {
		err = w.file.Sync()
	}
	if closeErr := w.file.Close(); err == nil {
		err = closeErr
	}
	path := filepath.Join(w.dir, filepath.FromSlash(w.name()))
	if err == nil {
		err = os.Rename(w.file.Name(), path)
	}
	if err == nil {
		err = disk.SyncDir(filepath.Dir(path))
	}
	if err != nil {
		return err
	}
	w.resource.Segments = append(w.resource.Segments,
		Segment{File: w.name(), Bytes: w.size, SHA256: hex.EncodeToString(w.hash.Sum(nil)), Items: w.items})
	w.file = nil
	return nil
}

// abandon removes a segment that was begun.
func (w *segmentWriter) abandon() {
	if w.file != nil {
		_ = w.file.Close()
		_ = os.Remove(w.file.Name())
		w.file = nil
	}
}

// openSegment opens the file of a segment. An archive may come from a stranger: a link that leads out of it, and what
// is no file, are refused.
func openSegment(dir string, s Segment) (*os.File, error) {
	f, err := os.OpenInRoot(dir, filepath.FromSlash(s.File))
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() != s.Bytes {
		return nil, errors.Join(invalid("%s is not a file of %d bytes", s.File, s.Bytes), err, f.Close())
	}
	return f, nil
}

// verify checks the length and hash of a segment.
func verify(dir string, s Segment) error {
	f, err := openSegment(dir, s)
	if errors.Is(err, fs.ErrNotExist) {
		return invalid("%s is missing", s.File)
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	n, err := io.Copy(h, f)
	if err != nil {
		return fmt.Errorf("%s: %w", s.File, err)
	}
	if sum := hex.EncodeToString(h.Sum(nil)); n != s.Bytes || sum != s.SHA256 {
		return invalid("%s is damaged: %d bytes with SHA-256 %s, not %d with %s", s.File, n, sum, s.Bytes, s.SHA256)
	}
	return nil
}

// maxLine is the length in bytes of a line: an entity has 1 MiB of values, a message 64 KiB, of which every character
// may be escaped.
const maxLine = 16 << 20

// readLines calls each for the lines of a segment.
func readLines(dir string, s Segment, each func(line []byte) error) error {
	f, err := openSegment(dir, s)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(f)
	lines.Buffer(make([]byte, 0, 64<<10), maxLine)
	for n := 1; lines.Scan(); n++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		if err := each(lines.Bytes()); err != nil {
			return fmt.Errorf("%s, line %d: %w", s.File, n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return invalid("%s: %w", s.File, err)
	}
	return nil
}
