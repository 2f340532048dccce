package query

import (
	"errors"
	"io"

	"github.com/lazuli-storage/lazuli/internal/budget"
)

const (
	// maxRecord is the maximum length of a record in bytes.
	maxRecord = 4 << 20
	// readSize is the size of one read.
	readSize = 256 << 10
)

// window is the part of the content in memory: the record that is being parsed, and the bytes after it that have been
// read ahead.
type window struct {
	src  io.Reader
	work *budget.Work
	buf  []byte
	// start is the record's index in buf, end is the end of the bytes read; base is the offset of buf[0] in the content.
	start, end int
	base       int64
	eof        bool
}

// bytes returns the buffered bytes from the start of the record.
func (w *window) bytes() []byte { return w.buf[w.start:w.end] }

// offset returns the record's offset in the content.
func (w *window) offset() int64 { return w.base + int64(w.start) }

// more reads more bytes. It invalidates slices that bytes returned before. It returns io.EOF at the end of
// the content, and errRecordTooLong if the record fills the window.
func (w *window) more() error {
	if w.eof {
		return io.EOF
	}
	if w.end-w.start >= maxRecord+readSize {
		return errRecordTooLong
	}
	if free := len(w.buf) - w.end; free < readSize/2 {
		to := w.buf
		if used := w.end - w.start; used+readSize > len(w.buf) {
			to = make([]byte, max(2*used, 2*readSize))
		}
		n := copy(to, w.bytes())
		w.buf, w.base, w.start, w.end = to, w.offset(), 0, n
	}
	// Fill the buffer, even if the content arrives in small pieces: readers parse the record from its start after each
	// call.
	n, err := io.ReadFull(w.src, w.buf[w.end:min(len(w.buf), w.end+readSize)])
	w.end += n
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		w.eof = true
		if err = nil; n == 0 {
			return io.EOF
		}
	}
	if err != nil {
		return err
	}
	return w.work.Read(n)
}
