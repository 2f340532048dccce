package extent

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
)

// Extract writes all records that refs refer to into a new folder, at the same places of extents with the same ids: the
// folder of a server alone, which finishes the extents when it opens them. A record that this node does not have, or
// that is damaged, comes from another node of the cluster. The caller has called Hold before it read what it refers to.
func (s *Store) Extract(ctx context.Context, dir string, refs func(yield func(Ref) bool) error) (err error) {
	to, err := Open(dir, Options{Mirrored: true, FS: s.opts.FS})
	if err != nil {
		return err
	}
	var failed error
	var last Slice // the record that was copied last, with its header
	err = refs(func(r Ref) bool {
		x := r.Slice
		if x.Extent == last.Extent && x.Offset >= last.Offset && x.Offset+x.Length <= last.Offset+last.Length {
			return true
		}
		offset, record, err := s.recordFromAny(x)
		if err == nil {
			err = to.Put(x.Extent, offset, record)
		}
		last = Slice{Extent: x.Extent, Offset: offset, Length: int64(len(record))}
		failed = errors.Join(err, ctx.Err())
		return failed == nil
	})
	if err = errors.Join(err, failed); err == nil {
		err = to.fillGaps()
	}
	if err = errors.Join(err, to.SyncAllPuts(), to.Close()); err != nil {
		return fmt.Errorf("extent: extract: %w", err)
	}
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if name, copied := strings.CutSuffix(e.Name(), copySuffix); copied {
			err = errors.Join(err, s.opts.FS.Rename(filepath.Join(dir, e.Name()), filepath.Join(dir, name+openSuffix)))
		}
	}
	if err = errors.Join(err, s.opts.FS.SyncDir(dir)); err != nil {
		return err
	}
	return writeList(s.opts.FS, dir)
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
			filler := zeros[:size]
			putRecordHeader(filler, crc32.Checksum(filler[recordHeaderSize:], castagnoli), e.id, at)
			if _, err := e.file.WriteAt(filler[:recordHeaderSize], at); err != nil {
				return err
			}
			e.puts++
			e.coverage.add(at, at+size)
		}
	}
	return nil
}
