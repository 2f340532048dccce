package extent

import (
	"bytes"
	"errors"
	"io"

	"github.com/lazuli-storage/lazuli/internal/storage/crc32c"
)

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
	// All bytes before at are in records that fn got or in gaps, and x.end is the end of the last record.
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
