package extent

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"syscall"

	"github.com/lazuli-storage/lazuli/internal/storage/disk"
)

// Bulk lanes write past the page cache (direct I/O) where the file system can, because copying into fresh pages took most of the processor time
// of large uploads, and one of them replaced everything else in the cache. Direct writes need memory, offsets and lengths that are multiples of
// the block size of the device. So each record of such an extent is followed by filler up to the next multiple of directAlign: a record of zeros
// that nothing refers to. It is part of the format since version 1: filler is dead content.

// directAlign is the alignment of direct writes in bytes. It is a multiple of the block sizes of devices, 512 or 4096.
const directAlign = 4096

// maxFiller is the maximum size of filler, in bytes: it has a header and at least one byte.
const maxFiller = directAlign + recordHeaderSize

// fillerCRC has the CRC-32C of n zeros at index n.
var fillerCRC = func() (sums [maxFiller]uint32) {
	zeros := make([]byte, maxFiller)
	for n := range sums {
		sums[n] = crc32.Checksum(zeros[:n], castagnoli)
	}
	return sums
}()

// addFiller returns p, which lies at an aligned offset of an extent, with filler behind its first n bytes. p must have room for it.
func addFiller(p []byte, n int, id uint64, offset int64) []byte {
	filler := int(fillerBehind(int64(n)))
	if p = p[:n+filler]; filler > 0 {
		clear(p[n:])
		putRecordHeader(p[n:], fillerCRC[filler-recordHeaderSize], id, offset+int64(n))
	}
	return p
}

// fillerBehind returns the size of the filler behind a record that ends at an offset, 0 for none.
func fillerBehind(end int64) int64 {
	n := -end & (directAlign - 1)
	if n > 0 && n <= recordHeaderSize {
		n += directAlign
	}
	return n
}

// begin creates the file of an extent and writes its header. It tries direct I/O if direct is set; otherwise, or if the file system cannot do
// that, writes go through the page cache.
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
