package extent

import (
	"fmt"
	"hash/crc32"
	"os"
	"sort"
	"sync/atomic"
)

// Reading checks the CRC of each record before bytes of it leave. Records up to 64 KiB are read into memory as a whole, and checked each
// time. Larger ones go from the file to the kernel's socket; they are read and checked once, which a table notes, and again after
// Options.Recheck.

// checked is a table of the records that were found intact lately. A record has one place in it, by the hash of where it is;
// another record may take that place, which costs no more than checking again. An entry has 48 bits of the hash and 16 bits of
// time, in units of Options.Recheck / recheckUnits.
type checked [1 << 15]atomic.Uint64

// recheckUnits is how many units of time an entry lasts.
const recheckUnits = 64

// entry returns the place of the record of that payload and its hash, whose low 16 bits are 0.
func (c *checked) entry(x Slice) (place *atomic.Uint64, hash uint64) {
	h := x.Extent*0x9e3779b97f4a7c15 ^ uint64(x.Offset)*0xd6e8feb86659fd93
	h ^= h >> 32
	h *= 0xd6e8feb86659fd93
	h ^= h >> 29
	return &c[h%uint64(len(c))], h &^ 0xffff
}

func (s *Store) unit() uint64 {
	return uint64(s.now().UnixNano()/max(int64(s.opts.Recheck)/recheckUnits, 1)) & 0xffff
}

func (s *Store) isChecked(x Slice) bool {
	if s.opts.Recheck < 0 {
		return false
	}
	place, hash := s.checked.entry(x)
	v := place.Load()
	return v&^0xffff == hash && v != 0 && (s.unit()-v)&0xffff < recheckUnits
}

func (s *Store) setChecked(x Slice) {
	place, hash := s.checked.entry(x)
	place.Store(hash | s.unit())
}

// Damages returns how many reads have failed since Open because what they read was damaged.
func (s *Store) Damages() int64 { return s.damages.Load() }

// corrupt counts a read that failed, and says what is damaged.
func (s *Store) corrupt(x Slice, format string, args ...any) error {
	s.damages.Add(1)
	return fmt.Errorf("%w: extent %016x, offset %d, %d bytes: %s", ErrCorrupt, x.Extent, x.Offset, x.Length, fmt.Sprintf(format, args...))
}

// check makes sure that the record of which x is a part is intact, unless it was lately. whole is the slice of which x is a part.
func (s *Store) check(h *handle, x, whole Slice) error {
	record, err := s.recordOf(h, x, whole)
	if err != nil {
		return err
	}
	if record.Length > smallRead && s.isChecked(record) {
		return nil
	}
	b := newBuffer(record.Length)
	defer b.free()
	p := b.payload()[:record.Length]
	if n, err := h.file.ReadAt(p, record.Offset); n < len(p) {
		return s.readError(record, err)
	}
	return s.checkBytes(p, record)
}

// checkBytes compares the payload of a record with its CRC.
func (s *Store) checkBytes(p []byte, record Slice) error {
	if crc32.Checksum(p, castagnoli) != record.CRC {
		return s.corrupt(record, "the checksum does not match")
	}
	if record.Length > smallRead {
		s.setChecked(record)
	}
	return nil
}

// recordOf returns the payload of which x is a part, with its CRC: whole, if that is a record, or what the file says.
func (s *Store) recordOf(h *handle, x, whole Slice) (Slice, error) {
	if whole.CRC != 0 && whole.Length <= MaxRecord {
		return whole, nil
	}
	record, err := h.e.recordAt(h.file, x.Offset)
	if err != nil {
		return Slice{}, err
	}
	if record.Length == 0 || record.Offset+record.Length < x.Offset+x.Length {
		return Slice{}, s.corrupt(x, "there is no record")
	}
	return record, nil
}

// indexStep is how far apart the records are that an index knows, in bytes. Those between are found from there.
const indexStep = 64 << 10

// index knows where some of the records of an extent begin, so that the record around a part of one can be found. It is made as far
// as it is needed. Of an extent of 1 GiB it takes 64 KiB.
type index struct {
	starts []uint32 // offsets of headers, at least indexStep apart
	end    int64    // up to which the extent is covered
}

// recordAt returns the record whose payload has the byte at an offset; its length is 0 if there is none.
func (e *extent) recordAt(f *os.File, offset int64) (Slice, error) {
	b := newBuffer(indexStep)
	defer b.free()
	in := &window{f: f, buf: b.bytes}
	e.mu.Lock()
	defer e.mu.Unlock()
	x := &e.index
	at := x.before(offset)
	for at <= offset {
		head, err := in.bytes(at, recordHeaderSize)
		if err != nil || len(head) < recordHeaderSize {
			return Slice{}, err
		}
		length, crc, ok := parseRecordHeader(head, e.id, at)
		if !ok {
			next, err := in.nextHeader(e.id, at, e.size)
			if err != nil || next >= e.size {
				return Slice{}, err
			}
			at = next
			continue
		}
		x.add(at, at+recordHeaderSize+length)
		if at += recordHeaderSize; offset >= at && offset < at+length {
			return Slice{e.id, at, length, crc}, nil
		}
		at += length
	}
	return Slice{}, nil
}

// before returns where to begin looking for the record around an offset.
func (x *index) before(offset int64) int64 {
	if x.end > fileHeaderSize && offset >= x.end {
		return x.end
	}
	if i := sort.Search(len(x.starts), func(i int) bool { return int64(x.starts[i]) > offset }); i > 0 {
		return int64(x.starts[i-1])
	}
	return fileHeaderSize
}

// add notes a record, if it is far enough from the last one that is known.
func (x *index) add(start, end int64) {
	if end <= x.end {
		return
	}
	x.end = end
	if n := len(x.starts); n == 0 || start >= int64(x.starts[n-1])+indexStep {
		x.starts = append(x.starts, uint32(start))
	}
}

// nextHeader returns where the first intact header behind an offset begins, or size if there is none.
func (w *window) nextHeader(id uint64, at, size int64) (int64, error) {
	for at++; at+recordHeaderSize <= size; at++ {
		head, err := w.bytes(at, recordHeaderSize)
		if err != nil {
			return 0, err
		}
		if len(head) < recordHeaderSize {
			break
		}
		if _, _, ok := parseRecordHeader(head, id, at); ok {
			return at, nil
		}
	}
	return size, nil
}
