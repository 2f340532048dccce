package extent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"github.com/lazuli-storage/lazuli/internal/storage/disk"
)

// Bulk lanes write past the page cache (direct I/O) where the file system can, because copying into fresh pages took
// most of the processor time of large uploads, and one of them replaced everything else in the cache. Direct writes
// need memory, offsets and lengths that are multiples of the block size of the device; filler (see format.go) aligns
// the records.

// begin creates the file of an extent and writes its header. It tries direct I/O if direct is set; otherwise, or if the
// file system cannot do that, writes go through the page cache.
func (s *Store) begin(path string, id uint64, direct bool) (f disk.File, size int64, isDirect bool, err error) {
	if direct && !s.notDirect.Load() {
		f, err := s.opts.FS.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL|directFlag, 0o600)
		if err == nil {
			b := newBuffer(MaxRecord)
			defer b.free()
			copy(b.bytes, fileHeader(id))
			header := addFiller(b.bytes, fileHeaderSize, id, 0)
			if _, err = f.WriteAt(header, 0); err == nil {
				return f, int64(len(header)), true, nil
			}
			err = errors.Join(err, f.Close())
		}
		if !errors.Is(err, syscall.EINVAL) && !errors.Is(err, errors.ErrUnsupported) {
			return nil, 0, false, fmt.Errorf("extent: create: %w", errors.Join(err, s.discard(path)))
		}
		if err := s.discard(path); err != nil {
			return nil, 0, false, fmt.Errorf("extent: create: %w", err)
		}
		s.notDirect.Store(true)
	}
	if f, err = s.opts.FS.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600); err != nil {
		return nil, 0, false, fmt.Errorf("extent: create: %w", err)
	}
	if _, err := f.WriteAt(fileHeader(id), 0); err != nil {
		return nil, 0, false, fmt.Errorf("extent: create: %w", errors.Join(err, f.Close(), s.discard(path)))
	}
	return f, fileHeaderSize, false, nil
}

// discard removes a file that may exist.
func (s *Store) discard(path string) error {
	if err := s.opts.FS.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
