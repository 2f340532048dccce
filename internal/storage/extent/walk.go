package extent

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
)

// Walk calls fn for every record of an extent, in order: a slice of its payload. It returns how many bytes of the file
// are intact, header included, and how many follow that are no record (a torn tail). It reads and checks everything.
//
// An error means that the extent could not be walked, or is fn's, which ends the walk.
func (s *Store) Walk(id uint64, fn func(Slice) error) (intact, torn int64, err error) {
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
	intact, err = walk(h.file, id, fn)
	return intact, size - intact, err
}

// walk returns the end of the last intact record; 0 if not even the file's header is intact.
func walk(f io.ReaderAt, id uint64, fn func(Slice) error) (int64, error) {
	b := newBuffer(MaxRecord)
	defer b.free()
	in := &window{f: f, buf: b.bytes}

	head, err := in.bytes(0, fileHeaderSize)
	if err != nil {
		return 0, err
	}
	if !bytes.Equal(head, fileHeader(id)) {
		return 0, nil
	}
	at := int64(fileHeaderSize)
	for {
		head, err := in.bytes(at, recordHeaderSize)
		if err != nil {
			return at, err
		}
		if len(head) < recordHeaderSize {
			return at, nil
		}
		length, crc, ok := parseRecordHeader(head, id, at)
		if !ok {
			return at, nil
		}
		record, err := in.bytes(at, recordHeaderSize+length)
		if err != nil {
			return at, err
		}
		if int64(len(record)) < recordHeaderSize+length || crc32.Checksum(record[recordHeaderSize:], castagnoli) != crc {
			return at, nil
		}
		if fn != nil {
			if err := fn(Slice{id, at + recordHeaderSize, length, crc}); err != nil {
				return at, err
			}
		}
		at += recordHeaderSize + length
	}
}

// window reads a file forward in large steps.
type window struct {
	f    io.ReaderAt
	buf  []byte
	at   int64 // offset in the file of what buf holds
	have int
}

// bytes returns n bytes at offset, fewer only at the end of the file. n is at most len(buf).
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

// recover finishes an extent that was being written when the process ended: it cuts the torn tail, and removes the
// file if nothing is left.
func (e *extent) recover() error {
	open := e.s.path(e.id, openSuffix)
	f, err := os.OpenFile(open, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	end, err := walk(f, e.id, nil)
	if err != nil {
		return err
	}
	if end <= fileHeaderSize {
		e.finished = true
		return os.Remove(open)
	}
	if err := f.Truncate(end); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := os.Rename(open, e.s.path(e.id, sealedSuffix)); err != nil {
		return fmt.Errorf("finish: %w", err)
	}
	e.size, e.synced, e.named, e.finished = end, end, true, true
	return nil
}
