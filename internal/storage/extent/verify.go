package extent

import (
	"fmt"
	"io"

	"github.com/lazuli-storage/lazuli/internal/storage/crc32c"
)

// Reading checks the CRC of each record before it returns bytes of the record. Records up to 64 KiB are read into
// memory as a whole, and checked each time. Larger records go from the file to the kernel's socket. They are read and
// checked once, recorded in a table, and checked again after Options.Recheck.

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

// recordAt returns the record whose payload contains the byte at an offset. Its length is 0 if there is no such record.
func (e *extent) recordAt(f io.ReaderAt, offset int64) (Slice, error) {
	if e.remote.Load() {
		return e.recordAround(f, offset)
	}
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

// recordAround is recordAt without an index, which would have to be fetched from the beginning of the extent: it looks
// for the header before an offset. A header depends on its extent and place, so that content does not pass for one by
// accident, and one that was made to lies within the record of who made it.
func (e *extent) recordAround(f io.ReaderAt, offset int64) (Slice, error) {
	b := newBuffer(MaxRecord)
	defer b.free()
	from := max(fileHeaderSize, offset-MaxRecord-recordHeaderSize+1)
	p := b.bytes[:max(offset-from, 0)]
	if n, err := f.ReadAt(p, from); n < len(p) {
		return Slice{}, err
	}
	for i := len(p) - recordHeaderSize; i >= 0; i-- {
		if p[i] != recordMagic[0] || string(p[i:i+len(recordMagic)]) != recordMagic {
			continue
		}
		at := from + int64(i)
		length, crc, ok := parseRecordHeader(p[i:], e.id, at)
		if at += recordHeaderSize; ok && offset < at+length {
			return Slice{e.id, at, length, crc}, nil
		}
	}
	return Slice{}, nil
}
