package extent

import (
	"bytes"
	"fmt"
	"os"
	"sort"
	"sync/atomic"

	"github.com/lazuli-storage/lazuli/internal/storage/crc32c"
)

// Reading checks the CRC of each record before it returns bytes of the record. Records up to 64 KiB are read into
// memory as a whole, and checked each time. Larger records go from the file to the kernel's socket. They are read and
// checked once, recorded in a table, and checked again after Options.Recheck.

// checked is a table of the records that were recently found intact. A record has one entry, determined by the hash of
// its position. Another record may replace the entry; then the first is checked again. An entry has 48 bits of the hash
// and 16 bits of time, in units of Options.Recheck / recheckUnits.
type checked [1 << 15]atomic.Uint64

// recheckUnits is the number of time units that an entry lasts.
const recheckUnits = 64

// entry returns the table entry for the record of that payload and its hash, whose low 16 bits are 0.
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

// Damages returns the number of reads since Open that failed because of damage.
func (s *Store) Damages() int64 { return s.damages.Load() }

// corrupt counts a failed read and returns an error that describes the damage.
func (s *Store) corrupt(x Slice, format string, args ...any) error {
	if !s.isPartial(x.Extent) { // otherwise the node may have missed the record
		s.damages.Add(1)
	}
	return fmt.Errorf("%w: extent %016x, offset %d, %d bytes: %s", ErrCorrupt, x.Extent, x.Offset, x.Length,
		fmt.Sprintf(format, args...))
}

// check verifies the record that contains x, unless it was verified recently. whole is the slice that x is a part of.
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
	if crc32c.Checksum(p) != record.CRC {
		return s.corrupt(record, "the checksum does not match")
	}
	if record.Length > smallRead {
		s.setChecked(record)
	}
	return nil
}

// recordOf returns the payload that contains x, with its CRC: whole, if that is a complete record, or the record found
// in the file.
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

// indexStep is the distance in bytes between the records in an index. The records between them are found by reading
// from there.
const indexStep = 64 << 10

// index holds the offsets of some records of an extent, so that the record around a part of it can be found. It is
// built as far as it is needed. An extent of 1 GiB needs 64 KiB.
type index struct {
	starts []uint32 // offsets of headers, at least indexStep apart
	end    int64    // the index covers the extent up to here
}

// recordAt returns the record whose payload contains the byte at an offset. Its length is 0 if there is no such record.
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

// before returns the offset at which to start the search for the record around an offset.
func (x *index) before(offset int64) int64 {
	if x.end > fileHeaderSize && offset >= x.end {
		return x.end
	}
	if i := sort.Search(len(x.starts), func(i int) bool { return int64(x.starts[i]) > offset }); i > 0 {
		return int64(x.starts[i-1])
	}
	return fileHeaderSize
}

// add adds a record to the index if it is far enough from the last one.
func (x *index) add(start, end int64) {
	if end <= x.end {
		return
	}
	x.end = end
	if n := len(x.starts); n == 0 || start >= int64(x.starts[n-1])+indexStep {
		x.starts = append(x.starts, uint32(start))
	}
}

// nextHeader returns the offset of the first intact header after an offset, or size if none exists.
func (w *window) nextHeader(id uint64, at, size int64) (int64, error) {
	for at++; at+recordHeaderSize <= size; {
		p, err := w.bytes(at, int64(len(w.buf)))
		if err != nil {
			return 0, err
		}
		i := bytes.Index(p, []byte(recordMagic))
		switch {
		case i >= 0 && i+recordHeaderSize <= len(p):
			if _, _, ok := parseRecordHeader(p[i:], id, at+int64(i)); ok {
				return at + int64(i), nil
			}
			at += int64(i) + 1
		case i > 0:
			at += int64(i) // the header ends behind the window
		case len(p) < len(w.buf):
			return size, nil
		default:
			at += int64(len(p) - len(recordMagic) + 1)
		}
	}
	return size, nil
}
