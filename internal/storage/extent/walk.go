package extent

import (
	"bytes"
	"errors"
	"io"

	"github.com/lazuli-storage/lazuli/internal/storage/crc32c"
)

// Walk calls fn with a slice of the payload of every intact record of an extent, in order. It returns the number of
// intact bytes of the file, headers included, and of damaged bytes: damaged records, or the torn tail of an extent that
// was being written. It reads and checks the whole file, and continues after damage.
//
// An error means that the extent could not be walked, or that fn failed, which ends the walk.
func (s *Store) Walk(id uint64, fn func(Slice) error) (intact, damaged int64, err error) {
	e, err := s.pinForReader(id)
	if err != nil {
		return 0, 0, err
	}
	defer e.readers.Add(-1)
	h, err := s.handles.acquire(e)
	if err != nil {
		return 0, 0, err
	}
	defer s.handles.release(h)
	size, err := h.file.Seek(0, io.SeekEnd)
	if err != nil {
		return 0, 0, err
	}
	in, size := s.opts.Restored.file(e, h.file, size)
	x, err := examine(in, id, size, fn)
	return size - x.damaged(), x.damaged(), err
}

// examination is the damage found in an extent.
type examination struct {
	// gaps are the ranges without intact records. The last one reaches to the end of the file if there is a torn tail.
	gaps []span
	// end is the end of the last intact record; 0 if neither the file's header nor any record is intact.
	end int64
}

func (x *examination) damaged() (n int64) {
	for _, g := range x.gaps {
		n += int64(g.length)
	}
	return n
}

// touches reports whether a slice overlaps a gap.
func (x *examination) touches(s Slice) bool {
	for _, g := range x.gaps {
		if s.Offset < int64(g.offset)+int64(g.length) && s.Offset+s.Length > int64(g.offset) {
			return true
		}
	}
	return len(x.gaps) == 0 && s.Offset+s.Length > x.end
}

// examine walks an extent of the given size.
func examine(f io.ReaderAt, id uint64, size int64, fn func(Slice) error) (x examination, err error) {
	b := newBuffer(MaxRecord)
	defer b.free()
	in := &window{f: f, buf: b.bytes}
	head, err := in.bytes(0, fileHeaderSize)
	if err != nil {
		return x, err
	}
	at := int64(0)
	if bytes.Equal(head, fileHeader(id)) {
		at = fileHeaderSize
	}
	x.end = at
	for at < size {
		record, err := in.record(id, at)
		if err != nil {
			return x, err
		}
		if record.Length == 0 || at == 0 {
			next, err := in.nextRecord(id, at, size)
			if err != nil {
				return x, err
			}
			x.gaps = append(x.gaps, span{uint32(at), uint32(next - at)})
			at = next
			continue
		}
		if fn != nil {
			if err := fn(record); err != nil {
				return x, err
			}
		}
		at = record.Offset + record.Length
		x.end = at
	}
	return x, nil
}

// record returns the intact record whose header is at an offset. Its length is 0 if there is no such record.
func (w *window) record(id uint64, at int64) (Slice, error) {
	head, err := w.bytes(at, recordHeaderSize)
	if err != nil || len(head) < recordHeaderSize {
		return Slice{}, err
	}
	length, crc, ok := parseRecordHeader(head, id, at)
	if !ok {
		return Slice{}, nil
	}
	record, err := w.bytes(at, recordHeaderSize+length)
	if err != nil || int64(len(record)) < recordHeaderSize+length ||
		crc32c.Checksum(record[recordHeaderSize:]) != crc {
		return Slice{}, err
	}
	return Slice{id, at + recordHeaderSize, length, crc}, nil
}

// nextRecord returns the offset of the first intact record after an offset, or size if none exists.
func (w *window) nextRecord(id uint64, at, size int64) (int64, error) {
	// If the header is intact, it says where the next record is.
	if head, err := w.bytes(at, recordHeaderSize); err != nil {
		return 0, err
	} else if len(head) == recordHeaderSize {
		if length, _, ok := parseRecordHeader(head, id, at); ok {
			next := at + recordHeaderSize + length
			if r, err := w.record(id, next); err != nil || r.Length > 0 {
				return next, err
			}
		}
	}
	for at++; at+recordHeaderSize <= size; {
		p, err := w.bytes(at, int64(len(w.buf)))
		if err != nil {
			return 0, err
		}
		i := bytes.Index(p, []byte(recordMagic))
		if i < 0 {
			if at += int64(max(len(p)-len(recordMagic)+1, 1)); len(p) < len(w.buf) {
				return size, nil
			}
			continue
		}
		at += int64(i)
		if r, err := w.record(id, at); err != nil || r.Length > 0 {
			return at, err
		}
		at++
	}
	return size, nil
}

// window reads a file forward in large steps.
type window struct {
	f    io.ReaderAt
	buf  []byte
	at   int64 // file offset of buf
	have int
}

// bytes returns n bytes at offset, fewer only at the end of the file. n must not exceed len(buf).
func (w *window) bytes(offset, n int64) ([]byte, error) {
	if offset < w.at || offset+n > w.at+int64(w.have) {
		m, err := w.f.ReadAt(w.buf, offset)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		w.at, w.have = offset, m
	}
	p := w.buf[offset-w.at : w.have]
	return p[:min(n, int64(len(p)))], nil
}
