package extent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/storage/crc32c"
	"github.com/lazuli-storage/lazuli/internal/storage/disk"
)

// finishExtract closes the folder of a single server into which records were put, after err.
func (s *Store) finishExtract(err error) error {
	if err == nil {
		err = s.fillGaps()
	}
	if err = errors.Join(err, s.SyncAllPuts(), s.Close()); err != nil {
		return fmt.Errorf("extent: extract: %w", err)
	}
	return NameCopies(s.dir, s.opts.FS)
}

// NameCopies makes the folder of a standby that of a single server. It may be called again after a crash.
func NameCopies(dir string, fsys disk.FS) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if name, copied := strings.CutSuffix(e.Name(), copySuffix); copied {
			err = errors.Join(err, fsys.Rename(filepath.Join(dir, e.Name()), filepath.Join(dir, name+openSuffix)))
		}
	}
	if err = errors.Join(err, fsys.SyncDir(dir)); err != nil {
		return err
	}
	return writeList(fsys, dir)
}

// recordFromAny returns the record that contains x, of this node or of another one.
func (s *Store) recordFromAny(x Slice) (offset int64, record []byte, err error) {
	offset, record, err = s.Record(x)
	m := s.mirror.Load()
	if err == nil || m == nil || !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrNotFound) {
		return offset, record, err
	}
	return m.Fetch(x)
}

// fillGaps makes records of zeros of the places between the records of all copies. Only their headers are written: the
// rest stays a hole in the file.
func (s *Store) fillGaps() error {
	zeros := make([]byte, recordHeaderSize+MaxRecord)
	for _, e := range s.extents {
		for {
			at, n := e.coverage.gap(fileHeaderSize, e.size)
			if n == 0 {
				break
			}
			size := min(n, int64(len(zeros)))
			if rest := n - size; rest > 0 && rest <= recordHeaderSize {
				size -= recordHeaderSize + 1 // room for one more record
			}
			if size <= recordHeaderSize {
				return fmt.Errorf("%w: extent %016x has a gap of %d bytes at offset %d", ErrCorrupt, e.id, n, at)
			}
			if err := e.reopen(); err != nil {
				return err
			}
			filler := zeros[:size]
			putRecordHeader(filler, crc32c.Checksum(filler[recordHeaderSize:]), e.id, at)
			if _, err := e.file.WriteAt(filler[:recordHeaderSize], at); err != nil {
				return err
			}
			e.puts++
			e.coverage.add(at, at+size)
		}
	}
	return nil
}
