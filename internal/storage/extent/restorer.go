package extent

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/lazuli-storage/lazuli/internal/storage/crc32c"
	"github.com/lazuli-storage/lazuli/internal/storage/disk"
)

// A Restorer takes the records that the owner's log has, before Open. It writes them to the extents of a folder that
// were not finished, or keeps them in memory for a Store that is opened with Options.ReadOnly.
type Restorer struct {
	dir      string
	fs       disk.FS
	readOnly bool
	files    map[uint64]disk.File // nil for an extent that needs nothing
	records  map[uint64][]restored
}

type restored struct {
	offset int64
	record []byte
}

// NewRestorer returns a Restorer for a folder of extents, which need not exist. A nil fsys means disk.OS. With
// readOnly, it writes nothing, and keeps what it receives for Options.Restored.
func NewRestorer(dir string, fsys disk.FS, readOnly bool) *Restorer {
	if fsys == nil {
		fsys = disk.OS
	}
	return &Restorer{dir: dir, fs: fsys, readOnly: readOnly, files: map[uint64]disk.File{},
		records: map[uint64][]restored{}}
}

// Restore takes the Key and Value of a Logged. It ignores damaged ones: if the metadata refers to them, Open reports
// that.
func (r *Restorer) Restore(key, value []byte) error {
	if len(key) != 16 || len(value) <= recordHeaderSize {
		return nil
	}
	id, offset := binary.BigEndian.Uint64(key), int64(binary.BigEndian.Uint64(key[8:]))
	length, crc, ok := parseRecordHeader(value, id, offset)
	if !ok || length != int64(len(value)-recordHeaderSize) || crc32c.Checksum(value[recordHeaderSize:]) != crc {
		return nil
	}
	if r.readOnly {
		r.records[id] = append(r.records[id], restored{offset, value})
		return nil
	}
	f, known := r.files[id]
	if !known {
		var err error
		// An extent with its final name was synced before it got it, and one without a file was dead: both need nothing.
		path := (&Store{dir: r.dir}).path(id, openSuffix)
		if f, err = r.fs.OpenFile(path, os.O_RDWR, 0); errors.Is(err, fs.ErrNotExist) {
			f = nil
		} else if err != nil {
			return fmt.Errorf("extent: restore: %w", err)
		}
		r.files[id] = f
	}
	if f == nil {
		return nil
	}
	if _, err := f.WriteAt(value, offset); err != nil {
		return fmt.Errorf("extent: restore: %w", err)
	}
	return nil
}

// Sync makes what was restored durable, and closes the files.
func (r *Restorer) Sync() error {
	var errs []error
	for id, f := range r.files {
		if f != nil {
			errs = append(errs, f.Sync(), f.Close())
		}
		delete(r.files, id)
	}
	return errors.Join(errs...)
}

// patch returns the content of an extent of a read-only store, with the records that its log has, and its size.
func (r *Restorer) patch(e *extent, f io.ReaderAt, size int64) (io.ReaderAt, int64) {
	if r == nil || e.named || e.partial {
		return f, size
	}
	records := r.records[e.id]
	if len(records) == 0 {
		return f, size
	}
	slices.SortStableFunc(records, func(a, b restored) int { return int(a.offset - b.offset) })
	last := records[len(records)-1]
	return &patched{f, size, records}, max(size, last.offset+int64(len(last.record)))
}

// patched is a file with some of its content, and what lies behind its end, replaced by records. Records do not
// overlap.
type patched struct {
	f       io.ReaderAt
	size    int64
	records []restored // by offset
}

// ReadAt implements io.ReaderAt.
func (x *patched) ReadAt(p []byte, off int64) (int, error) {
	clear(p)
	n, err := x.f.ReadAt(p, off)
	if err != nil && err != io.EOF {
		return n, err
	}
	i, _ := slices.BinarySearchFunc(x.records, off,
		func(r restored, off int64) int { return int(r.offset + int64(len(r.record)) - off - 1) })
	for ; i < len(x.records) && x.records[i].offset < off+int64(len(p)); i++ {
		r := x.records[i]
		from := max(r.offset, off)
		n = max(n, int(from-off)+copy(p[from-off:], r.record[from-r.offset:]))
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}
